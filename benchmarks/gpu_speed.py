"""Speed of description, of networks of whole images, and memory of the loss on a GPU.

python benchmarks/gpu_speed.py

Networks of whole images find and describe keypoints as a served model does, one image at a time
from and to the host's memory. Then their maps and descriptors alone are computed, compiled, for
batches on the device, and compared with the time that it takes to write each map once and read it
once, at the speed at which the device reads.
Description starts from uint8 patches in the host's memory and ends there, at several batch sizes,
each after so many patches that the network is compiled for it.
The loss runs forward and backward, compiled, on random descriptors of groups of two; its memory is
the peak beyond what was there before.
"""

import pathlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_list("models", ["doap-128", "doap-st-128", "doap-256b", "doap-mobile-256b"], "Names.")
flags.DEFINE_list(
    "image_models", ["doap-dense-128", "doap-dense-small-256b"], "Networks of whole images."
)
flags.DEFINE_list("image_batches", ["1", "8", "32"], "Images of a batch on the device.")
flags.DEFINE_integer("keypoints", 4000, "Of an image.")
flags.DEFINE_list("batch_sizes", ["64", "256", "1024", "4096", "16384"], "Of description.")
flags.DEFINE_integer("patches", 65536, "How many are described.")
flags.DEFINE_list("sizes", ["4096", "8192", "16384", "32768"], "Patches in a list of the loss.")

_CHUNK = 2048
_DIMENSION = 128
_HEIGHT, _WIDTH = 864, 1152
_READ = 1 << 30  # bytes


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
    for name in FLAGS.image_models:
        _read_images(name)
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


def _read_images(name: str) -> None:
    import tensorflow as tf

    from doap_tf.export.graph_extractor import graph_extractor
    from doap_tf.zoo import load_keras

    network = load_keras(name)
    random = np.random.default_rng(0)
    photograph = random.integers(0, 256, [_HEIGHT, _WIDTH]).astype(np.float32)
    extract = tf.function(graph_extractor(network).extract, autograph=False)
    count = tf.constant(FLAGS.keypoints)
    seconds = _seconds(lambda *inputs: extract(*inputs)[1], photograph, count)
    print(f"\n{name}: {1 / seconds:,.1f} images a second, one at a time", flush=True)

    @tf.function(jit_compile=True)
    def describe(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        scores, features = network(images)
        return tf.reduce_max(scores) + tf.reduce_sum(network.describe(features, points))

    values = tf.random.stateless_uniform([_READ // 4], [0, 0])
    read = tf.function(tf.reduce_max, jit_compile=True)
    bandwidth = _READ / _seconds(read, values)
    channels = sum(
        sum(block.filters for block in blocks) / 4**level
        for level, blocks in enumerate(network.levels, 1)
    )
    traffic = 2 * 4 * channels * _HEIGHT * _WIDTH
    print(
        f"writing and reading its maps once: {traffic / 2**20:,.0f} MiB an image, of "
        f"{bandwidth / 1e9:,.0f} GB a second"
    )
    for size in map(int, FLAGS.image_batches):
        images = tf.random.stateless_uniform([size, _HEIGHT, _WIDTH, 1], [0, 1], 0, 255)
        points = tf.random.stateless_uniform([size, FLAGS.keypoints, 2], [0, 2], 0, _HEIGHT)
        rate = size / _seconds(describe, images, points)
        share = rate * traffic / bandwidth
        print(
            f"batches of {size}: {rate:,.0f} images a second, {share:.0%} of the limit", flush=True
        )


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
    milliseconds = 1e3 * _seconds(step, descriptors)
    version = "whole" if chunk is None else f"chunks of {chunk}"
    print(f"{size:>7} {version:<18} {milliseconds:>12.2f} {peak / 2**20:>9,.0f}", flush=True)


def _seconds(function: Callable, *arguments: object) -> float:
    """Returns the time that a function takes until its result is on the host."""
    (seconds,) = measuring.fastest({"": lambda: function(*arguments).numpy()}).values()
    return seconds


if __name__ == "__main__":
    command_line.run(main)
