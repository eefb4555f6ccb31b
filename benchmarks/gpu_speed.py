"""Speed of description and memory of the loss on a GPU.

python benchmarks/gpu_speed.py

Description starts from uint8 patches in the host's memory and ends there, at several batch sizes,
each after so many patches that the network is compiled for it.
The loss runs forward and backward, compiled, on random descriptors of groups of two; its memory is
the peak beyond what was there before.
"""

import pathlib
import sys
from collections.abc import Sequence

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_list("models", ["doap-128", "doap-st-128", "doap-256b", "doap-mobile-256b"], "Names.")
flags.DEFINE_list("batch_sizes", ["64", "256", "1024", "4096", "16384"], "Of description.")
flags.DEFINE_integer("patches", 65536, "How many are described.")
flags.DEFINE_list("sizes", ["4096", "8192", "16384", "32768"], "Patches in a list of the loss.")

_CHUNK = 2048
_DIMENSION = 128


def main(argv: Sequence[str]) -> None:
    del argv
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise InputError(
            "there is no GPU: benchmarks/describe_speed.py and loss_speed.py run on CPUs."
        )
    measuring.print_setting("tensorflow")
    for name in FLAGS.models:
        _describe(name)
    print(f"\n{'M':>7} {'version':<18} {'milliseconds':>12} {'peak MiB':>9}")
    for size in map(int, FLAGS.sizes):
        for chunk in (None, _CHUNK):
            _loss(size, chunk)


def _describe(name: str) -> None:
    import doap_tf
    from doap_tf.descriptors.keras_backend import COMPILE_AFTER

    descriptor = doap_tf.from_pretrained(name, backend="keras")
    side = descriptor.input_size
    patches = np.random.default_rng(0).integers(0, 256, [FLAGS.patches, side, side], np.uint8)
    functions = {
        size: lambda size=int(size): descriptor.describe(patches, batch_size=size)
        for size in FLAGS.batch_sizes
    }
    for function in functions.values():
        for _ in range(COMPILE_AFTER // len(patches) + 1):
            function()
    times = measuring.fastest(functions)
    rates = ", ".join(f"{len(patches) / time:,.0f} at {size}" for size, time in times.items())
    print(f"{name}: patches a second: {rates}", flush=True)


def _loss(size: int, chunk: int | None) -> None:
    import tensorflow as tf

    from doap_tf.losses import AveragePrecisionLoss

    loss = AveragePrecisionLoss(chunk_size=chunk)
    random = tf.random.stateless_normal([size, _DIMENSION], seed=[0, 0])
    descriptors = tf.math.l2_normalize(random, axis=1)
    labels = tf.range(size) // 2

    @tf.function(jit_compile=True)
    def step(descriptors: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(descriptors)
            value = loss(labels, descriptors)
        return tape.gradient(value, descriptors)

    step(descriptors).numpy()
    tf.config.experimental.reset_memory_stats("GPU:0")
    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    step(descriptors).numpy()
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] - before
    (seconds,) = measuring.fastest({"": lambda: step(descriptors).numpy()}).values()
    version = "whole" if chunk is None else f"chunks of {chunk}"
    print(f"{size:>7} {version:<18} {1e3 * seconds:>12.2f} {peak / 2**20:>9,.0f}", flush=True)


if __name__ == "__main__":
    command_line.run(main)
