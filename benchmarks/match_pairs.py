"""Compares descriptors on real detections of image pairs, the homographies being known.

python benchmarks/match_pairs.py --data=oxford --models=rootsift,doap-128 --magnifications=14,8+28
python benchmarks/match_pairs.py --data=hpatches_images --pairs=v_wormhole/4,v_birdwoman/4

Every model describes the same DoG keypoints; mutual nearest neighbours match. A match is right if
the true homography maps its first point to within a tolerance of its second.

"found again" is the number of possible matches: how many keypoints of the first image are detected
in the second, within the tolerance, at nearly their scale and orientation. Right matches may be
more, as they are judged by position alone.
"""

import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from absl import flags
from scipy.sparse import csgraph, csr_array
from scipy.spatial import KDTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from doap_tf import command_line
from doap_tf.drawing.pictures import write_picture
from doap_tf.errors import InputError
from doap_tf.features.detectors import detect
from doap_tf.features.frames import angles, radii, transform_frames, transform_points
from doap_tf.matching import DescriptorExtractor, Matcher, PairMatches, as_grey, draw_matches
from doap_tf.readers.image_sequences import read_image_sequence

FLAGS = flags.FLAGS
_PAIRS = ["graf/2", "graf/3", "boat/4", "leuven/5", "bikes/5"]
_OWN = ("sift", "rootsift")  # OpenCV's, whose magnification is fixed
_FOUND = "found again"
_SCALE, _ANGLE = 0.5, np.radians(30)  # largest |log ratio| of radii and turn of the same keypoint

flags.DEFINE_string("data", None, "Folder of image sequences.", required=True)
flags.DEFINE_list("pairs", _PAIRS, "Sequence and number of the image to match with its first.")
flags.DEFINE_list("models", ["sift", "rootsift"], "Names or paths, as for match_main.py.")
flags.DEFINE_list(
    "magnifications",
    [],
    "Magnifications to try on every model, 8+28 being 8 and 28 pooled; by default its own.",
)
flags.DEFINE_list(
    "tolerances", ["3"], "Distances in pixels of right matches; the first is that of inliers."
)
flags.DEFINE_integer("max_keypoints", 0, "Number of the strongest keypoints to keep; 0 for all.")
flags.DEFINE_string("pictures", None, "Folder for pictures of the matches.")


class Case(NamedTuple):
    """Two images, uint8 BGR or grey, and the homography from the first to the second."""

    name: str
    image1: np.ndarray
    image2: np.ndarray
    homography: np.ndarray


def main(argv: Sequence[str]) -> None:
    del argv
    tolerances = _positive("tolerances", FLAGS.tolerances)
    extractors = dict(_extractors())
    matcher = Matcher(method="mutual", geometry="homography", threshold=tolerances[0])
    width = max(map(len, [_FOUND, *extractors]))

    def show(place: str, name: str, text: str) -> None:
        print(f"{place:<12} {name:<{width}} {text}".rstrip(), flush=True)

    columns = "".join(f"  right, {tolerance:<4g} share" for tolerance in tolerances)
    show("pair", "model", f"matches inliers{columns}  corner error")
    found: list[np.ndarray] = []
    rights: dict[str, list[np.ndarray]] = {name: [] for name in extractors}
    shares: dict[str, list[np.ndarray]] = {name: [] for name in extractors}
    for case in _cases():
        frames1, frames2 = (
            detect(as_grey(image), "dog", FLAGS.max_keypoints or None).frames
            for image in (case.image1, case.image2)
        )
        mapped = transform_frames(frames1, case.homography)
        found.append(np.array([_found_again(mapped, frames2, each) for each in tolerances]))
        show(case.name, _FOUND, f"{'':15}{_scores(found[-1])}")
        for name, extractor in extractors.items():
            pair = matcher.match(
                extractor.describe(case.image1, frames1), extractor.describe(case.image2, frames2)
            )
            errors = _errors(pair, case.homography)
            rights[name].append(np.array([np.sum(errors <= each) for each in tolerances]))
            shares[name].append(rights[name][-1] / max(len(errors), 1))
            show(
                case.name,
                name,
                f"{len(errors):>7} {pair.inliers.sum():>7}"
                f"{_scores(rights[name][-1], shares[name][-1])} "
                f"{_corner_error(pair, case):>10.2f} px",
            )
            if FLAGS.pictures:
                _draw(case, name, pair)
    # Numbers are summed, shares averaged.
    show("mean", _FOUND, f"{'':15}{_scores(np.sum(found, axis=0))}")
    for name in extractors:
        scores = _scores(np.sum(rights[name], axis=0), np.mean(shares[name], axis=0))
        show("mean", name, f"{'':15}{scores}")


def _scores(counts: np.ndarray, shares: np.ndarray | None = None) -> str:
    """Formats the columns of a row, two per tolerance."""
    texts = [""] * len(counts) if shares is None else [f"{share:.3f}" for share in shares]
    return "".join(f"{count:>11} {text:>7}" for count, text in zip(counts, texts, strict=True))


def _found_again(mapped: np.ndarray, frames: np.ndarray, tolerance: float) -> int:
    """Number of mapped frames [N, 2, 3] that match frames [K, 2, 3] of the image, one to one."""
    mapped = mapped[np.isfinite(mapped).all(axis=(1, 2))]
    near = KDTree(mapped[:, :, 2]).sparse_distance_matrix(
        KDTree(frames[:, :, 2]), tolerance, output_type="ndarray"
    )
    i, j = near["i"], near["j"]
    scales = np.log(radii(mapped)[i] / radii(frames)[j])
    turns = (angles(mapped)[i] - angles(frames)[j] + np.pi) % (2 * np.pi) - np.pi
    same = (np.abs(scales) < _SCALE) & (np.abs(turns) < _ANGLE)
    pairs = csr_array(
        (np.ones(same.sum(), bool), (i[same], j[same])), shape=(len(mapped), len(frames))
    )
    return int(np.sum(csgraph.maximum_bipartite_matching(pairs) >= 0))


def _positive(flag: str, values: Sequence[str]) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < np.inf for number in numbers):
        raise InputError(f"--{flag} must be numbers above 0, not {', '.join(values)!r}.")
    return numbers


def _extractors() -> Iterator[tuple[str, DescriptorExtractor]]:
    magnifications = [_positive("magnifications", text.split("+")) for text in FLAGS.magnifications]
    for model in FLAGS.models:
        name = pathlib.PurePath(model).name
        if model in _OWN or not magnifications:
            yield name, DescriptorExtractor(model)
            continue
        for pooled in magnifications:
            label = "+".join(f"{magnification:g}" for magnification in pooled)
            yield f"{name} at {label}", DescriptorExtractor(model, magnification=pooled)


def _cases() -> Iterator[Case]:
    if not FLAGS.pairs:
        raise InputError("give --pairs, such as graf/3.")
    for place in FLAGS.pairs:
        name, _, number = place.rpartition("/")
        if number not in ("2", "3", "4", "5", "6"):
            raise InputError(
                f"--pairs must be like graf/3, with a number from 2 to 6, not {place!r}."
            )
        number = int(number)
        sequence = read_image_sequence(pathlib.Path(FLAGS.data) / name)
        image1, image2 = (
            np.ascontiguousarray(sequence.images[image][..., ::-1]) for image in (0, number - 1)
        )
        yield Case(f"{name} 1–{number}", image1, image2, sequence.homographies[number - 2])


def _errors(pair: PairMatches, homography: np.ndarray) -> np.ndarray:
    """Distances [M] in pixels of the second points from the mapped first ones."""
    return np.linalg.norm(transform_points(pair.points1, homography) - pair.points2, axis=1)


def _corner_error(pair: PairMatches, case: Case) -> float:
    """Mean distance of the first image's corners under the two homographies."""
    if pair.model is None:
        return np.inf
    height, width = case.image1.shape[:2]
    corners = np.array([(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)], float)
    difference = transform_points(corners, pair.model) - transform_points(corners, case.homography)
    return float(np.nan_to_num(np.linalg.norm(difference, axis=1), nan=np.inf).mean())


def _draw(case: Case, model: str, pair: PairMatches) -> None:
    name = f"{case.name} {model}".replace(" ", "_").replace("–", "-")
    picture = draw_matches(case.image1, case.image2, pair, f"{case.name} · {model}")
    write_picture(pathlib.Path(FLAGS.pictures) / f"{name}.png", picture)


if __name__ == "__main__":
    command_line.run(main)
