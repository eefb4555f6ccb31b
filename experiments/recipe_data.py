"""Cuts stand-ins for UBC PhotoTour, HPatches and RomePatches, in their official layouts.

python experiments/recipe_data.py --data=DATA --output=FOLDER

DATA is that of experiments/prepare.sh. Written are, for the recipes of the paper,
- ubc/train and ubc/test, each a folder notredame: 304 mosaics of Notre Dame and the other 102;
  the points are those of groups.txt, the test pairs (50,000 and 50,000) are drawn among them;
- hpatches/train: 70 photographs and six webcams; hpatches/test: six image sequences;
- rome: half of the points with ten patches or more each for the train and the test files.
"""

import pathlib
import shutil
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "Folder of the original data.", required=True)
flags.DEFINE_string("output", None, "Folder to write.", required=True)
flags.DEFINE_integer("photographs", 70, "Sequences cut from photographs of urban100.")
flags.DEFINE_integer("max_groups", 400, "Maximum number of groups per sequence.")

_TRAIN_MOSAICS = 304
_PAIRS = 50_000
_ILLUMINATION = "leuven"  # of Oxford's sequences


def main(argv: Sequence[str]) -> None:
    del argv
    data, output = pathlib.Path(FLAGS.data), pathlib.Path(FLAGS.output)
    write_ubc(data / "notredame", output / "ubc")
    write_rome(data / "notredame", output / "rome")
    write_hpatches(data, output / "hpatches")


def write_ubc(source: pathlib.Path, folder: pathlib.Path) -> None:
    import numpy as np

    from doap_tf.readers.mosaics import PAIRS_FILE, PATCHES_PER_MOSAIC, list_mosaics, read_point_ids

    points, mosaics = read_point_ids(source), list_mosaics(source)
    first = _TRAIN_MOSAICS * PATCHES_PER_MOSAIC
    parts = {
        "train": (mosaics[:_TRAIN_MOSAICS], points[:first]),
        "test": (mosaics[_TRAIN_MOSAICS:], points[first:]),
    }
    for part, (files, numbers) in parts.items():
        target = folder / part / "notredame"
        target.mkdir(parents=True)
        for number, file in enumerate(files):
            shutil.copy(file, target / f"patches{number:04d}{file.suffix}")
        (target / "info.txt").write_text("".join(f"{number} 0\n" for number in numbers))
    rng = np.random.default_rng(0)
    numbers = parts["test"][1]
    starts, sizes = np.unique(numbers, return_index=True, return_counts=True)[1:]
    several = np.flatnonzero((sizes > 1) & (numbers[starts] != points[first - 1]))
    matches = rng.choice(several, _PAIRS)
    others = np.stack([rng.choice(several, 2, replace=False) for _ in range(_PAIRS)])
    with (target / PAIRS_FILE).open("w") as pairs:
        for point in matches:
            one, two = starts[point] + rng.choice(sizes[point], 2, replace=False)
            pairs.write(f"{one} {numbers[one]} 0 {two} {numbers[two]} 0 0\n")
        for pair in others:
            one, two = starts[pair] + rng.integers(sizes[pair])
            pairs.write(f"{one} {numbers[one]} 0 {two} {numbers[two]} 0 0\n")


def write_rome(source: pathlib.Path, folder: pathlib.Path) -> None:
    import cv2
    import numpy as np
    import scipy.io

    from doap_tf.readers.mosaics import iterate_groups
    from doap_tf.readers.rome_patches import GROUP, HALVES, PATCH, file_names

    rng = np.random.default_rng(0)
    groups = [
        [cv2.resize(patch, (PATCH, PATCH), interpolation=cv2.INTER_AREA) for patch in chosen]
        for group in iterate_groups(source)
        if len(group.patches) >= GROUP
        for chosen in [rng.permutation(group.patches)[:GROUP]]
    ]
    folder.mkdir(parents=True)
    for half, name in enumerate(HALVES):
        patches = np.array(groups[half::2])
        labels = np.repeat(np.arange(len(patches)), GROUP - 1)
        patches_file, labels_file = (folder / file for file in file_names(name))
        rows = np.concatenate([patches[:, 0], patches[:, 1:].reshape(-1, PATCH, PATCH)])
        scipy.io.savemat(patches_file, {"patches": rows})
        gt = {"labels_gt": np.arange(len(patches)), "labels": labels}
        scipy.io.savemat(labels_file, gt)


def write_hpatches(data: pathlib.Path, folder: pathlib.Path) -> None:
    from doap_tf.patch_generation import GroupSettings, find_scenes
    from doap_tf.patch_generation.strip_writer import write_strips

    settings = GroupSettings(magnification=5.0, max_groups=FLAGS.max_groups)
    photographs = find_scenes(data / "photos/urban100")[: FLAGS.photographs]
    write_strips(
        [*photographs, *find_scenes(data / "webcam", "aligned")], folder / "train", settings
    )
    sequences = [
        scene
        for name in ("oxford", "hpatches_images")
        for scene in find_scenes(data / name, "sequences")
    ]
    for path in write_strips(sequences, folder / "test", settings):
        if path.name == f"v_{_ILLUMINATION}":
            path.rename(path.with_name(f"i_{_ILLUMINATION}"))


if __name__ == "__main__":
    command_line.run(main)
