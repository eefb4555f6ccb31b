"""Pictures of matches and of frames in images."""

import itertools
from typing import Any, Protocol

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import hsv_to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox, TransformedBbox

from doap_tf.counts import count
from doap_tf.drawing.pictures import render
from doap_tf.features.frames import angles, transform_points
from doap_tf.readers.images import ImageLike, as_colour

_DPI = 100
_LARGEST_ZOOM = 4.0
_BRIGHTEST = 190  # grey value of the lightest parts of a drawn image
_GAP = 16
_HEADER = 52
_BACKGROUND = "#16181d"
_TEXT = "#f2f2f0"
_QUIET = "#9aa0a8"
_OUTLIER = "#d0d0d0"  # inliers use all hues
_CIRCLE = np.linspace(0, 2 * np.pi, 41)


class MatchedPair(Protocol):
    """What is drawn of `doap_tf.matching.PairMatches`."""

    @property
    def features1(self) -> Any:
        """Features of the first image."""

    @property
    def indices(self) -> np.ndarray:
        """Rows [M, 2] of the features."""

    @property
    def geometry(self) -> str | None:
        """The geometry estimated, or None."""

    @property
    def reliable(self) -> bool | None:
        """Whether the images show the same scene; None if nothing was verified."""

    @property
    def model(self) -> np.ndarray | None:
        """The estimated matrix [3, 3], or None."""

    @property
    def inliers(self) -> np.ndarray:
        """Which matches fit the model, bool [M]."""

    @property
    def points1(self) -> np.ndarray:
        """Points [M, 2] in the first image."""

    @property
    def points2(self) -> np.ndarray:
        """Points [M, 2] in the second image."""


def draw_matches(
    image1: ImageLike,
    image2: ImageLike,
    pair: MatchedPair,
    title: str = "",
    max_lines: int = 150,
    box: tuple[int, int] = (900, 680),
) -> np.ndarray:
    """Draws two images side by side with the inliers joined by coloured lines.

    A line's colour is the direction of its keypoint from the centre of the first image, so that
    correct matches form the same pattern in both. Under a reliable homography, the outline of the
    first image is drawn into the second.

    Args:
        image1, image2: The matched images or their paths.
        pair: Their matches.
        title: Header of the picture, beside the counts.
        max_lines: Maximum number of lines for inliers, and for outliers; a dot marks every inlier.
        box: Width and height into which each image is fitted.

    Returns:
        uint8 BGR [H, W, 3].
    """
    panels = [_Panel(image1, box), _Panel(image2, box)]
    height = max(panel.height for panel in panels)
    left = _GAP
    for panel in panels:
        panel.move_to(left, _HEADER + (height - panel.height) / 2)
        left += panel.width + _GAP
    # Wide enough for the header above small images.
    figure, axes = _canvas(max(left, 720), _HEADER + height + _GAP)
    for panel in panels:
        panel.show(axes)

    ends = np.stack([panels[0].to_canvas(pair.points1), panels[1].to_canvas(pair.points2)], axis=1)
    random = np.random.default_rng(0)
    drawn = random.permutation(len(ends))
    outliers, inliers = drawn[~pair.inliers[drawn]], drawn[pair.inliers[drawn]]
    axes.add_collection(
        LineCollection(ends[outliers[:max_lines]], colors=_OUTLIER, linewidths=0.5, alpha=0.15)
    )
    from_centre = pair.points1 - (np.array(pair.features1.image_size) - 1) / 2
    colours = _bright_hues(np.arctan2(*from_centre.T[::-1]))
    axes.add_collection(
        LineCollection(
            ends[inliers[:max_lines]],
            colors=colours[inliers[:max_lines]],
            linewidths=0.9,
            alpha=0.85,
        )
    )
    x, y = ends[inliers].reshape(-1, 2).T
    dots = np.repeat(colours[inliers], 2, axis=0)
    axes.scatter(x, y, s=7, c=dots, edgecolors="#000000", linewidths=0.3)
    if pair.geometry == "homography" and pair.model is not None and pair.reliable:
        outline = transform_points(_outline(pair.features1.image_size), pair.model)
        line = axes.plot(*panels[1].to_canvas(outline).T, color="white", linewidth=1.2, alpha=0.9)
        line[0].set_clip_box(_bounds(axes, *panels[1].bounds))

    counts = count(len(pair.indices), "match")
    if pair.geometry is not None:
        counts = f"{count(len(inliers), 'inlier')} of {counts} ({pair.geometry})"
        if not pair.reliable:
            counts = f"no reliable match: {counts}"
    _header(axes, title, counts)
    return render(figure)


def draw_frames(
    image: ImageLike, frames: np.ndarray, title: str = "", max_frames: int = 400
) -> np.ndarray:
    """Draws frames [N, 2, 3] as their ellipses, each with a ray along its first axis.

    Returns:
        uint8 BGR [H, W, 3].
    """
    panel = _Panel(image, (1200, 900))
    panel.move_to(_GAP, _HEADER)
    figure, axes = _canvas(max(panel.width + 2 * _GAP, 720), _HEADER + panel.height + _GAP)
    panel.show(axes)
    shown = frames[:max_frames]
    unit = np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)], axis=1)
    ellipses = unit @ shown[:, :, :2].transpose(0, 2, 1) + shown[:, None, :, 2]
    rays = np.stack([shown[:, :, 2], shown[:, :, 0] + shown[:, :, 2]], axis=1)
    colours = _bright_hues(angles(shown))
    for lines in (ellipses, rays):
        outlined = [panel.to_canvas(line) for line in lines]
        for colour, width, alpha in (("black", 1.8, 0.5), (colours, 0.9, 1.0)):
            collection = LineCollection(outlined, colors=colour, linewidths=width, alpha=alpha)
            axes.add_collection(collection)
            collection.set_clip_box(_bounds(axes, *panel.bounds))
    counts = f"{len(frames):,} frames"
    if len(shown) < len(frames):
        counts = f"the first {len(shown):,} of {counts}"
    _header(axes, title, counts)
    return render(figure)


class _Panel:
    """An image fitted into a box of the canvas."""

    def __init__(self, image: ImageLike, box: tuple[int, int]):
        self.colour = as_colour(image)
        height, width = self.colour.shape[:2]
        self.zoom = min(box[0] / width, box[1] / height, _LARGEST_ZOOM)
        self.width, self.height = width * self.zoom, height * self.zoom
        self.left = self.top = 0.0

    def move_to(self, left: float, top: float) -> None:
        self.left, self.top = left, top

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        return self.left, self.top, self.left + self.width, self.top + self.height

    def show(self, axes: Axes) -> None:
        colour = cv2.resize(
            self.colour,
            (max(1, round(self.width)), max(1, round(self.height))),
            interpolation=cv2.INTER_AREA if self.zoom < 1 else cv2.INTER_LINEAR,
        )
        # Pale and dim, so that the lines stand out; photographs taken at night are brightened.
        grey = cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY)[..., None].astype(np.float32)
        gain = np.clip(_BRIGHTEST / max(float(np.percentile(grey, 98)), 1), 0.6, 3.0)
        pale = np.minimum((0.45 * colour[..., ::-1] + 0.55 * grey) * gain, 255)
        left, top, right, bottom = self.bounds
        axes.imshow(pale.astype(np.uint8), extent=(left, right, bottom, top), zorder=0)

    def to_canvas(self, points: np.ndarray) -> np.ndarray:
        """Maps points [N, 2] of the image, pixel centres at integers, to the canvas."""
        return (np.asarray(points) + 0.5) * self.zoom + (self.left, self.top)


def _bright_hues(radians: np.ndarray) -> np.ndarray:
    """Returns colours [N, 3] of angles [N] that stand out from a dim image."""
    hue = radians / (2 * np.pi) % 1
    return hsv_to_rgb(np.stack([hue, np.full_like(hue, 0.72), np.ones_like(hue)], axis=-1))


def _outline(image_size: tuple[int, int]) -> np.ndarray:
    """Returns points [N, 2] around an image, dense because a homography may tear its edges."""
    width, height = image_size
    corners = np.array(
        [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1), (0, 0)], np.float64
    )
    along = np.linspace(0, 1, 32)[:, None]
    edges = itertools.pairwise(corners)
    return np.concatenate([start + along * (end - start) for start, end in edges])


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure and axes over it that count its pixels from the upper left corner."""
    width, height = round(width), round(height)
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=_BACKGROUND)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.set_autoscale_on(False)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return figure, axes


def _bounds(axes: Axes, left: float, top: float, right: float, bottom: float) -> TransformedBbox:
    """Returns a rectangle of the canvas for clipping."""
    return TransformedBbox(Bbox([[left, top], [right, bottom]]), axes.transData)


def _header(axes: Axes, title: str, counts: str) -> None:
    y = _HEADER / 2
    axes.text(_GAP, y, title, color=_TEXT, fontsize=12, va="center")
    axes.text(
        axes.get_xlim()[1] - _GAP, y, counts, color=_QUIET, fontsize=12, va="center", ha="right"
    )
