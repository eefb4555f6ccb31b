"""RomePatches: a patch of each group, or every patch, queries for the nine others of its group."""

import os
import pathlib
from typing import Any

import numpy as np

from doap_tf.errors import check_choice
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.model import Model
from doap_tf.evaluation.result import Plots, Result
from doap_tf.metrics import paired_distances, retrieval_average_precisions
from doap_tf.readers import read_rome_half
from doap_tf.readers.rome_patches import HALVES

QUERIES = {
    "first": "the first patch of each group queries the patches of its half that are no queries",
    "all": "every patch queries all others of its half",
}


class Rome:
    """The benchmark on both halves.

    Args:
        folder: Folder of `patch_retrieval_Rome_{train,test}.mat` and their labels.
        cache_dir: Folder for descriptors.
        queries: `first`, as the dataset's own script does it: 1,000 queries of each half, 9,000
            patches to search; or `all`.
        method: As for `average_precision`.
        memory_mb: Limit for distances in memory.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        cache_dir: str | os.PathLike,
        *,
        queries: str = "first",
        method: str = "trapezoid",
        memory_mb: float = 1024,
    ):
        check_choice("queries", queries, QUERIES)
        self._queries = queries
        self._halves = {half: read_rome_half(folder, half)[0] for half in HALVES}
        self._cache_dir = pathlib.Path(cache_dir)
        self._method = method
        self._memory_mb = memory_mb

    def evaluate(self, model: Model) -> Result:
        """Describes both halves with a model and scores them."""
        scores: dict[str, Any] = {}
        plots = Plots()
        for half, patches in self._halves.items():
            groups, views, *shape = patches.shape
            flat = patches.reshape(-1, *shape)
            cache = DescriptorCache(self._cache_dir / "descriptors", model)
            descriptors = cache.describe_array(flat, f"Rome {half}")
            numbers = np.repeat(np.arange(groups), views)
            precisions = retrieval_average_precisions(
                descriptors,
                numbers,
                model.descriptor.norm,
                self._method,
                self._memory_mb,
                queries=np.arange(0, len(flat), views) if self._queries == "first" else None,
            )
            scores[half] = {"map": float(precisions.mean())}
            plots |= _plots(half, flat, numbers, descriptors, model.descriptor.norm)
        return Result(
            benchmark="rome",
            protocol=f"RomePatches, queries={self._queries}: {QUERIES[self._queries]}, "
            f"nine positives; average precision by {self._method}",
            split=",".join(HALVES),
            seed=None,
            model=model,
            scores=scores,
            summary={f"mAP {half}": values["map"] for half, values in scores.items()},
            plots=plots,
        )


def _plots(
    half: str, patches: np.ndarray, groups: np.ndarray, descriptors: np.ndarray, norm: int
) -> Plots:
    """Plots pairs: each patch with the next one, and with one of the next group."""
    rows = np.arange(len(patches))
    size = int(np.count_nonzero(groups == groups[0]))
    pairs = np.stack([np.tile(rows, 2), np.append(rows + 1, rows + size) % len(patches)], 1)
    return Plots.of_pairs(
        half,
        paired_distances(descriptors[pairs[:, 0]], descriptors[pairs[:, 1]], norm),
        groups[pairs[:, 0]] == groups[pairs[:, 1]],
        lambda chosen: patches[pairs[chosen]],
    )
