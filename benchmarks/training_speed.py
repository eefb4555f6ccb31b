"""Speed of training end to end against the bare step on one fixed batch, in the same run.

python benchmarks/training_speed.py --batch_size=4096
"""

import pathlib
import sys
import time
from collections.abc import Callable, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_integer("batch_size", 4096, "Patches in a list.")
flags.DEFINE_integer("steps", 200, "Steps of each measurement.")
flags.DEFINE_integer("groups", 50_000, "Random groups of four patches to sample from.")
flags.DEFINE_float("width", 1.0, "Multiplier of the network's filters.")
flags.DEFINE_boolean("spatial_transformer", False, "Align patches first.")
flags.DEFINE_string("strategy", "auto", "auto, none or mirrored.")
flags.DEFINE_string("precision", None, "float32 or mixed_bfloat16; by default the latter on GPUs.")


def main(argv: Sequence[str]) -> None:
    del argv
    import numpy as np
    import tensorflow as tf

    from doap_tf.data import GroupSampler, PatchGroups
    from doap_tf.environment import environment
    from doap_tf.training.batches import make_batches
    from doap_tf.training.config import TrainingConfig
    from doap_tf.training.step import TrainingStep
    from doap_tf.training.strategy import make_strategy

    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    config = TrainingConfig(
        batch_size=FLAGS.batch_size,
        width=FLAGS.width,
        spatial_transformer=FLAGS.spatial_transformer,
        precision=FLAGS.precision or ("mixed_bfloat16" if on_gpu else "float32"),
        xla=on_gpu,
    )
    step = TrainingStep(config, make_strategy(FLAGS.strategy))
    size = step.network.input_size
    generator = np.random.default_rng(0)
    patches = generator.integers(0, 256, [4 * FLAGS.groups, size, size], np.uint8)
    groups = PatchGroups.from_arrays(patches, np.repeat(np.arange(FLAGS.groups), 4))

    def train(steps: int, feed: Callable[[], tuple]) -> None:
        for number in range(steps):
            # As schedules have it, every step has its own rate.
            loss = step(*feed(), 1e-4 * (1 + number / steps), number)
        loss.numpy()

    def seconds_a_step(feed: Callable[[], tuple]) -> float:
        train(5, feed)
        start = time.perf_counter()
        train(FLAGS.steps, feed)
        return (time.perf_counter() - start) / FLAGS.steps

    with make_batches(groups, GroupSampler(groups, FLAGS.batch_size)) as batches:

        def next_batch() -> tuple:
            batch = next(batches)
            return batch.patches, batch.labels

        first = next_batch()
        fixed = tuple(tf.constant(values) for values in first)
        rounds = [(seconds_a_step(lambda: fixed), seconds_a_step(next_batch)) for _ in range(3)]
    bare, fed = (min(times) for times in zip(*rounds, strict=True))
    print(environment())
    print(
        f"M = {FLAGS.batch_size}, {config.precision}, XLA {config.xla}, transformer "
        f"{FLAGS.spatial_transformer}: bare step {1e3 * bare:.2f} ms, end to end "
        f"{1e3 * fed:.2f} ms, ratio {fed / bare:.3f}, {FLAGS.batch_size / fed:,.0f} patches/s"
    )


if __name__ == "__main__":
    command_line.run(main)
