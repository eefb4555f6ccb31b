"""Writing features and matches as hloc's HDF5 files."""

import os
import pathlib
from collections.abc import Sequence

import h5py
import numpy as np

from doap_tf.errors import InputError
from doap_tf.files import write_atomically, write_file
from doap_tf.matching.image_features import unit_rows
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.pair_selection import Pair


def pair_name(name1: str, name2: str) -> str:
    """hloc's name for the group of a pair."""
    return "/".join(name.replace("/", "-") for name in (name1, name2))


def check_pair_names(pairs: Sequence[Pair]) -> None:
    """Raises an InputError if hloc could not find these pairs in the files of `write_hloc`."""
    seen: set[str] = set()
    for pair in pairs:
        for name in pair:
            if name.split() != [name]:
                raise InputError(
                    f"hloc cannot read the name {name!r}, because it splits lists of pairs at "
                    "spaces; rename the image, or write a COLMAP database."
                )
        if pair_name(*pair) in seen:
            raise InputError(
                f"hloc cannot tell {' – '.join(pair)} from another pair, because it replaces / by "
                "-; rename an image, or write a COLMAP database."
            )
        seen.add(pair_name(*pair))


def write_hloc(
    store: MatchStore, names: Sequence[str], pairs: Sequence[Pair], folder: str | os.PathLike
) -> None:
    """Writes `features.h5`, `matches.h5` and `pairs.txt`, each whole or not at all.

    The group of an image holds `keypoints` [N, 2] (pixel centres at integers), `scales` [N], `oris`
    [N] (degrees), `descriptors` [D, N], `scores` [N] and `image_size` [2]. That of a pair holds
    `matches0` [N], the match of each feature of the first image or −1, `matching_scores0` [N], and
    `inliers0` [N], which hloc ignores.

    Args:
        store: Holds the features of `names` and the matches of `pairs`.
        names: The images.
        pairs: Names of matched images.
        folder: Folder of the files, created if necessary.
    """
    check_pair_names(pairs)
    folder = pathlib.Path(folder)
    counts = {}
    with write_atomically(folder / "features.h5") as path, h5py.File(path, "w") as file:
        for name in names:
            features = store.read_features(name)
            counts[name] = len(features.frames)
            group = file.create_group(name)
            group["keypoints"] = features.points.astype(np.float32)
            group["keypoints"].attrs["uncertainty"] = 1.0
            group["scales"] = features.scales.astype(np.float32)
            group["oris"] = np.degrees(features.angles).astype(np.float32)
            # Half precision, as hloc writes descriptors; keypoints would lose whole pixels.
            group["descriptors"] = unit_rows(features.descriptors, features.norm).T.astype(
                np.float16
            )
            group["scores"] = features.responses
            group["image_size"] = np.array(features.image_size)
    with write_atomically(folder / "matches.h5") as path, h5py.File(path, "w") as file:
        for pair in pairs:
            indices, scores, inliers, *_ = store.read_pair(*pair)
            group = file.create_group(pair_name(*pair))
            count = counts[pair[0]]
            for name, values, nothing in (
                ("matches0", indices[:, 1].astype(np.int32), -1),
                ("matching_scores0", scores, 0),
                ("inliers0", inliers, False),
            ):
                column = np.full(count, nothing, values.dtype)
                column[indices[:, 0]] = values
                group[name] = column
    write_file(folder / "pairs.txt", "".join(f"{name1} {name2}\n" for name1, name2 in pairs))
