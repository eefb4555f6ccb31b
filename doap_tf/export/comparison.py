"""Comparing exported models with the network they come from: size, speed and agreement."""

import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from doap_tf.data import PatchGroups
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.descriptors.litert_backend import LiteRTBackend
from doap_tf.descriptors.saved_model_backend import SavedModelBackend
from doap_tf.drawing.tables import Table
from doap_tf.environment import environment
from doap_tf.errors import InputError
from doap_tf.metrics import matching_average_precision
from doap_tf.networks import DescriptorNetwork
from doap_tf.preprocessing import resize_patches

_COUNTS = (1, 100, 1000)
_REPETITIONS = 5


def compare(
    name: str,
    network: DescriptorNetwork,
    exported: Mapping[str, pathlib.Path],
    groups: PatchGroups,
) -> dict[str, Any]:
    """Compares exported models with the network they were made from.

    Args:
        name: Name of the model, for the record.
        network: The network.
        exported: SavedModels and .tflite files, by their names in the table.
        groups: Patch groups that quantisation has not seen.

    Returns:
        A record for a result file. Its `scores` hold for every model: `bytes`; `ms_1`, `ms_100` and
        `ms_1000`, milliseconds for that many patches; `cosine_mean` and `cosine_min`, or
        `bits_equal`; `matching_map`, and `matching_map_points`, its lead over the network's.
    """
    reference = Descriptor(network)
    pairs = _pairs(groups)
    patches = pairs.reshape(-1, groups.size, groups.size)[: max(_COUNTS)]
    expected = reference.describe(patches)
    scores: dict[str, dict[str, Any]] = {}
    for model, path in {"keras": None, **exported}.items():
        descriptor = reference if path is None else _open(path)
        first, second = (descriptor.describe(side) for side in pairs.swapaxes(0, 1))
        quality = matching_average_precision(first, second, descriptor.norm)
        scores[model] = {
            "bytes": None if path is None else _bytes_of(path),
            **_latencies(descriptor, patches),
            **agreement(expected, descriptor.describe(patches)),
            "matching_map": quality,
        }
    for row in scores.values():
        row["matching_map_points"] = 100 * (row["matching_map"] - scores["keras"]["matching_map"])
    return {
        "benchmark": "export",
        "protocol": f"latency: median of {_REPETITIONS} calls at the network's input size; "
        f"agreement with the Keras network on {len(patches)} patches; matching: the first patches "
        f"of {len(pairs)} groups against their second ones",
        "split": groups.source,
        "seed": 0,
        "model": name,
        "weights_sha256": reference.weights_sha256,
        "scores": scores,
        "environment": environment(),
    }


def _open(path: pathlib.Path) -> Descriptor:
    return Descriptor((LiteRTBackend if path.suffix == ".tflite" else SavedModelBackend)(path))


def agreement(expected: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Agreement of two sets of descriptors: cosines of real ones, equal bits of packed ones."""
    if expected.dtype == np.uint8:
        return {"bits_equal": 1.0 - float(np.unpackbits(expected ^ found).mean())}
    cosines = np.sum(expected * found, axis=1)
    return {"cosine_mean": float(cosines.mean()), "cosine_min": float(cosines.min())}


def as_table(record: dict[str, Any]) -> str:
    """Returns the scores of a record as a Markdown table, one row per model."""
    return Table(record["scores"], format_value=_cell).markdown()


def _cell(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"


def _pairs(groups: PatchGroups) -> np.ndarray:
    """The first two patches of up to a thousand groups, uint8 [n, 2, S, S]."""
    chosen = np.flatnonzero(groups.group_sizes >= 2)[: max(_COUNTS)]
    if len(chosen) < 2:
        raise InputError(f"{groups.source} has too few groups of two patches to measure on.")
    rows = np.stack([groups.rows_of(group)[:2] for group in chosen])
    return np.asarray(groups.patches[rows])


def _bytes_of(path: pathlib.Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _latencies(descriptor: Descriptor, patches: np.ndarray) -> dict[str, float]:
    fitting = resize_patches(patches[..., np.newaxis], descriptor.input_size).numpy()
    milliseconds = {}
    for count in _COUNTS:
        batch = np.resize(fitting, [count, *fitting.shape[1:]])
        descriptor.describe(batch)
        times = []
        for _ in range(_REPETITIONS):
            start = time.perf_counter()
            descriptor.describe(batch)
            times.append(time.perf_counter() - start)
        milliseconds[f"ms_{count}"] = 1000.0 * float(np.median(times))
    return milliseconds
