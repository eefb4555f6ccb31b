"""Running the commands that train, in a process of their own or in this one, and what they need."""

import contextlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from doap_tf import command_line
from doap_tf.data import PatchGroups

REPOSITORY = pathlib.Path(__file__).parents[2]

TINY = (
    "--width=0.125",
    "--dimension=16",
    "--batch_size=32",
    "--learning_rate=1.0",
    "--log_every=1",
    "--validate_every=1000",
)

_WITH_LOGICAL_CPUS = """
import runpy, sys, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * int(sys.argv.pop(1)),
)
sys.argv = sys.argv[1:]
run = runpy.run_path if sys.argv[0].endswith(".py") else runpy.run_module
run(sys.argv[0], run_name="__main__")
"""


@contextlib.contextmanager
def flags_of(command):
    """Defines the flags of a module of doap_tf.commands, and removes them at the end."""
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        command.define_flags()
        yield


def train_here(command, *arguments: str) -> None:
    """Runs a module of doap_tf.commands to the end in this process."""
    with flags_of(command):
        command.main(command_line._parse([command.__name__, *arguments]))


def already_exported(train_dir: pathlib.Path) -> pathlib.Path:
    """Lets a run find its SavedModel, as one that was finished does: to make it takes longest."""
    (train_dir / "saved_model" / "1").mkdir(parents=True, exist_ok=True)
    return train_dir


def start(
    *flags: str, logical_cpus: int = 1, program: str = "train_main.py", **environment: str
) -> subprocess.Popen:
    """Starts training; its output can be read line by line."""
    command = [sys.executable, "-c", _WITH_LOGICAL_CPUS, str(logical_cpus), program, *flags]
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen, expected: int = 0) -> str:
    """Waits for the end and returns the output; an exit code other than `expected` is an error."""
    output, _ = process.communicate(timeout=1200)
    assert process.returncode == expected, f"exit code {process.returncode}:\n{output[-3000:]}"
    return output


def train(*flags: str, expected: int = 0, **options) -> str:
    """Trains to the end and returns the output."""
    return finish(start(*flags, **options), expected)


def last_checkpoint(train_dir: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of the newest checkpoint."""
    with np.load(max((train_dir / "checkpoints").glob("*.npz"))) as content:
        return {name: content[name] for name in content.files if name != "state"}


def make_groups(count: int = 40, views: int = 4, size: int = 32, seed: int = 0) -> PatchGroups:
    """Noisy views of smooth random patches."""
    generator = np.random.default_rng(seed)
    places = tf.image.resize(generator.integers(0, 256, [count, 8, 8, 1]), [size, size]).numpy()
    noise = generator.normal(0, 60, [count, views, size, size])
    patches = np.clip(places[:, np.newaxis, ..., 0] + noise, 0, 255).astype(np.uint8)
    return PatchGroups.from_arrays(
        patches.reshape(-1, size, size), np.repeat(np.arange(count), views)
    )


def make_photographs(folder: pathlib.Path, count: int = 6, side: int = 120) -> pathlib.Path:
    """Writes pictures of overlapping rectangles, which have corners to find."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for number in range(count):
        image = np.full([side, side, 1], 128, np.uint8)
        for _ in range(60):
            x, y = generator.integers(0, side, 2)
            width, height = generator.integers(6, 30, 2)
            image[y : y + height, x : x + width] = generator.integers(0, 256)
        (folder / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())
    return folder
