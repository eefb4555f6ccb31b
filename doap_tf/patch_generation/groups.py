"""Groups of patches in the manner of HPatches: sixteen views of each place in a scene."""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np
from absl import logging

from doap_tf.appearance import PRESETS, Appearance
from doap_tf.appearance.array_effects import (
    apply_effects,
    draw_effects,
    without_scene,
)
from doap_tf.errors import InputError, check_choice
from doap_tf.features.cutting import Pyramid
from doap_tf.features.detectors import DETECTORS, detect
from doap_tf.features.frames import (
    DEFAULT_MAGNIFICATION,
    inside,
    radii,
    scale_frames,
    transform_frames,
)
from doap_tf.features.orientation import orient
from doap_tf.features.overlap import thin
from doap_tf.parallel import process_map
from doap_tf.patch_generation.frame_jitter import (
    HPATCHES_MAGNIFICATION,
    LEVELS,
    detection_jitter,
    jitter_frames,
)
from doap_tf.patch_generation.photographs import read_photograph
from doap_tf.patch_generation.scenes import Scene, default_scenes
from doap_tf.patch_generation.viewpoint import change_viewpoint
from doap_tf.patch_generation.visibility import (
    MIN_CORRELATION,
    appearance_vectors,
    has_contrast,
    shows,
)
from doap_tf.progress import progress
from doap_tf.readers.image_sequences import read_image_sequence
from doap_tf.readers.strips import STRIPS

_HPATCHES = "hpatches"
_HPATCHES_DETECTORS = ("dog", "harris_laplace", "hessian_laplace")
_JITTERS = (_HPATCHES, "learned")
_TARGETS = 5
_SMALLEST_SIDE = 64
_MAX_ALIGNED_IMAGES = 100
_MEDIAN_OF = 11  # maximum number of aligned images in the median that features are detected in


@dataclasses.dataclass(frozen=True)
class GroupSettings:
    """How groups are cut.

    Frames are detected, thinned out and jittered as for HPatches' patches unless `detector` and
    `jitter` say otherwise. The magnification only decides how much is cut around them; where a
    patch reaches beyond the image, the border is repeated.

    Attributes:
        patch_size: pixels along a side.
        magnification: half a patch's side over the radius of its frame; 14 suits detected
            keypoints (docs/experiments/magnification.md), HPatches has 5.
        max_groups: maximum number of groups per scene.
        max_overlap: maximum overlap of the ellipses in HPatches' patches of two groups.
        seed: of viewpoints, jitter and changes of appearance.
        detector: `hpatches`, the three detectors of HPatches, or one of `DETECTORS`.
        jitter: `hpatches`, affine errors at three levels, or `learned`, circles with the errors
            that the learned detector makes, of one level.
        appearance: changes of the views of a photograph; aligned images get those of the scene,
            sequences none.
        min_correlation: correlation of HPatches' patches from which on a view of a photograph, or
            an aligned image, is taken to show a place; −1 leaves out places without contrast alone.
        oriented: whether frames are turned to the dominant gradient; otherwise they stand upright
            in the first image, and are turned by the viewpoint in the others.
    """

    patch_size: int = 65
    magnification: float = DEFAULT_MAGNIFICATION
    max_groups: int = 500
    max_overlap: float = 0.5
    seed: int = 0
    detector: str = _HPATCHES
    jitter: str = _HPATCHES
    appearance: Appearance = PRESETS["camera"]
    min_correlation: float = MIN_CORRELATION
    oriented: bool = True

    def __post_init__(self) -> None:
        for name in ("patch_size", "magnification", "max_groups"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be positive, not {getattr(self, name)}.")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, but is {self.seed}.")
        if not 0 < self.max_overlap < 1:
            raise InputError(f"max_overlap must be in (0, 1), not {self.max_overlap}.")
        if not -1 <= self.min_correlation < 1:
            raise InputError(f"min_correlation must be in [-1, 1), not {self.min_correlation}.")
        check_choice("detector", self.detector, (_HPATCHES, *DETECTORS))
        check_choice("jitter", self.jitter, _JITTERS)


class Groups(NamedTuple):
    """The groups of one scene.

    Attributes:
        patches: uint8 [n, 16, S, S]; views in the order of HPatches: the reference, five targets
            with easy jitter, the same five with hard and with tough jitter.
        frames: float64 [n, 2, 3] in the reference image.
        warnings: what is left out of the scene, and why.
        hidden: share of the views (photographs) or aligned images that do not show a place, on
            average over the places.
    """

    patches: np.ndarray
    frames: np.ndarray
    warnings: tuple[str, ...] = ()
    hidden: float = 0.0

    def __repr__(self) -> str:
        count, views, side = self.patches.shape[:3]
        return f"Groups({count:,} groups of {views} patches of {side}×{side})"


def cut_groups(scene: Scene, settings: GroupSettings) -> Groups:
    """Cuts the groups of one scene, reproducibly."""
    name = hashlib.sha256(scene.name.encode()).digest()
    rng = np.random.default_rng([settings.seed, *np.frombuffer(name, np.uint32).tolist()])
    cut = {"photos": _cut_photo, "aligned": _cut_aligned, "sequences": _cut_sequence}[scene.kind]
    return cut(scene, settings, rng)


def generate_groups(
    scenes: Iterable[Scene],
    settings: GroupSettings,
    processes: int | None = None,
    mapping: Callable[..., Iterable[Groups]] | None = None,
) -> Iterator[tuple[Scene, Groups]]:
    """Cuts scene after scene in several processes, or by a `mapping`, with a progress bar.

    Yields scenes in their order and the same groups whatever the number of processes; at most two
    scenes per process are in memory. Photographs and aligned scenes that cannot be used are skipped
    with a warning. If nothing is left, and for any fault of an image sequence, an InputError is
    raised.
    """
    scenes = list(scenes)
    usable = 0
    hidden = []
    mapping = mapping or functools.partial(process_map, processes=processes)
    results = mapping(functools.partial(_cut_or_explain, settings=settings), scenes)
    bar = progress(results, "cutting", total=len(scenes), unit="scene")
    for scene, groups in zip(scenes, bar, strict=True):
        for warning in groups.warnings:
            logging.warning("%s", warning)
        if len(groups.patches):
            usable += 1
            hidden.append(groups.hidden)
            yield scene, groups
    if any(hidden):
        bound = settings.min_correlation
        print(f"places are not shown in {np.mean(hidden):.1%} of the views (bound {bound:g})")
    if not usable:
        raise InputError(f"none of {len(scenes)} scenes has groups of patches; see the warnings.")


def sample_groups(settings: GroupSettings) -> np.ndarray:
    """Cuts two photographs of scikit-image, to calibrate or measure on; uint8 [n, 16, S, S]."""
    scenes = default_scenes()[1]
    return np.concatenate([groups.patches for _, groups in generate_groups(scenes, settings, 1)])


def _cut_or_explain(scene: Scene, settings: GroupSettings) -> Groups:
    try:
        groups = cut_groups(scene, settings)
    except InputError as error:
        if scene.kind == "sequences":
            raise
        return _no_groups(settings, f"{scene.name} is skipped: {error}")
    if not len(groups.patches):
        return _no_groups(settings, f"{scene.name} is skipped: no features are detected in it.")
    return groups


def _no_groups(settings: GroupSettings, warning: str) -> Groups:
    size = settings.patch_size
    return Groups(np.zeros((0, len(STRIPS), size, size), np.uint8), np.zeros((0, 2, 3)), (warning,))


def _cut_photo(scene: Scene, settings: GroupSettings, rng: np.random.Generator) -> Groups:
    image = _read_photo(scene.files[0])
    frames = _find_frames(image, settings)
    seen = appearance_vectors(image, frames)
    images, homographies = [image], [np.eye(3)]
    visible = np.ones((_TARGETS, len(frames)), dtype=bool)
    for target in range(_TARGETS):
        view, homography = change_viewpoint(image, rng)
        moved = transform_frames(frames, homography)
        drawn = draw_effects(settings.appearance, view.shape, rng)
        camera = without_scene(drawn)
        changed = apply_effects(view, camera)
        # Effects of the scene lower the correlation of places that stay visible.
        visible[target] &= shows(seen, appearance_vectors(changed, moved), settings.min_correlation)
        if len(camera) < len(drawn):
            changed = apply_effects(view, drawn)
            visible[target] &= has_contrast(changed, moved)
        images.append(changed)
        homographies.append(homography)
    groups = _cut_images(frames[visible.all(axis=0)], images, homographies, settings, rng)
    return groups._replace(hidden=_share_hidden(visible))


def _cut_sequence(scene: Scene, settings: GroupSettings, rng: np.random.Generator) -> Groups:
    sequence = read_image_sequence(scene.files[0].parent)
    images = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in sequence.images]
    frames = _find_frames(images[0], settings)
    return _cut_images(frames, images, [np.eye(3), *sequence.homographies], settings, rng)


def _cut_images(
    frames: np.ndarray,
    images: list[np.ndarray],
    homographies: list[np.ndarray],
    settings: GroupSettings,
    rng: np.random.Generator,
) -> Groups:
    """Cuts groups whose HPatches' patches lie inside all images, the reference first."""
    for image, homography in zip(images, homographies, strict=True):
        frames = frames[_inside(transform_frames(frames, homography), image)]
    frames = frames[: settings.max_groups]
    members = np.tile(np.arange(len(images)), (len(frames), 1))
    return _cut_views(frames, members, images.__getitem__, homographies, settings, rng)


def _cut_aligned(scene: Scene, settings: GroupSettings, rng: np.random.Generator) -> Groups:
    """Cuts each group from six random images in which its place is visible.

    Features are detected in the median of some images, where moving objects are gone.
    """
    files: list[pathlib.Path] = []
    skipped: list[str] = []
    shape: tuple[int, ...] = ()
    for file in scene.files:
        try:
            image = _read_photo(file)
        except InputError as error:
            skipped.append(f"{file.name} of {scene.name} is skipped: {error}")
            continue
        if shape and image.shape != shape:
            raise InputError(
                f"{file} has shape {image.shape}, {files[0].name} has {shape}; aligned images must "
                "have the same size, with one folder per scene."
            )
        shape = image.shape
        files.append(file)
    if len(files) <= _TARGETS:
        raise InputError(
            f"{len(files)} usable images in {scene.name}; an aligned scene requires {_TARGETS + 1}."
        )
    files = _spread(files, _MAX_ALIGNED_IMAGES)
    median = np.median([_read_photo(file) for file in _spread(files, _MEDIAN_OF)], axis=0)
    median = median.astype(np.uint8)
    frames = _find_frames(median, settings)
    seen = np.stack([appearance_vectors(_read_photo(file), frames) for file in files], axis=1)
    bound = settings.min_correlation
    visible = shows(appearance_vectors(median, frames)[:, np.newaxis], seen, bound)
    of_scene = settings.appearance.of_scene()
    drawn = [draw_effects(of_scene, shape, rng) for _ in files]

    def load(index: int) -> np.ndarray:
        return apply_effects(_read_photo(files[index]), drawn[index])

    for index in filter(drawn.__getitem__, range(len(files))):
        visible[:, index] &= has_contrast(load(index), frames)
    reference = np.where(visible, rng.random(visible.shape), -1).argmax(axis=1)
    in_reference = seen[np.arange(len(frames)), reference]
    visible &= shows(in_reference[:, np.newaxis], seen, bound)
    hidden = _share_hidden(visible)
    kept = np.flatnonzero(visible.sum(axis=1) > _TARGETS)[: settings.max_groups]
    frames, visible, reference = frames[kept], visible[kept], reference[kept]
    draws = np.where(visible, rng.random(visible.shape), -1)
    draws[np.arange(len(frames)), reference] = 2
    members = np.argsort(-draws, axis=1)[:, : _TARGETS + 1]
    groups = _cut_views(frames, members, load, [np.eye(3)] * len(files), settings, rng)
    return groups._replace(warnings=tuple(skipped), hidden=hidden)


def _share_hidden(visible: np.ndarray) -> float:
    return float(1 - visible.mean()) if visible.size else 0.0


def _read_photo(path: pathlib.Path) -> np.ndarray:
    return read_photograph(path, _SMALLEST_SIDE)


def _find_frames(image: np.ndarray, settings: GroupSettings) -> np.ndarray:
    """Detects frames [n, 2, 3], strong ones first.

    Their HPatches' patches lie inside the image and overlap little. They are up to twice
    `max_groups`, because some places will not be visible in all images.
    """
    detected, ranks = [], []
    hpatches = settings.detector == _HPATCHES
    for detector in _HPATCHES_DETECTORS if hpatches else (settings.detector,):
        frames = detect(image, detector, oriented=False).frames
        frames = frames[_inside(frames, image)]
        detected.append(frames)
        ranks.append(_ranks_within(np.floor(np.log2(radii(frames)))))
    # Responses of different detectors are not comparable, but ranks are; ranked by octave, the
    # many small features leave room for larger ones.
    order = np.argsort(np.concatenate(ranks), kind="stable")
    candidates = np.concatenate(detected)[order]
    patches = scale_frames(candidates, HPATCHES_MAGNIFICATION)
    kept = thin(patches, settings.max_overlap, 2 * settings.max_groups)
    return orient(image, candidates[kept]) if settings.oriented else candidates[kept]


def _inside(frames: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Returns whether HPatches' patches at frames [n, 2, 3] lie inside the image, bool [n]."""
    return inside(scale_frames(frames, HPATCHES_MAGNIFICATION), image.shape)


def _ranks_within(classes: np.ndarray) -> np.ndarray:
    """Returns the number of earlier elements of the same class, for each of [n]."""
    order = np.argsort(classes, kind="stable")
    ranks = np.empty(len(classes), np.intp)
    ranks[order] = np.arange(len(classes)) - np.searchsorted(classes[order], classes[order])
    return ranks


def _spread(files: list[pathlib.Path], count: int) -> list[pathlib.Path]:
    """Returns up to `count` of the files, evenly spread."""
    chosen = np.linspace(0, len(files) - 1, min(len(files), count)).round().astype(int)
    return [files[index] for index in chosen]


def _cut_views(
    frames: np.ndarray,
    members: np.ndarray,
    load: Callable[[int], np.ndarray],
    homographies: list[np.ndarray],
    settings: GroupSettings,
    rng: np.random.Generator,
) -> Groups:
    """Cuts all views of all groups, one image at a time.

    Args:
        frames: [n, 2, 3] in the reference.
        members: [n, 6], the images of a group's reference and of its five targets.
        load: returns an image by its number.
        homographies: from the reference to each image.
        settings: how groups are cut.
        rng: source of random numbers.
    """
    views = np.empty((len(STRIPS), *frames.shape))
    views[0] = frames
    affine = settings.jitter == _HPATCHES
    for level, amplitude in enumerate(LEVELS.values()):
        for target in range(_TARGETS):
            views[1 + level * _TARGETS + target] = (
                jitter_frames(frames, amplitude, rng) if affine else frames
            )
    images = members[:, [0, *(list(range(1, _TARGETS + 1)) * len(LEVELS))]].T
    size = settings.patch_size
    patches = np.empty((len(frames), len(STRIPS), size, size), np.uint8)
    for number in np.unique(images):
        view, group = np.nonzero(images == number)
        placed = transform_frames(views[view, group], homographies[number])
        if not affine:
            placed[view > 0] = detection_jitter(placed[view > 0], rng)
        patches[group, view] = Pyramid(load(number)).cut(placed, size, settings.magnification)
    return Groups(patches, frames)
