"""Peak memory and time of the AP loss, forward and backward, against a plain [M, M, b] version.

python benchmarks/loss_memory.py
"""

import pathlib
import subprocess
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import commands

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["1024", "2048", "4096"], "Numbers of patches to compare at.")
flags.DEFINE_list("sizes_alone", ["16384"], "Numbers of patches to measure ours alone at.")

_MEASURE = """
import os, resource, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
sys.path.insert(0, sys.argv[1])
from doap_tf.losses import histogram_average_precision, relations

kind, size = sys.argv[2], int(sys.argv[3])
rows = tf.math.l2_normalize(tf.random.stateless_normal([size, 128], [0, 0]), axis=1)
groups = tf.range(size) // 4

def plain(rows, groups):
    same = groups[:, None] == groups
    positive = tf.cast(same, tf.float32) - tf.eye(size)
    related = 1.0 - tf.eye(size)
    distances = tf.sqrt(tf.maximum(2 - 2 * tf.matmul(rows, rows, transpose_b=True), 1e-6))
    kernel = tf.nn.relu(1 - tf.abs(distances[..., None] - tf.linspace(0.0, 2.0, 26)) / 0.08)
    found = tf.reduce_sum(kernel * positive[..., None], axis=1)
    found_sum = tf.cumsum(found, axis=1)
    seen_sum = tf.cumsum(tf.reduce_sum(kernel * related[..., None], axis=1), axis=1)
    seen_before = tf.pad(seen_sum, [[0, 0], [1, 0]])[:, :-1]
    ratio = (2 * found_sum - found + 1) / (seen_sum + seen_before + 1)
    return tf.reduce_sum(found * ratio, axis=1) / tf.reduce_sum(positive, axis=1)

def ours(chunk):
    def run(rows, groups):
        def related(numbers):
            return relations(tf.gather(groups, numbers), groups, query_rows=numbers)
        return histogram_average_precision(rows, rows, related, chunk_size=chunk)
    return run

function = {"plain": plain, "ours": ours(None), "chunked": ours(512)}[kind]

@tf.function
def step(rows, groups):
    with tf.GradientTape() as tape:
        tape.watch(rows)
        loss = 1 - tf.reduce_mean(function(rows, groups))
    return loss, tape.gradient(loss, rows)

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step(rows, groups)
start = time.perf_counter()
loss, gradient = step(rows, groups)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(f"{float(loss):.6f} {seconds:.3f} {peak / 1024:.0f}")
"""


def main(argv: Sequence[str]) -> None:
    del argv
    root = str(pathlib.Path(__file__).parents[1])
    print(f"{'M':>6} {'version':>8} {'loss':>9} {'seconds':>8} {'peak MiB':>9}")
    for size in [*FLAGS.sizes, *FLAGS.sizes_alone]:
        kinds = ("plain", "ours", "chunked") if size in FLAGS.sizes else ("ours", "chunked")
        for kind in kinds:
            finished = subprocess.run(
                [sys.executable, "-c", _MEASURE, root, kind, size], capture_output=True, text=True
            )
            if finished.returncode:
                print(f"{size:>6} {kind:>8} failed: {finished.stderr.strip().splitlines()[-1:]}")
                continue
            loss, seconds, peak = finished.stdout.split()
            print(f"{size:>6} {kind:>8} {loss:>9} {seconds:>8} {peak:>9}", flush=True)


if __name__ == "__main__":
    commands.run(main)
