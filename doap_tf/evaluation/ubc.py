"""UBC PhotoTour: FPR95 on the official lists of 50,000 matching and 50,000 other pairs."""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.model import Model
from doap_tf.evaluation.result import Plots, Result
from doap_tf.evaluation.seen import what_was_seen
from doap_tf.metrics import false_positive_rate, paired_distances, roc_auc
from doap_tf.metrics.distances import blocks
from doap_tf.progress import progress
from doap_tf.readers import read_pairs, read_patches
from doap_tf.readers.mosaics import PAIRS_FILE, PATCH

SETS = ("liberty", "notredame", "yosemite")


class UBC:
    """The benchmark on one, two or three of the sets.

    Args:
        folder: Folder of the folders `liberty`, `notredame` and `yosemite` or some of them; or
            one of these folders itself.
        cache_dir: Folder for descriptors.
        memory_mb: Limit for patches, descriptors and distances in memory.
    """

    def __init__(
        self, folder: str | os.PathLike, cache_dir: str | os.PathLike, *, memory_mb: float = 1024
    ):
        folder = pathlib.Path(folder)
        folders = [folder / name for name in SETS if (folder / name).is_dir()]
        if not folders:
            if not (folder / PAIRS_FILE).is_file():
                raise InputError(
                    f"{folder} holds none of the folders {', '.join(SETS)}, nor {PAIRS_FILE} as "
                    "one of them does."
                )
            folders = [folder]
        # Read here: a broken list must be found before anything is described.
        self._pairs = {path: read_pairs(path) for path in folders}
        self._cache_dir = pathlib.Path(cache_dir)
        self._memory_mb = memory_mb

    def evaluate(self, model: Model) -> Result:
        """Describes the patches of the lists with a model and scores each set."""
        scores: dict[str, Any] = {}
        plots = Plots()
        for folder, pairs in self._pairs.items():
            name = folder.resolve().name
            distances = self._distances(folder, model)
            scores[name] = {
                "fpr95": false_positive_rate(distances, pairs.matches),
                "roc_auc": roc_auc(distances, pairs.matches),
            }
            read = functools.partial(_read_pairs, folder, pairs.patch_ids)
            plots |= Plots.of_pairs(name, distances, pairs.matches, read)
        trained_on = training_sets(model)
        summary = {
            f"FPR95 {name}": values["fpr95"]
            for name, values in scores.items()
            if name not in trained_on
        }
        if summary:
            summary["FPR95 mean"] = float(np.mean(list(summary.values())))
        return Result(
            benchmark="ubc",
            protocol=f"UBC PhotoTour, {PAIRS_FILE}: false positive rate at 95 % recall, ties "
            "accepted together; scenes that a network was trained on are left out of its row",
            split=",".join(scores),
            seed=None,
            model=model,
            scores=scores,
            summary=summary,
            plots=plots,
            seen=f"{model.name} was trained on {', '.join(trained_on)}."
            if trained_on
            else what_was_seen(model, [f"ubc_phototour/{name}" for name in scores]),
        )

    def _distances(self, folder: pathlib.Path, model: Model) -> np.ndarray:
        """Returns the distances [N] of the pairs of a set."""
        cache = DescriptorCache(self._cache_dir / "descriptors", model)
        ids, rows = np.unique(self._pairs[folder].patch_ids, return_inverse=True)
        rows = rows.reshape(-1, 2)
        steps = list(blocks(len(ids), 4 * PATCH * PATCH, self._memory_mb / 4))
        descriptors = np.concatenate(
            [
                cache.describe_array(read_patches(folder, ids[block]), str(folder))
                for block in progress(steps, f"describing {folder.name} ({model.name})")
            ]
        )
        norm, memory_mb = model.descriptor.norm, self._memory_mb / 4
        return np.concatenate(
            [
                paired_distances(
                    descriptors[rows[block, 0]], descriptors[rows[block, 1]], norm, memory_mb
                )
                for block in blocks(len(rows), 2 * descriptors[:1].nbytes, memory_mb)
            ]
        )


def _read_pairs(folder: pathlib.Path, patch_ids: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Reads the patches uint8 [n, 2, 64, 64] of n chosen pairs of [N, 2]."""
    ids = patch_ids[chosen]
    return read_patches(folder, ids.ravel()).reshape(*ids.shape, PATCH, PATCH)


def training_sets(model: Model) -> list[str]:
    """Returns the sets that a model's name, or else what is known of its training, names."""
    for text in (model.name, model.training.get("data", "")):
        named = [name for name in SETS if name in text]
        if named:
            return named
    return []


def train_test_scores(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Returns FPR95 for the six pairs of training and test set, as in the paper, by method.

    Models whose names differ only in the training set are one method; a model that was trained on
    none of the sets has the same score for both training sets.
    """
    pairs = [(train, test) for test in SETS for train in SETS if train != test]
    methods: dict[str, dict[str, float]] = {}
    for result in results:
        trained_on = training_sets(result.model)
        method = result.model.name
        for name in trained_on:
            method = method.replace(name, "*")
        for train, test in pairs:
            unseen = test in result.scores and test not in trained_on
            if unseen and (not trained_on or train in trained_on):
                column = f"{train} → {test}"
                methods.setdefault(method, {})[column] = result.scores[test]["fpr95"]
    return {
        method: values | {"mean": float(np.mean(list(values.values())))}
        for method, values in methods.items()
    }
