"""Groups of patches from a reconstruction: the views of one 3D point are one group."""

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from doap_tf.errors import InputError, check_choice
from doap_tf.features.cutting import Pyramid
from doap_tf.features.frames import (
    DEFAULT_MAGNIFICATION,
    angles,
    inside,
    radii,
    scale_frames,
    similarity_frames,
)
from doap_tf.features.orientation import orient
from doap_tf.features.overlap import ellipse_overlap, overlapping_pairs
from doap_tf.parallel import process_map
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION
from doap_tf.progress import progress
from doap_tf.readers.colmap_model import Model
from doap_tf.readers.images import as_grey, read_image

PLACES = ("observed", "projected")

_SIGMAS = 1.6 * 2 ** (np.arange(14) / 4)  # radii that a keypoint may have, in pixels
_KERNEL_SIDE, _KERNEL_REACH = 17, 4.0  # of the Laplacian of a Gaussian, in samples and in σ
_LEAST_RADIUS = 1.0  # in pixels; smaller views would be enlarged
_MAX_TURN = np.pi / 8  # of an observed orientation from the cameras'; UBC PhotoTour's tolerance
_FAR = 2.0  # points are far apart beyond this distance over the sum of their patches' reaches


@dataclasses.dataclass(frozen=True)
class PointSettings:
    """How groups are cut around 3D points.

    A model knows places but neither scales nor orientations of keypoints, so both come from the
    reference view, drawn from the half of the views that looks at the point from the middle of all:
    its radius is the smallest σ from 1.6 to 15 pixels at which the Laplacian of a Gaussian has
    a local maximum, its orientation the dominant gradient. Both are carried to the other views by
    the cameras: a radius r at depth z in front of a lens of focal length f is the length s = r·z/f
    in space and f·s/z pixels in any view; the orientation is a direction in space.

    Attributes:
        patch_size: pixels along a side.
        magnification: half a patch's side over the radius of its frame.
        place: `observed`: centred at the keypoints and turned to each view's own dominant gradient,
            as a detector's frames are; views in which that is more than π/8 off the cameras'
            orientation are left out. `projected`: centre and orientation by the cameras.
        min_track: least number of images that see a point.
        max_error: largest reprojection error of an observation in pixels; others are left out.
        max_views: largest number of patches of a group: those with the most different directions
            and scales.
        max_overlap: largest overlap of the ellipses in HPatches' patches of two groups: in every
            image that sees both, unless the points are far apart in space, and in space itself.
    """

    patch_size: int = 65
    magnification: float = DEFAULT_MAGNIFICATION
    place: str = "observed"
    min_track: int = 3
    max_error: float = 2.0
    max_views: int = 16
    max_overlap: float = 0.5

    def __post_init__(self) -> None:
        for name in ("patch_size", "magnification", "max_error"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, not {getattr(self, name)}.")
        for name in ("min_track", "max_views"):
            if getattr(self, name) < 2:
                raise InputError(f"{name} must be at least 2, not {getattr(self, name)}.")
        if not 0 < self.max_overlap < 1:
            raise InputError(f"max_overlap must be in (0, 1), not {self.max_overlap}.")
        check_choice("place", self.place, PLACES)


class Views(NamedTuple):
    """Views of points; those of one point follow each other, the reference first.

    Attributes:
        point: int [V], rows of the model's points.
        image: int [V], numbers of the model's images.
        direction: float64 [V, 3], from the camera to the point, of unit length.
        depth: float64 [V].
        frames: float64 [V, 2, 3].
    """

    point: np.ndarray
    image: np.ndarray
    direction: np.ndarray
    depth: np.ndarray
    frames: np.ndarray

    def of(self, chosen: np.ndarray) -> "Views":
        """Returns some of the views, by a mask or by indices."""
        return Views(*(column[chosen] for column in self))

    @property
    def references(self) -> np.ndarray:
        """The numbers of the reference views, int [points]."""
        return np.flatnonzero(np.diff(self.point, prepend=-1))

    @property
    def group(self) -> np.ndarray:
        """The number of each view's point among those that have views, int [V]."""
        return np.cumsum(np.diff(self.point, prepend=-1) != 0) - 1


class PointGroup(NamedTuple):
    """The patches of one point, the reference first.

    Attributes:
        point: the point's identifier in the model.
        images: names of the patches' images.
        patches: uint8 [n, S, S].
    """

    point: int
    images: list[str]
    patches: np.ndarray


def find_views(model: Model, settings: PointSettings, processes: int | None = None) -> Views:
    """Chooses points and their views.

    Args:
        model: the reconstruction.
        settings: how groups are cut.
        processes: number of processes that look at images; one per core if not given.
    """
    views = _not_empty(_observations(model, settings), settings)
    references = views.of(views.references)
    for rows, frames in _by_image(model, references, _detect, "finding scales", processes):
        references.frames[rows] = frames
    views, sizes = _carry(model, views, references, settings.min_track)
    _not_empty(views, settings)
    stays = _thin(views, model.places, sizes, settings.max_overlap)
    views = views.of(stays[views.group])
    return views.of(_spread(views, settings.max_views))


def split_views(views: Views, fraction: float) -> tuple[Views, Views]:
    """Splits views into those to train on and those of a fraction of the points, held out.

    Some images are held out: a point whose reference is one of them is held out with all its views,
    and the other points lose their views in such images. So no point is on both sides, and no
    training patch comes from an image that is held out. The images with the most references go
    first, as long as all together are within the fraction; if no image is, the one with the fewest
    is held out.
    """
    if not 0 <= fraction < 1:
        raise InputError(f"the fraction for validation must be in [0, 1), not {fraction}.")
    images = views.image[views.references]
    counts = np.bincount(images, minlength=views.image.max() + 1)
    budget = fraction * len(images)
    held_out = np.zeros(len(counts), bool)
    for image in np.argsort(-counts, kind="stable"):
        if 0 < counts[image] <= budget:
            held_out[image] = True
            budget -= counts[image]
    if fraction > 0 and not held_out.any():
        if len(np.unique(images)) == 1:
            raise InputError("all points have the same reference image; a fraction of 0 is needed.")
        held_out[np.where(counts > 0, counts, len(images)).argmin()] = True
    validation = held_out[images][views.group]
    return views.of(~validation & ~held_out[views.image]), views.of(validation)


def cut_views(
    model: Model,
    views: Views,
    settings: PointSettings,
    scratch: pathlib.Path,
    processes: int | None = None,
) -> Iterator[PointGroup]:
    """Cuts the groups of two or more views, image after image.

    Args:
        model: the reconstruction.
        views: which views to cut.
        settings: how groups are cut.
        scratch: a folder with room for all patches.
        processes: number of processes that cut patches; one per core if not given.
    """
    size = settings.patch_size
    with tempfile.TemporaryFile(dir=scratch) as file:
        patches = np.memmap(file, np.uint8, "w+", shape=(len(views.point), size, size))
        kept = np.zeros(len(views.point), bool)
        cut = functools.partial(_cut, settings=settings)
        for rows, result in _by_image(model, views, cut, "cutting", processes):
            patches[rows], kept[rows] = result
        for point, rows in _runs(views.point):
            rows = rows[kept[rows]]
            if len(rows) > 1:
                names = [model.images[number].name for number in views.image[rows]]
                yield PointGroup(int(model.ids[point]), names, np.array(patches[rows]))


def _runs(numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields every number that occurs in [N], ascending, and where it does, ascending."""
    order = np.argsort(numbers, kind="stable")
    values, starts = np.unique(numbers[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, starts[1:]), strict=True)


def _by_image(
    model: Model, views: Views, function: Callable, title: str, processes: int | None
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yields the rows of each image's views and what the function of image and frames returns."""
    runs = list(_runs(views.image))
    items = []
    for number, rows in runs:
        camera = model.cameras[model.images[number].camera]
        items.append((model.images[number].path, camera.height, camera.width, views.frames[rows]))
    results = process_map(lambda item: function(_read(*item[:3]), item[3]), items, processes)
    bar = progress(results, title, total=len(items), unit="image")
    yield from zip((rows for _, rows in runs), bar, strict=True)


def _read(path: pathlib.Path, height: int, width: int) -> np.ndarray:
    image = as_grey(read_image(path, upright=False))
    if image.shape != (height, width):
        raise InputError(
            f"{path} has {image.shape[1]}×{image.shape[0]} pixels, its camera {width}×{height}; "
            "give the images that the model was made from"
        )
    return image


def _not_empty(views: Views, settings: PointSettings) -> Views:
    if not len(views.point):
        raise InputError(
            f"no point is seen by {settings.min_track} images within {settings.max_error:g} pixels "
            "and away from their borders; lower min_track or raise max_error"
        )
    return views


def _observations(model: Model, settings: PointSettings) -> Views:
    """Returns the views of good points, with frames of which only the centres are known."""
    by_image = []
    for number, image in enumerate(model.images):
        # A track may pass through an image twice.
        ids, chosen = np.unique(image.points, return_index=True)
        ids, chosen = ids[ids >= 0], chosen[ids >= 0]
        point = np.searchsorted(model.ids, ids)
        seen = model.places[point] @ image.rotation.T + image.translation
        ahead = seen[:, 2] > 0
        point, seen, observed = point[ahead], seen[ahead], image.keypoints[chosen[ahead]]
        projected = model.cameras[image.camera].project(seen)
        good = np.linalg.norm(projected - observed, axis=1) <= settings.max_error
        centres = observed if settings.place == "observed" else projected
        frames = np.zeros((len(point), 2, 3))
        frames[:, :, 2] = centres - 0.5  # COLMAP's origin is a corner
        direction = model.places[point] - image.centre
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        views = Views(point, np.full(len(point), number), direction, seen[:, 2], frames)
        by_image.append(views.of(good))
    views = Views(*map(np.concatenate, zip(*by_image, strict=True)))
    lengths = np.bincount(views.point, minlength=len(model.ids))
    views = views.of(lengths[views.point] >= settings.min_track)
    sums = np.zeros_like(model.places)
    np.add.at(sums, views.point, views.direction)
    centrality = (sums[views.point] * views.direction).sum(axis=1)
    views = views.of(np.lexsort((-centrality, views.point)))
    starts = views.references
    draws = np.random.default_rng(0).random(len(starts))
    central = np.diff(starts, append=len(views.point)) / 2
    is_reference = np.zeros(len(views.point), bool)
    is_reference[starts + (draws * central).astype(int)] = True
    return views.of(np.lexsort((~is_reference, views.point)))


def _detect(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Returns circles with radius and orientation at the centres of frames [N, 2, 3]."""
    x, y = frames[:, :, 2].T
    pyramid = Pyramid(image.astype(np.float32))
    steps = ((2 * np.arange(_KERNEL_SIDE) + 1) / _KERNEL_SIDE - 1) * _KERNEL_REACH
    square = steps**2 + steps[:, None] ** 2
    kernel = (square - 2) * np.exp(-square / 2)
    kernel -= kernel.mean()
    responses = np.stack(
        [
            pyramid.cut(similarity_frames(x, y, sigma), _KERNEL_SIDE, _KERNEL_REACH).reshape(
                len(x), -1
            )
            @ kernel.ravel()
            for sigma in _SIGMAS
        ],
        axis=1,
    )
    responses = np.abs(responses)
    # The last scale is a peak where there is none before.
    peaks = np.diff(responses, axis=1, append=-1) < 0
    return orient(image, similarity_frames(x, y, _SIGMAS[peaks.argmax(axis=1)]))


def _carry(
    model: Model, views: Views, references: Views, min_track: int
) -> tuple[Views, np.ndarray]:
    """Gives the frames of all views radius and orientation.

    Returns:
        The views that are inside their images and not tiny, of points that have enough of them and
        a reference among them, and the points' sizes in space, float64 [points].
    """
    cameras = [model.cameras[image.camera] for image in model.images]
    focal = np.array([camera.focal_length for camera in cameras])
    rotations = np.stack([image.rotation for image in model.images])
    in_space = (references.depth / focal[references.image])[:, None, None]
    axes = rotations[references.image, :2].transpose(0, 2, 1) @ references.frames[:, :, :2]
    axes *= in_space
    sizes = radii(references.frames) * in_space[:, 0, 0]
    kept = np.zeros(len(views.point), bool)
    group = views.group
    for number, rows in _runs(views.image):
        image, camera = model.images[number], cameras[number]
        arms = axes[group[rows]].transpose(0, 2, 1)
        centres = model.places[views.point[rows], None]
        ends = [
            camera.project((centres + arm) @ image.rotation.T + image.translation)
            for arm in (arms, -arms)
        ]
        linear = (ends[0] - ends[1]).transpose(0, 2, 1)
        x, y = views.frames[rows, :, 2].T
        radius = focal[number] * sizes[group[rows]] / views.depth[rows]
        frames = similarity_frames(x, y, radius, angles(linear))
        patches = scale_frames(frames, HPATCHES_MAGNIFICATION)
        kept[rows] = (radius >= _LEAST_RADIUS) & inside(patches, (camera.height, camera.width))
        views.frames[rows] = frames
    stays = kept[views.references] & (np.bincount(group[kept], minlength=len(sizes)) >= min_track)
    return views.of(kept & stays[group]), sizes[stays]


def _thin(views: Views, places: np.ndarray, sizes: np.ndarray, maximum: float) -> np.ndarray:
    """Returns which points stay, bool [points], so that no two of them show the same place.

    Points with more views go first. Two may be too near in an image, if they are not far apart in
    space, or in space itself, if the track of one place was broken into two.
    """
    group, places = views.group, places[views.point[views.references]]
    reach = HPATCHES_MAGNIFICATION * sizes
    excessive = np.nextafter(maximum, 1.0)
    pairs = []
    for _, rows in _runs(views.image):
        patches = scale_frames(views.frames[rows], HPATCHES_MAGNIFICATION)
        first, second, _ = overlapping_pairs(patches, patches, excessive)
        first, second = group[rows[first]], group[rows[second]]
        apart = np.linalg.norm(places[first] - places[second], axis=1)
        near = apart <= _FAR * (reach[first] + reach[second])
        pairs.append(np.stack([first[near], second[near]]))
    balls = cKDTree(places).query_ball_point(places, 2 * reach)
    first = np.repeat(np.arange(len(places)), [len(ball) for ball in balls])
    second = np.array([other for ball in balls for other in ball], int)
    apart = np.linalg.norm(places[first] - places[second], axis=1)
    overlap = ellipse_overlap(
        similarity_frames(0, 0, reach[first]), similarity_frames(apart, 0, reach[second])
    )
    pairs.append(np.stack([first, second])[:, overlap > maximum])

    # By rank from here on; a point's fate is settled when its turn comes as the first of a pair.
    rank = np.empty(len(places), int)
    rank[np.argsort(-np.bincount(group), kind="stable")] = np.arange(len(places))
    ranks = np.sort(rank[np.concatenate(pairs, axis=1)], axis=0)
    ranks = np.unique(ranks[:, ranks[0] < ranks[1]], axis=1)
    stays = np.ones(len(places), bool)
    for earlier, later in ranks.T.tolist():
        if stays[earlier]:
            stays[later] = False
    return stays[rank]


def _spread(views: Views, limit: int) -> np.ndarray:
    """Returns which views to keep, int, at most `limit` of a point and the most different ones."""
    features = np.column_stack([views.direction, np.log2(radii(views.frames))])
    chosen = []
    for _, rows in _runs(views.point):
        if len(rows) > limit:
            picked = [0]
            nearest = np.full(len(rows), np.inf)
            while len(picked) < limit:
                distance = np.linalg.norm(features[rows] - features[rows[picked[-1]]], axis=1)
                nearest = np.minimum(nearest, distance)
                picked.append(int(nearest.argmax()))
            rows = rows[sorted(picked)]
        chosen.append(rows)
    return np.concatenate(chosen)


def _cut(
    image: np.ndarray, frames: np.ndarray, settings: PointSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Returns patches uint8 [N, S, S] and which of them are turned as the cameras say, bool [N]."""
    turned = orient(image, frames) if settings.place == "observed" else frames
    off = np.angle(np.exp(1j * (angles(turned) - angles(frames))))
    patches = Pyramid(image).cut(turned, settings.patch_size, settings.magnification)
    return patches, np.abs(off) <= _MAX_TURN
