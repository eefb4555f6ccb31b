"""Compares the time of matching with OpenCV's brute-force matcher.

python benchmarks/match_speed.py --descriptors=10000

The search by products of 8-bit integers, that of images with many keypoints, is exact for bits and
nearly so for floats.
"""

import functools
import pathlib
import sys
from collections.abc import Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.matching import match_descriptors

FLAGS = flags.FLAGS
flags.DEFINE_integer("descriptors", 10_000, "How many on either side.")


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "opencv-contrib-python-headless")
    count = FLAGS.descriptors
    random = np.random.default_rng(0)
    real = random.standard_normal((2, count, 128), np.float32)
    real /= np.linalg.norm(real, axis=2, keepdims=True)
    bits = random.integers(0, 256, (2, count, 32), np.uint8)
    for name, norm, sides in (
        ("128 values", cv2.NORM_L2, real),
        ("256 bits", cv2.NORM_HAMMING, bits),
    ):
        plain, crossed = cv2.BFMatcher(norm), cv2.BFMatcher(norm, crossCheck=True)
        for method, peer in (
            ("nearest", functools.partial(plain.match, *sides)),
            ("mutual", functools.partial(crossed.match, *sides)),
            ("ratio", functools.partial(plain.knnMatch, *sides, k=2)),
        ):
            ours = functools.partial(match_descriptors, *sides, norm, method)
            quantized = functools.partial(ours, quantized=True)
            times = measuring.fastest(
                {"ours": ours, "ours, by 8-bit integers": quantized, "BFMatcher": peer}
            )
            title = f"{count:,} × {count:,} of {name}, {method}"
            measuring.print_table(title, times, ["BFMatcher"])


if __name__ == "__main__":
    command_line.run(main)
