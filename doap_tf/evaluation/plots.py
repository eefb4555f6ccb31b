"""Plots of results: bars, curves, histograms and strips of patches."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from doap_tf.evaluation.hpatches.patch_sequences import LEVELS
from doap_tf.evaluation.result import Curve, Result, Strip

_LEVEL_COLOURS = dict(zip(LEVELS, ("#2e8b57", "#e08a00", "#c0392b"), strict=True))
_BAR_COLOUR = "#c9d3df"
_TASKS = {
    "verification": ("Patch verification", "imbalanced AP"),
    "matching": ("Image matching", "mAP"),
    "retrieval": ("Patch retrieval", "mAP"),
}
_MARKERS = {
    "same_sequence": ("D", "same sequence"),
    "other_sequences": ("o", "other sequences"),
    "illumination": ("*", "illumination"),
    "viewpoint": ("^", "viewpoint"),
    "mean": ("s", "mean"),
}
_BINS = 60


def hpatches_bars(results: Sequence[Result]) -> Figure:
    """The benchmark's own figure: a bar a model and task, markers coloured by level."""
    tasks = [task for task in _TASKS if task in results[0].summary]
    figure = Figure(figsize=(5 * len(tasks), 2.2 + 0.4 * len(results)), layout="constrained")
    used: set[str] = set()
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        ranked = sorted(results, key=lambda result: result.summary[task])
        values = [100 * result.summary[task] for result in ranked]
        axes.barh(range(len(ranked)), values, color=_BAR_COLOUR, edgecolor="#33475b")
        for place, result in enumerate(ranked):
            used |= _level_marks(axes, place, result, task)
        for place, value in enumerate(values):
            axes.text(102, place, f"{value:.2f}", va="center")
        title, measure = _TASKS[task]
        axes.set(
            title=title,
            xlabel=f"{measure} [%]",
            xlim=(0, 100),
            yticks=range(len(ranked)),
            yticklabels=[result.model.name for result in ranked],
        )
        axes.grid(axis="x", linestyle=":", color="#888888")
        axes.set_axisbelow(True)
    handles = [(colour, "s", level) for level, colour in _LEVEL_COLOURS.items()]
    if len(used) > 1:
        handles += [("black", *_MARKERS[kind]) for kind in _MARKERS if kind in used]
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker=marker, linestyle="", label=label)
            for colour, marker, label in handles
        ],
        loc="outside upper center",
        ncols=len(handles),
    )
    return figure


def _level_marks(axes: Axes, place: int, result: Result, task: str) -> set[str]:
    """Draws a model's scores by level onto its bar and gives the kinds of markers used."""
    used = set()
    for level, colour in _LEVEL_COLOURS.items():
        scores = result.scores[task][level]
        if task == "verification":
            marks = {kind: values["imbalanced_ap"] for kind, values in scores.items()}
        else:
            kinds = [kind for kind in ("illumination", "viewpoint") if kind in scores]
            marks = {kind: scores[kind] for kind in kinds or ["mean"]}
        for kind, value in marks.items():
            axes.plot(100 * value, place, _MARKERS[kind][0], color=colour, markersize=6)
            used.add(kind)
    return used


def precision_recall(results: Sequence[Result]) -> Figure:
    """Precision over recall, a panel a list and a line a model."""
    return _curves({r.model.name: r.plots.precision_recall for r in results}, "recall", "precision")


def roc(results: Sequence[Result]) -> Figure:
    """True over false positive rate, a panel a list and a line a model."""
    return _curves(
        {r.model.name: r.plots.roc for r in results}, "false positive rate", "true positive rate"
    )


def _curves(curves: dict[str, dict[str, Curve]], x: str, y: str) -> Figure:
    names = list(dict.fromkeys(name for panels in curves.values() for name in panels))
    figure, panels = _panels(names)
    for axes, name in zip(panels, names, strict=True):
        for model, of_model in curves.items():
            if name in of_model:
                axes.plot(of_model[name].x, of_model[name].y, label=model)
        axes.set(title=name, xlabel=x, ylabel=y, xlim=(0, 1), ylim=(0, 1.01))
        axes.grid(linestyle=":", color="#888888")
    panels[0].legend(fontsize="small")
    return figure


def distance_histograms(results: Sequence[Result]) -> Figure:
    """Distances of matches and of others, a panel a model and list."""
    panels = {
        f"{result.model.name}: {name}": pair
        for result in results
        for name, pair in result.plots.distances.items()
    }
    figure, axes_of = _panels(list(panels))
    for axes, (matching, other) in zip(axes_of, panels.values(), strict=True):
        edges = _bin_edges(np.concatenate([matching, other]))
        for values, colour, label in (
            (matching, "#2e8b57", "matching"),
            (other, "#c0392b", "others"),
        ):
            # By hand, because matplotlib divides by zero for a list without any.
            shares = np.histogram(values, edges)[0] / max(len(values), 1)
            axes.stairs(shares, edges, fill=True, color=colour, alpha=0.55, label=label)
        axes.set(xlabel="distance", ylabel="share")
    axes_of[0].legend(fontsize="small")
    return figure


def _bin_edges(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.histogram_bin_edges(values, _BINS)
    # Whole numbers want bins that all hold equally many of them.
    lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
    width = -(-(highest - lowest + 1) // _BINS)
    return np.arange(lowest, highest + width + 1, width) - 0.5


def fpr_against_batch_size(results: Sequence[Result]) -> Figure:
    """Mean FPR95 over the batch size that models were trained with."""
    points = sorted(
        (result.model.training["batch_size"], 100 * result.summary["FPR95 mean"], result.model.name)
        for result in results
        if has_batch_size(result)
    )
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([size for size, _, _ in points], [rate for _, rate, _ in points], "o-")
    for size, rate, name in points:
        axes.annotate(name, (size, rate), xytext=(4, 6), textcoords="offset points")
    axes.set_xscale("log", base=2)
    sizes = sorted({size for size, _, _ in points})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(xlabel="batch size M", ylabel="mean FPR95 [%]")
    axes.grid(linestyle=":", color="#888888")
    return figure


def has_batch_size(result: Result) -> bool:
    """Whether a result can stand in `fpr_against_batch_size`."""
    return "batch_size" in result.model.training and "FPR95 mean" in result.summary


def patch_strip(strip: Strip) -> Figure:
    """A row of patches a role, a column an example."""
    roles, examples, height, width = strip.patches.shape
    picture = strip.patches.swapaxes(1, 2).reshape(roles * height, examples * width)
    figure = Figure(figsize=(0.9 * examples + 1.2, 0.9 * roles), layout="constrained")
    axes = figure.subplots()
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255)
    axes.set(
        xticks=[],
        yticks=[height * (role + 0.5) for role in range(roles)],
        yticklabels=strip.roles,
    )
    for column in range(1, examples):
        axes.axvline(column * width - 0.5, color="white", linewidth=2)
    return figure


def _panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    columns = min(3, len(titles))
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[len(titles) :]:
        unused.set_axis_off()
    for one, title in zip(axes, titles, strict=False):
        one.set_title(title)
    return figure, list(axes[: len(titles)])
