"""Compares the time of exact matching with OpenCV's, each in the best of some interleaved runs.

python benchmarks/match_speed.py --count=10000
"""

import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from doap_tf import commands
from doap_tf.matching import match_descriptors

FLAGS = flags.FLAGS

flags.DEFINE_integer("count", 10_000, "Descriptors on either side.")
flags.DEFINE_integer("runs", 3, "Of which the fastest counts.")


def main(argv: Sequence[str]) -> None:
    del argv
    random = np.random.default_rng(0)
    real1, real2 = random.standard_normal((2, FLAGS.count, 128), np.float32)
    real1, real2 = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (real1, real2))
    bits1, bits2 = random.integers(0, 256, (2, FLAGS.count, 32), np.uint8)
    print(f"{FLAGS.count} × {FLAGS.count}              doap_tf  BFMatcher  times as fast")
    for name, norm, rows1, rows2 in (
        ("128 values", cv2.NORM_L2, real1, real2),
        ("256 bits", cv2.NORM_HAMMING, bits1, bits2),
    ):
        plain, crossed = cv2.BFMatcher(norm), cv2.BFMatcher(norm, crossCheck=True)
        for method, peer in (
            ("nearest", lambda matcher=plain, a=rows1, b=rows2: matcher.match(a, b)),
            ("mutual", lambda matcher=crossed, a=rows1, b=rows2: matcher.match(a, b)),
            ("ratio", lambda matcher=plain, a=rows1, b=rows2: matcher.knnMatch(a, b, 2)),
        ):
            ours, theirs = _fastest(
                lambda a=rows1, b=rows2, n=norm, m=method: match_descriptors(a, b, n, m), peer
            )
            print(
                f"{name:<11} {method:<12} {ours:>10.2f} s {theirs:>7.2f} s {theirs / ours:>10.1f}",
                flush=True,
            )


def _fastest(*functions: Callable[[], object]) -> list[float]:
    times = [[] for _ in functions]
    for _ in range(FLAGS.runs):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return [min(seconds) for seconds in times]


if __name__ == "__main__":
    commands.run(main)
