"""Reports: JSON, CSV, Markdown, plots and one page that shows them together."""

import csv
import html
import json
import os
import pathlib
import re
from collections.abc import Sequence

from matplotlib.figure import Figure

from doap_tf.errors import InputError
from doap_tf.evaluation import plots
from doap_tf.evaluation.result import Result, flattened
from doap_tf.evaluation.tables import Table, comparison_tables
from doap_tf.files import write_directory_atomically

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em;
       color: #1c2733; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; display: block; overflow-x: auto; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #d5dce4; text-align: right;
         vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
pre { background: #f3f5f8; padding: 1em; overflow-x: auto; }
.protocol { color: #52616f; }
"""


def write_report(results: Sequence[Result], report_dir: str | os.PathLike) -> pathlib.Path:
    """Writes a folder named after benchmark and split below `report_dir`, whole or not at all.

    Args:
        results: One a model, all on the same benchmark and split.
        report_dir: Where the folder is put; an older report of the same name is replaced.

    Returns:
        The folder: a JSON file a model, `scores.csv`, `scores.md`, plots and `index.html`.
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
            text = f"# {first.benchmark}\n\n{first.protocol}.\n\n{markdown}\n"
            (folder / "scores.md").write_text(text, "utf-8")
            pictures = _write_plots(folder, results)
            page = _page(results, tables, pictures)
            (folder / "index.html").write_text(page, "utf-8")
    except OSError as error:
        raise InputError(f"the report cannot be written below {report_dir}: {error}.") from error
    return pathlib.Path(report_dir) / name


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)


def _write_csv(path: pathlib.Path, results: Sequence[Result]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["benchmark", "split", "model", "score", "value"])
        for result in results:
            for score, value in flattened(result.scores):
                writer.writerow([result.benchmark, result.split, result.model.name, score, value])


def _write_plots(folder: pathlib.Path, results: Sequence[Result]) -> list[tuple[str, str]]:
    """Writes the plots that the results have material for; gives their titles and file names."""
    figures: list[tuple[str, str, Figure]] = []
    if {"verification", "matching", "retrieval"} & results[0].summary.keys():
        figures.append(("Tasks by level", "bars", plots.hpatches_bars(results)))
    if any(result.plots.precision_recall for result in results):
        figures.append(
            ("Precision and recall", "precision_recall", plots.precision_recall(results))
        )
    if any(result.plots.roc for result in results):
        figures.append(("ROC", "roc", plots.roc(results)))
    if sum(map(plots.has_batch_size, results)) > 1:
        figure = plots.fpr_against_batch_size(results)
        figures.append(("FPR95 against batch size", "fpr95_batch_size", figure))
    if any(result.plots.distances for result in results):
        figures.append(("Distances", "distances", plots.distance_histograms(results)))
    for result in results:
        for number, strip in enumerate(result.plots.strips):
            name = f"strip_{_slug(result.model.name)}_{number}"
            figures.append((f"{result.model.name}: {strip.title}", name, plots.patch_strip(strip)))
    for _, name, figure in figures:
        figure.savefig(folder / f"{name}.png", dpi=110)
    return [(title, f"{name}.png") for title, name, _ in figures]


def _page(
    results: Sequence[Result], tables: Sequence[Table], pictures: Sequence[tuple[str, str]]
) -> str:
    first = results[0]
    title = html.escape(f"{first.benchmark}, {first.split}")
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="protocol">{html.escape(first.protocol)}. Scores in percent.</p>',
    ]
    summary, *details = [f"<h2>{html.escape(t.title)}</h2>{_html_table(t)}" for t in tables]
    parts.append(summary)
    for heading, name in pictures:
        alt = html.escape(heading)
        parts.append(f'<h2>{alt}</h2><img src="{html.escape(name)}" alt="{alt}">')
    parts += details
    parts.append("<h2>Records</h2>")
    for result in results:
        record = result.record()
        del record["scores"]
        text = html.escape(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
        link = html.escape(f"{_slug(result.model.name)}.json")
        parts.append(f'<p><a href="{link}">{link}</a></p><pre>{text}</pre>')
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _html_table(table: Table) -> str:
    head, *rows = table.cells()
    lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
