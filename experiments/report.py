"""Tables and pictures of the runs in a file of results.

python experiments/report.py --results=docs/results.jsonl --pictures=docs/results

Of each variant the rate with the best validation mAP at its first seed counts; scores are means
over the seeds at that rate, with the largest difference from the mean.
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import matplotlib
import numpy as np
from absl import flags

from doap_tf import commands, files
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_string("results", "docs/results.jsonl", "Runs, one JSON object a line.")
flags.DEFINE_string("pictures", None, "Folder to draw a picture of each experiment to.")

_SCORES = {
    "matching_map": "matching mAP",
    "matching_map_tough": "matching mAP, tough",
    "retrieval_map": "retrieval mAP",
    "fpr95": "FPR95",
}
_PARTS = ("validation", "test")

Runs = list[dict[str, Any]]


def main(argv: Sequence[str]) -> None:
    del argv
    try:
        lines = pathlib.Path(FLAGS.results).read_text().splitlines()
        runs = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read --results={FLAGS.results}: {error}.") from error
    for experiment in dict.fromkeys(run["experiment"] for run in runs):
        variants = at_best_rate([run for run in runs if run["experiment"] == experiment])
        print(f"\n{experiment}\n\n{table(variants)}")
        if FLAGS.pictures:
            path = pathlib.Path(FLAGS.pictures) / f"{experiment}.png"
            with files.write_atomically(path) as temporary:
                draw(variants, temporary)


def at_best_rate(runs: Runs) -> dict[str, Runs]:
    """The runs of each variant at the rate that was best at its first seed."""
    chosen = {}
    for variant in dict.fromkeys(run["variant"] for run in runs):
        mine = [run for run in runs if run["variant"] == variant]
        first = [run for run in mine if run["seed"] == mine[0]["seed"]]
        best = max(first, key=lambda run: run["scores"]["validation"]["matching_map"])
        chosen[variant] = [run for run in mine if run["learning_rate"] == best["learning_rate"]]
    return chosen


def table(variants: dict[str, Runs]) -> str:
    """Markdown: a row a variant, validation / test in each cell."""
    rows = [["variant", "rate", "seeds", *_SCORES.values()]]
    rows.append(["---"] * len(rows[0]))
    for name, runs in variants.items():
        cells = []
        for score in _SCORES:
            parts = []
            for part in _PARTS:
                values = np.array([run["scores"][part][score] for run in runs])
                spread = np.abs(values - values.mean()).max()
                text = f"{values.mean():.3f}" + (f" ±{spread:.3f}" if len(runs) > 1 else "")
                parts.append(text.replace("0.", "."))
            cells.append(" / ".join(parts))
        rows.append([name, f"{runs[0]['learning_rate']:g}", str(len(runs)), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw(variants: dict[str, Runs], path: pathlib.Path) -> None:
    """A dot a seed: matching mAP of each variant on both parts; lines over the list's length where
    variants are named for it, as in `ap-2048`."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = [name.rpartition("-") for name in variants]
    lengths = all(length.isdigit() for _, _, length in names)
    width = 7.5 if lengths else 1.2 + 1.1 * len(variants)
    figure, axis = pyplot.subplots(figsize=(width, 3.2), layout="constrained")
    (_draw_lines if lengths else _draw_columns)(axis, variants)
    axis.set_ylabel("matching mAP")
    axis.grid(axis="y", alpha=0.3)
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axis.legend(
        unique.values(),
        unique.keys(),
        fontsize="small",
        loc="upper left",
        bbox_to_anchor=(1, 1),
    )
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_columns(axis: Any, variants: dict[str, Runs]) -> None:
    for part, colour in zip(_PARTS, ("tab:blue", "tab:orange"), strict=True):
        for place, runs in enumerate(variants.values()):
            values = _values(runs, part)
            axis.plot([place] * len(values), values, "o", color=colour, label=part, alpha=0.7)
    axis.set_xticks(range(len(variants)), list(variants), rotation=30, ha="right")


def _draw_lines(axis: Any, variants: dict[str, Runs]) -> None:
    lines: dict[str, dict[int, Runs]] = {}
    for name, runs in variants.items():
        loss, _, length = name.rpartition("-")
        lines.setdefault(loss, {})[int(length)] = runs
    for number, (loss, by_length) in enumerate(lines.items()):
        by_length = dict(sorted(by_length.items()))
        for part, style in zip(_PARTS, ("-", "--"), strict=True):
            means = [np.mean(_values(runs, part)) for runs in by_length.values()]
            axis.plot(list(by_length), means, style, color=f"C{number}", label=f"{loss}, {part}")
            for length, runs in by_length.items():
                values = _values(runs, part)
                axis.plot([length] * len(values), values, ".", color=f"C{number}")
    lengths = sorted({length for by_length in lines.values() for length in by_length})
    axis.set_xscale("log", base=2)
    axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axis.set_xlabel("patches in a list")


def _values(runs: Runs, part: str) -> list[float]:
    return [run["scores"][part]["matching_map"] for run in runs]


if __name__ == "__main__":
    commands.run(main)
