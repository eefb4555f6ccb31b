"""Reports: JSON, CSV, Markdown, plots and a page that shows them together."""

import csv
import hashlib
import html
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

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

_LONGEST_NAME = 100


def write_report(results: Sequence[Result], report_dir: str | os.PathLike) -> pathlib.Path:
    """Writes a folder named after benchmark and split below `report_dir`, atomically.

    An earlier report is replaced only if the new one repeats all its records; otherwise the folder
    gets a number, `-2`, `-3`, …

    Args:
        results: One per model, all on the same benchmark and split.
        report_dir: Parent of the folder.

    Returns:
        The folder: one JSON file per model, `scores.csv`, `scores.md`, plots and `index.html`.
    """
    first = results[0]
    if any((r.benchmark, r.split) != (first.benchmark, first.split) for r in results):
        raise ValueError("results of one report must be on the same benchmark and split.")
    files = _file_names((result.model.name for result in results), ".json")
    if len(files) < len(results):
        raise ValueError("results of one report must be of models with different names.")
    records = {files[result.model.name]: _json(result.record()) + "\n" for result in results}
    tables = comparison_tables(results)
    name = _slug(f"{first.benchmark}-{first.split}")
    try:
        path = _report_folder(pathlib.Path(report_dir), name, records)
        with write_directory_atomically(path) as folder:
            for file, record in records.items():
                (folder / file).write_text(record, "utf-8")
            _write_csv(folder / "scores.csv", results)
            markdown = "\n\n".join(f"## {heading(t)}\n\n{t.markdown()}" for t in tables)
            text = "\n\n".join([f"# {first.benchmark}", *protocols(results), f"{markdown}\n"])
            (folder / "scores.md").write_text(text, "utf-8")
            pictures = _pictures(results)
            images = _file_names(pictures, ".png")
            for title, picture in pictures.items():
                write_picture(folder / images[title], picture)
            (folder / "index.html").write_text(_page(results, tables, images, files), "utf-8")
    except OSError as error:
        raise InputError(f"the report cannot be written below {report_dir}: {error}.") from error
    return path


def protocols(results: Sequence[Result]) -> list[str]:
    """Returns the protocol of results as a sentence, or one for each model where they differ.

    What models have seen of the benchmark follows.
    """
    seen = [result.seen for result in results if result.seen]
    if len({result.protocol for result in results}) == 1:
        return [f"{results[0].protocol}.", *seen]
    return [*(f"{result.model.name}: {result.protocol}." for result in results), *seen]


def comparison_tables(results: Sequence[Result]) -> list[Table]:
    """Returns the summary of results on one benchmark, then the tables of its details."""
    rows = {"Summary": {result.model.name: result.summary for result in results}}
    if results[0].benchmark == "ubc":
        rows["FPR95 by training and test set"] = train_test_scores(results)
    for result in results:
        for title, columns in result.details.items():
            rows.setdefault(title, {})[result.model.name] = columns
    tables = [
        Table(by_model, format_value=percent, title=title) for title, by_model in rows.items()
    ]
    measures = {result.model.name: result.measures for result in results if result.measures}
    if measures:
        table = Table(measures, format_value="{:,.4g}".format, title="Means over pairs or images")
        tables.insert(1, table)
    return tables


def heading(table: Table) -> str:
    """Returns the title of a table with the unit of its values."""
    return f"{table.title} [%]" if table.format_value is percent else table.title


def _report_folder(parent: pathlib.Path, name: str, records: Mapping[str, str]) -> pathlib.Path:
    """Returns the first folder of this name that does not hold other records than these."""
    if len(name) > _LONGEST_NAME:  # the names of many sequences
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return next(
        parent / numbered
        for numbered in _numbered(name)
        if all(
            file.read_text("utf-8") == records.get(file.name)
            for file in (parent / numbered).glob("*.json")
        )
    )


def _file_names(titles: Iterable[str], suffix: str) -> dict[str, str]:
    """Returns a file name for every title, no two of them the same."""
    names: dict[str, str] = {}
    for title in titles:
        candidates = (name + suffix for name in _numbered(_slug(title)))
        names[title] = next(name for name in candidates if name not in names.values())
    return names


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))


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
    for title, kind, axes in (
        ("Precision and recall", "precision_recall", ("recall", "precision")),
        ("ROC", "roc", ("false positive rate", "true positive rate")),
    ):
        curves = {model: getattr(of_model, kind) for model, of_model in by_model.items()}
        if any(curves.values()):
            pictures[title] = plots.draw_curves(curves, *axes)
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


def _page(
    results: Sequence[Result],
    tables: Sequence[Table],
    images: Mapping[str, str],
    files: Mapping[str, str],
) -> str:
    """Makes the page from tables, the files of pictures by title and of records by model."""
    first = results[0]
    summary, *details = [f"<h2>{html.escape(heading(t))}</h2>{t.html()}" for t in tables]
    parts = [
        *(f'<p class="quiet">{html.escape(line)}</p>' for line in protocols(results)),
        summary,
    ]
    for title, image in images.items():
        text = html.escape(title)
        parts.append(f'<h2>{text}</h2><img src="{image}" alt="{text}">')
    parts += [*details, "<h2>Records</h2>"]
    for result in results:
        record = result.record()
        del record["scores"]
        link = files[result.model.name]
        parts.append(f'<p><a href="{link}">{link}</a></p><pre>{html.escape(_json(record))}</pre>')
    return web_page(f"{first.benchmark}, {first.split}", parts)


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
