"""Plots of plain data: bars, curves, histograms of distances and scores over batch size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from doap_tf.drawing.pictures import render

_GREEN, _ORANGE, _RED = "#2e8b57", "#e08a00", "#c0392b"
_MARKERS = ("D", "o", "*", "^", "s")
_GRID: dict[str, Any] = {"linestyle": ":", "color": "#888888"}
_BINS = 60
_CURVE_POINTS = 500
_DPI = 110


@dataclasses.dataclass(frozen=True)
class Curve:
    """A line of a plot."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def thinned(cls, x: np.ndarray, y: np.ndarray) -> Curve:
        """Keeps what a plot can show of a curve with ascending x."""
        # Even steps along x, not along the index: long lists crowd at one end.
        steps = np.linspace(x[0], x[-1], _CURVE_POINTS)
        kept = np.unique(np.append(np.searchsorted(x, steps), len(x) - 1))
        return cls(x[kept], y[kept])


class Bar(NamedTuple):
    """A score, with the scores that it is the mean of by level of difficulty and kind."""

    value: float
    marks: Mapping[tuple[str, str], float]


def draw_bars(panels: Mapping[str, Mapping[str, Bar]]) -> np.ndarray:
    """Draws a panel of bars per title: one bar per name, the best on top.

    Marks on a bar are coloured by level and shaped by kind. Scores are shares in [0, 1].
    """
    marks = [mark for bars in panels.values() for bar in bars.values() for mark in bar.marks]
    levels, kinds = (list(dict.fromkeys(names)) for names in zip(*marks, strict=True))
    colours = dict(zip(levels, (_GREEN, _ORANGE, _RED), strict=False))
    markers = dict(zip(kinds, _MARKERS, strict=False))
    count = max(map(len, panels.values()))
    figure = _figure(5 * len(panels), 2.2 + 0.4 * count)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, bars) in zip(all_axes, panels.items(), strict=True):
        ranked = sorted(bars.items(), key=lambda item: item[1].value)
        for row, (_, bar) in enumerate(ranked):
            axes.barh(row, 100 * bar.value, color="#c9d3df", edgecolor="#33475b")
            axes.text(102, row, f"{100 * bar.value:.2f}", va="center")
            for (level, kind), value in bar.marks.items():
                axes.plot(100 * value, row, markers[kind], color=colours[level], markersize=6)
        axes.set(
            title=title,
            xlim=(0, 100),
            yticks=range(len(ranked)),
            yticklabels=[name for name, _ in ranked],
        )
        axes.grid(axis="x", **_GRID)
        axes.set_axisbelow(True)
    legend = [(colour, "s", level) for level, colour in colours.items()]
    if len(markers) > 1:
        legend += [("black", marker, kind) for kind, marker in markers.items()]
    figure.legend(
        handles=[
            Line2D([], [], color=colour, marker=marker, linestyle="", label=label)
            for colour, marker, label in legend
        ],
        loc="outside upper center",
        ncols=len(legend),
    )
    return render(figure)


def draw_curves(curves: Mapping[str, Mapping[str, Curve]], x: str, y: str) -> np.ndarray:
    """Draws a panel per title with one curve per name.

    Args:
        curves: Name → title → curve, both axes over [0, 1].
        x, y: Labels of the axes.
    """
    titles = list(dict.fromkeys(title for by_title in curves.values() for title in by_title))
    figure, panels = _panels(titles)
    for axes, title in zip(panels, titles, strict=True):
        for name, by_title in curves.items():
            if title in by_title:
                axes.plot(by_title[title].x, by_title[title].y, label=name)
        axes.set(xlabel=x, ylabel=y, xlim=(0, 1), ylim=(0, 1.01))
        axes.grid(**_GRID)
    panels[0].legend(fontsize="small")
    return render(figure)


def draw_distances(distances: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Draws a histogram per title of the distances of matching pairs [N] and of others [M]."""
    figure, panels = _panels(list(distances))
    for axes, (matching, others) in zip(panels, distances.values(), strict=True):
        edges = _bin_edges(np.concatenate([matching, others]))
        for values, colour, label in ((matching, _GREEN, "matching"), (others, _RED, "others")):
            # Not `density`, which divides by zero for an empty list.
            shares = np.histogram(values, edges)[0] / max(len(values), 1)
            axes.stairs(shares, edges, fill=True, color=colour, alpha=0.55, label=label)
        axes.set(xlabel="distance", ylabel="share")
    panels[0].legend(fontsize="small")
    return render(figure)


def draw_over_batch_size(points: Sequence[tuple[int, float, str]], ylabel: str) -> np.ndarray:
    """Draws points of batch size, value and name, joined by a line."""
    sizes, values, _ = zip(*sorted(points), strict=True)
    figure = _figure(6, 4)
    axes = figure.subplots()
    axes.plot(sizes, values, "o-")
    for size, value, name in points:
        axes.annotate(name, (size, value), xytext=(4, 6), textcoords="offset points")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, list(map(str, sizes)))
    axes.set(xlabel="batch size M", ylabel=ylabel)
    axes.grid(**_GRID)
    return render(figure)


def _bin_edges(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.histogram_bin_edges(values, _BINS)
    # Integers: every bin covers equally many of them.
    lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
    width = -(-(highest - lowest + 1) // _BINS)
    return np.arange(lowest, highest + width + 1, width) - 0.5


def _panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    columns = min(3, len(titles))
    rows = -(-len(titles) // columns)
    figure = _figure(4.6 * columns, 3.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for unused in axes[len(titles) :]:
        unused.set_axis_off()
    for one, title in zip(axes, titles, strict=False):
        one.set_title(title)
    return figure, list(axes[: len(titles)])


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
