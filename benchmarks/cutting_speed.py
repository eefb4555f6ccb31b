"""Compares the time of cutting patches with that of a loop of cv2.warpAffine.

python benchmarks/cutting_speed.py --patches=10000

Ours smooths the image so that shrunk patches do not alias, and that time is included. The loop does
not smooth; where patches are enlarged both give the same, else only the loop's patches alias.
"""

import pathlib
import sys
from collections.abc import Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.features import cut_patches, similarity_frames

FLAGS = flags.FLAGS
flags.DEFINE_integer("patches", 10_000, "How many are cut from an image of 1,024 × 768 pixels.")

MAGNIFICATION = 10.0
_HEIGHT, _WIDTH = 768, 1024


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "opencv-contrib-python-headless")
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (_HEIGHT, _WIDTH), np.uint8)
    centres = random.uniform((0, 0), (_WIDTH, _HEIGHT), (FLAGS.patches, 2))
    angles = random.uniform(0, 2 * np.pi, FLAGS.patches)
    for size in (32, 65):
        # In units of the patch's own pixel, and with most of them small, as detectors find them.
        for scale, steps in (
            ("enlarged", random.uniform(0.5, 1.0, FLAGS.patches)),
            ("shrunk up to 8 times", np.minimum(1 + random.pareto(2, FLAGS.patches), 8)),
        ):
            radii = steps * size / (2 * MAGNIFICATION)
            frames = similarity_frames(*centres.T, radii, angles)
            times = measuring.fastest(
                {
                    "ours": lambda frames=frames, size=size: cut_patches(
                        image, frames, size, MAGNIFICATION
                    ),
                    "warpAffine": lambda frames=frames, size=size: loop_of_warps(
                        image, frames, size
                    ),
                }
            )
            title = f"{FLAGS.patches:,} patches of {size} × {size}, {scale}"
            measuring.print_table(title, times, ["warpAffine"])


def loop_of_warps(image: np.ndarray, frames: np.ndarray, size: int) -> np.ndarray:
    """The same squares, uint8 [N, size, size], one after the other."""
    patches = np.empty((len(frames), size, size), np.uint8)
    step, start = 2 * MAGNIFICATION / size, (1 / size - 1) * MAGNIFICATION
    to_frame = np.array([[step, 0, start], [0, step, start], [0, 0, 1]])
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    for patch, frame in zip(patches, frames, strict=True):
        cv2.warpAffine(
            image, frame @ to_frame, (size, size), patch, how, borderMode=cv2.BORDER_REPLICATE
        )
    return patches


if __name__ == "__main__":
    command_line.run(main)
