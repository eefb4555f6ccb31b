"""Compares the time of preparing and loading a dataset with plain NumPy, TFDS and tf.data.

python benchmarks/dataset_speed.py

The dataset is `photo_patches`: groups of sixteen patches of 65 × 65, of which training takes lists
of 32 × 32. `tfds.as_numpy` gives the former; all other numbers of loading are for the latter.
"""

import contextlib
import itertools
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.patch_generation.groups import GroupSettings, generate_groups
from doap_tf.patch_generation.scenes import default_scenes, find_scenes

FLAGS = flags.FLAGS
flags.DEFINE_string("photographs", None, "Folder or glob; by default those of scikit-image.")
flags.DEFINE_integer("photo_groups", 200, "At most so many of each photograph.")
flags.DEFINE_integer("list_size", 1024, "Patches of a list for training.")

_SIZE = 32
_LISTS = 20  # made in a round


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("tensorflow", "tensorflow-datasets", "numpy")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        builder = _compare_preparing(folder)
        _compare_reading(folder, builder)
        _compare_lists(folder, builder)


def _compare_preparing(folder: pathlib.Path):
    from doap_tf.data import builder

    settings = GroupSettings(magnification=5.0, max_groups=FLAGS.photo_groups)
    scenes = (
        find_scenes(FLAGS.photographs)
        if FLAGS.photographs
        else list(itertools.chain(*default_scenes()))
    )

    def save(processes: int | None = None) -> None:
        groups = [found.patches for _, found in generate_groups(scenes, settings, processes)]
        np.save(folder / "groups.npy", np.concatenate(groups))

    def prepare():
        shutil.rmtree(folder / "tfds", ignore_errors=True)
        made = builder(
            "photo_patches",
            source=FLAGS.photographs,
            settings=settings,
            data_dir=folder / "tfds",
        )
        with contextlib.redirect_stdout(sys.stderr):  # TFDS tells its progress
            made.download_and_prepare()
        return made

    times = measuring.fastest(
        {
            "ours (photo_patches)": prepare,
            "generate_groups and np.save": save,
            "the same in one process": lambda: save(1),
        }
    )
    count = len(np.load(folder / "groups.npy", mmap_mode="r"))
    measuring.print_table(
        f"preparing {count:,} groups of {len(scenes)} photographs", times, list(times)[1:]
    )
    return prepare()


def _compare_reading(folder: pathlib.Path, builder) -> None:
    import tensorflow_datasets as tfds

    from doap_tf.data import PatchGroups, groups_from_tfds

    def first_time() -> PatchGroups:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        return groups_from_tfds(builder, "train", _SIZE, folder / "cache")

    def read() -> int:
        return sum(len(example["patches"]) for example in tfds.as_numpy(plain))

    groups = first_time()
    plain = builder.as_dataset(split="train")
    np.save(folder / "patches.npy", groups.patches)
    times = measuring.fastest(
        {
            "ours, the first time": first_time,
            "ours, from then on": lambda: np.array(
                groups_from_tfds(builder, "train", _SIZE, folder / "cache").patches
            ),
            "tfds.as_numpy": read,
            "np.load": lambda: np.load(folder / "patches.npy"),
        }
    )
    measuring.print_table(f"reading {len(groups):,} patches", times, ["tfds.as_numpy", "np.load"])


def _compare_lists(folder: pathlib.Path, builder) -> None:
    import tensorflow as tf

    from doap_tf.data import GroupSampler, groups_from_tfds
    from doap_tf.preprocessing import resize_patches
    from doap_tf.training.batches import make_batches

    groups = groups_from_tfds(builder, "train", _SIZE, folder / "cache")
    views = len(groups.rows_of(0))

    def lists(cached: bool) -> Iterator:
        examples = builder.as_dataset(split="train").map(
            lambda example: tf.cast(tf.round(resize_patches(example["patches"], _SIZE)), tf.uint8),
            tf.data.AUTOTUNE,
        )
        examples = examples.cache() if cached else examples
        examples = examples.repeat().shuffle(groups.group_count)
        return iter(examples.batch(FLAGS.list_size // views).prefetch(tf.data.AUTOTUNE))

    def drain(source: Iterator) -> None:
        for _ in range(_LISTS):
            next(source)

    with make_batches(groups, GroupSampler(groups, FLAGS.list_size)) as batches:
        sources = {"ours": batches, "tf.data": lists(False), "tf.data, cached": lists(True)}
        times = measuring.fastest(
            {name: lambda s=source: drain(s) for name, source in sources.items()}
        )
    measuring.print_table(f"{_LISTS} lists of {FLAGS.list_size:,} patches", times, list(times)[1:])


if __name__ == "__main__":
    command_line.run(main)
