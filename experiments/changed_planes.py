"""Matches planar pairs whose second images are made smaller, blurred or noisy, by detectors.

python experiments/changed_planes.py --data_dir=hpatches_images
python experiments/changed_planes.py --data_dir=hpatches_images --least_pixels=0

Right matches lie within 3 pixels of the true homography, in pixels of a second image that is
smaller within as many of its own down to half its size, and are counted at distinct places. In
brackets: 95 % intervals of the difference from the first detector on the same pairs.
"""

import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import numpy as np
from absl import flags

from doap_tf import command_line
from doap_tf.catalogue import DEFAULT_DETECTOR
from doap_tf.drawing.tables import Table
from doap_tf.progress import progress

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "doap-fast-128", "What describes patches.")
flags.DEFINE_list("detectors", ["learned", DEFAULT_DETECTOR], "Detectors to compare.")
flags.DEFINE_string("data_dir", None, "Folder of image sequences.", required=True)
flags.DEFINE_integer("max_keypoints", 2048, "Maximum number of keypoints per image.")
flags.DEFINE_integer(
    "least_pixels", None, "Networks of whole images enlarge what has fewer; as it ships by default."
)

_RIGHT = 3.0  # pixels
_Change = Callable[[np.ndarray], np.ndarray]


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.evaluation.two_view_scores import bootstrap_interval, distinct_places
    from doap_tf.features import dense_detector
    from doap_tf.features.frames import transform_points
    from doap_tf.matching import DescriptorExtractor, match_images

    if FLAGS.least_pixels is not None:
        dense_detector.LEAST_PIXELS = FLAGS.least_pixels
    extractors = {
        (detector, patches): DescriptorExtractor(
            FLAGS.model, detector, FLAGS.max_keypoints, oriented=patches == "oriented"
        )
        for patches in ("upright", "oriented")
        for detector in FLAGS.detectors
    }
    table: dict[str, dict[str, str]] = {}
    for name, change in _changes().items():
        counts: dict[tuple[str, str], list[int]] = {key: [] for key in extractors}
        for first, second, homography in progress(list(_pairs()), name, unit="pair"):
            changed = change(second)
            factor = changed.shape[1] / second.shape[1]
            smaller = np.array([[factor, 0, factor / 2 - 0.5], [0, factor, factor / 2 - 0.5]])
            truth = np.vstack([smaller, [0, 0, 1]]) @ homography
            for key, extractor in extractors.items():
                pair = match_images(first, changed, extractor, geometry=None, rotations="none")
                errors = transform_points(pair.points1, truth) - pair.points2
                right = np.linalg.norm(errors, axis=1) <= _RIGHT * max(factor, 0.5)
                counts[key].append(distinct_places(pair.points1[right]))
        for (detector, patches), found in counts.items():
            gain = np.subtract(found, counts[FLAGS.detectors[0], patches])
            low, high = bootstrap_interval(lambda drawn, gain=gain: gain[drawn].mean(), len(gain))
            own = detector == FLAGS.detectors[0]
            difference = "" if own else f" ({gain.mean():+.0f}, {low:+.0f} to {high:+.0f})"
            row = table.setdefault(f"{name}, {patches}", {})
            row[detector] = f"{np.mean(found):.0f}{difference}"
    print(Table(table, "second images, patches").markdown())


def _changes() -> dict[str, _Change]:
    rng = np.random.default_rng(0)

    def resized(factor: float) -> _Change:
        return lambda image: cv2.resize(
            image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA
        )

    def noisy(image: np.ndarray) -> np.ndarray:
        return np.clip(image + rng.normal(0, 15, image.shape), 0, 255).astype(np.uint8)

    return {
        "as they are": lambda image: image,
        "at half the size": resized(0.5),
        "at a third": resized(1 / 3),
        "blurred, σ 2 px": lambda image: cv2.GaussianBlur(image, (0, 0), 2),
        "with noise, σ 15": noisy,
    }


def _pairs() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """First and second images with the homographies between them."""
    from doap_tf.readers.image_sequences import list_image_sequences, read_image_sequence

    for folder in list_image_sequences(FLAGS.data_dir):
        sequence = read_image_sequence(folder)
        first, *others = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in sequence.images)
        for second, homography in zip(others, sequence.homographies, strict=True):
            yield first, second, homography


if __name__ == "__main__":
    command_line.run(main)
