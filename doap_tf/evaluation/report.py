"""Reports: JSON, CSV, Markdown, plots and a page that shows them together."""

import csv
import html
import json
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from doap_tf.drawing import plots
from doap_tf.drawing.pages import web_page
from doap_tf.drawing.patches import tile
from doap_tf.drawing.pictures import write_picture
from doap_tf.drawing.tables import Table, percent
from doap_tf.errors import InputError
from doap_tf.evaluation.result import Result, flattened
from doap_tf.evaluation.ubc import train_test_scores
from doap_tf.files import write_directory_atomically


def write_report(results: Sequence[Result], report_dir: str | os.PathLike) -> pathlib.Path:
    """Writes a folder named after benchmark and split below `report_dir`, atomically.

    Args:
        results: One per model, all on the same benchmark and split.
        report_dir: Parent of the folder; an older report of the same name is replaced.

    Returns:
        The folder: one JSON file per model, `scores.csv`, `scores.md`, plots and `index.html`.
    """
    first = results[0]
    if any((r.benchmark, r.split) != (first.benchmark, first.split) for r in results):
        raise ValueError("results of one report must be on the same benchmark and split.")
    name = _slug(f"{first.benchmark}-{first.split}" if len(first.split) < 8 else first.benchmark)
    tables = comparison_tables(results)
    try:
        with write_directory_atomically(pathlib.Path(report_dir) / name) as folder:
            for result in results:
                record = json.dumps(result.record(), indent=2, ensure_ascii=False, allow_nan=False)
                (folder / f"{_slug(result.model.name)}.json").write_text(record + "\n", "utf-8")
            _write_csv(folder / "scores.csv", results)
            markdown = "\n\n".join(f"## {t.title} [%]\n\n{t.markdown()}" for t in tables)
            text = "\n\n".join([f"# {first.benchmark}", *protocols(results), f"{markdown}\n"])
            (folder / "scores.md").write_text(text, "utf-8")
            pictures = _pictures(results)
            for title, picture in pictures.items():
                write_picture(folder / f"{_slug(title)}.png", picture)
            (folder / "index.html").write_text(_page(results, tables, list(pictures)), "utf-8")
    except OSError as error:
        raise InputError(f"the report cannot be written below {report_dir}: {error}.") from error
    return pathlib.Path(report_dir) / name


def protocols(results: Sequence[Result]) -> list[str]:
    """Returns the protocol of results as a sentence, or one for each model where they differ."""
    if len({result.protocol for result in results}) == 1:
        return [f"{results[0].protocol}."]
    return [f"{result.model.name}: {result.protocol}." for result in results]


def comparison_tables(results: Sequence[Result]) -> list[Table]:
    """Returns the summary of results on one benchmark, then the tables of its details."""
    rows = {"Summary": {result.model.name: result.summary for result in results}}
    if results[0].benchmark == "ubc":
        rows["FPR95 by training and test set"] = train_test_scores(results)
    for result in results:
        for title, columns in result.details.items():
            rows.setdefault(title, {})[result.model.name] = columns
    return [Table(by_model, form=percent, title=title) for title, by_model in rows.items()]


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)


def _write_csv(path: pathlib.Path, results: Sequence[Result]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["benchmark", "split", "model", "score", "value"])
        for result in results:
            for score, value in flattened(result.scores):
                writer.writerow([result.benchmark, result.split, result.model.name, score, value])


def _pictures(results: Sequence[Result]) -> dict[str, np.ndarray]:
    """Draws the plots that the results have material for, by title."""
    pictures: dict[str, np.ndarray] = {}
    by_model = {result.model.name: result.plots for result in results}
    panels: dict[str, dict[str, plots.Bar]] = {}
    for model, of_model in by_model.items():
        for title, bar in of_model.bars.items():
            panels.setdefault(title, {})[model] = bar
    if panels:
        pictures["Scores by level"] = plots.draw_bars(panels)
    if any(of_model.precision_recall for of_model in by_model.values()):
        curves = {model: of_model.precision_recall for model, of_model in by_model.items()}
        pictures["Precision and recall"] = plots.draw_curves(curves, "recall", "precision")
    if any(of_model.roc for of_model in by_model.values()):
        curves = {model: of_model.roc for model, of_model in by_model.items()}
        axes = "false positive rate", "true positive rate"
        pictures["ROC"] = plots.draw_curves(curves, *axes)
    trained = [
        (result.model.training["batch_size"], 100 * result.summary["FPR95 mean"], result.model.name)
        for result in results
        if "batch_size" in result.model.training and "FPR95 mean" in result.summary
    ]
    if len(trained) > 1:
        picture = plots.draw_over_batch_size(trained, "mean FPR95 [%]")
        pictures["FPR95 over batch size"] = picture
    distances = {
        f"{model}: {title}": pair
        for model, of_model in by_model.items()
        for title, pair in of_model.distances.items()
    }
    if distances:
        pictures["Distances"] = plots.draw_distances(distances)
    for model, of_model in by_model.items():
        for examples in of_model.examples:
            pictures[f"{model}: {examples.title}"] = tile(list(examples.patches), examples.roles)
    return pictures


def _page(results: Sequence[Result], tables: Sequence[Table], pictures: Sequence[str]) -> str:
    first = results[0]
    summary, *details = [f"<h2>{html.escape(t.title)}</h2>{t.html()}" for t in tables]
    parts = [
        *(f'<p class="quiet">{html.escape(line)}</p>' for line in protocols(results)),
        '<p class="quiet">Scores in percent.</p>',
        summary,
    ]
    for heading in pictures:
        alt = html.escape(heading)
        parts.append(f'<h2>{alt}</h2><img src="{_slug(heading)}.png" alt="{alt}">')
    parts += [*details, "<h2>Records</h2>"]
    for result in results:
        record = result.record()
        del record["scores"]
        text = html.escape(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
        link = f"{_slug(result.model.name)}.json"
        parts.append(f'<p><a href="{link}">{link}</a></p><pre>{text}</pre>')
    return web_page(f"{first.benchmark}, {first.split}", parts)
