"""Scores variants of an extractor on the same pairs, by the flags of the script that imports it."""

from collections.abc import Iterable
from typing import Any

from absl import flags

FLAGS = flags.FLAGS


def score(variants: Iterable[Any]) -> None:
    """Runs the benchmark that the flags choose on `ImageModel`s; prints and writes a report."""
    from doap_tf import evaluation

    benchmark: Any
    if FLAGS.benchmark == "pose":
        benchmark = evaluation.Pose(FLAGS.data_dir, threshold=FLAGS.threshold)
    else:
        (folder,) = FLAGS.data_dir
        benchmark = evaluation.Homography(folder, threshold=FLAGS.threshold)
    results = [benchmark.evaluate(model) for model in variants]
    folder = evaluation.write_report(results, FLAGS.report_dir)
    for table in evaluation.comparison_tables(results)[:3]:
        print(f"{evaluation.heading(table)}:\n\n{table.markdown()}\n")
    print(f"{folder / 'index.html'} shows them with plots.")
