"""Matches a photograph with a hard view of itself, by RootSIFT and as by default; draws both.

python examples/compare_with_sift.py --output=matches.png
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import numpy as np
import skimage.data
from absl import flags

from doap_tf import command_line
from doap_tf.catalogue import DEFAULT_FOR_PAIRS
from doap_tf.drawing.matches import draw_matches
from doap_tf.drawing.pictures import write_picture
from doap_tf.features.frames import transform_points
from doap_tf.matching import match_images

FLAGS = flags.FLAGS
flags.DEFINE_string("model", DEFAULT_FOR_PAIRS, "A name or path, as for match_main.py.")
flags.DEFINE_string("output", None, "The picture to write.", required=True)


def main(argv: Sequence[str]) -> None:
    del argv
    image = cv2.cvtColor(skimage.data.astronaut(), cv2.COLOR_RGB2BGR)
    view, homography = hard_view(image)
    pictures = []
    for model, detector in (("rootsift", "dog"), (FLAGS.model, None)):
        pair = match_images(image, view, model, detector)
        errors = np.linalg.norm(transform_points(pair.points1, homography) - pair.points2, axis=1)
        title = f"{model}: {(errors <= 3).sum()} of {len(errors)} matches right"
        print(title)
        pictures.append(draw_matches(image, view, pair, title))
    write_picture(FLAGS.output, np.vstack(pictures))


def hard_view(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns an oblique, rotated, smaller, blurred and dark view, and the homography to it."""
    height, width = image.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = np.array([[300, 20], [590, 260], [400, 480], [180, 250]], np.float32)
    homography = cv2.getPerspectiveTransform(corners, seen)
    view = cv2.warpPerspective(cv2.GaussianBlur(image, (0, 0), 1.0), homography, (600, 500))
    dark = 110.0 * (view / 255.0) ** 1.3
    noise = np.random.default_rng(0).normal(0, 3, view.shape)
    return np.clip(dark + noise, 0, 255).astype(np.uint8), homography


if __name__ == "__main__":
    command_line.run(main)
