"""Comparing exported networks of whole images with the one they come from."""

import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from doap_tf import tflite_metadata
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.environment import environment
from doap_tf.export.comparison import agreement
from doap_tf.export.dense_tflite import reading_function, sample_photographs
from doap_tf.export.inference_network import inference_network
from doap_tf.export.phone_extraction import extracting_function
from doap_tf.export.point_description import describing_function
from doap_tf.features.dense_reader import sample_map
from doap_tf.features.score_maxima import score_maxima
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded

_PHOTOGRAPHS = ("brick", "coins", "gravel", "moon")  # from which no range is taken
_SIZE = (480, 640)  # of the image for files that take any
_KEYPOINTS = 1000  # of files that give scores
_REPETITIONS = 5
_NEAR = 0.5  # pixels between keypoints that are the same


class _Found(NamedTuple):
    """x, y and radius of keypoints, float32 [N, 3], and their descriptors [N, …]."""

    keypoints: np.ndarray
    rows: np.ndarray


_Extract = Callable[[np.ndarray], _Found]


def compare_dense(
    name: str, network: DenseNetwork, exported: Mapping[str, pathlib.Path]
) -> dict[str, Any]:
    """Compares .tflite files with the network they were made from, on photographs.

    Args:
        name: Name of the network, for the record.
        network: The network.
        exported: Files by their names in the table.

    Returns:
        A record for a result file. Its `scores` hold for every file: `bytes`; `ms`, milliseconds
        for an image, from pixels to descriptors; `keypoints_kept`, the share of the network's
        strongest keypoints that are within half a pixel of one of the file's; and of their
        descriptors `cosine_mean` and `cosine_min`, or `bits_equal`.
    """
    network = inference_network(network)
    return {
        "benchmark": "export",
        "protocol": f"latency: the fastest of {_REPETITIONS} calls; agreement with the Keras "
        f"network on the strongest keypoints of {len(_PHOTOGRAPHS)} photographs; of files for any "
        f"size, {_KEYPOINTS} keypoints at {_SIZE[0]}x{_SIZE[1]} without a pyramid",
        "split": "photographs of scikit-image",
        "seed": 0,
        "model": name,
        "weights_sha256": weights_sha256(network),
        "scores": {short: _scores(network, path) for short, path in exported.items()},
        "environment": environment(),
    }


def _scores(network: DenseNetwork, path: pathlib.Path) -> dict[str, Any]:
    from ai_edge_litert.interpreter import Interpreter

    content = path.read_bytes()
    metadata = tflite_metadata.read(content)
    with stderr_discarded():  # LiteRT announces its delegate
        interpreter = Interpreter(model_content=content, num_threads=cores())
        interpreter.allocate_tensors()
    if metadata["image_size"]:
        size = tuple(metadata["image_size"][0])
        expect = _whole(extracting_function(network, size, metadata["max_keypoints"]))
        extract = _whole(interpreter.get_signature_runner("detect_and_describe"))
    else:
        size = _SIZE
        expect = _one_level(
            network, reading_function(network, network), describing_function(network)
        )
        signatures = (interpreter.get_signature_runner(name) for name in ("read", "describe"))
        extract = _one_level(network, *signatures)
    kept, rows, wanted_rows = [], [], []
    for image in sample_photographs(size, _PHOTOGRAPHS):
        wanted, found = expect(image), extract(image)
        apart = np.abs(wanted.keypoints[:, np.newaxis] - found.keypoints).max(axis=-1)
        same = apart.min(axis=1) < _NEAR
        kept.append(same.mean())
        wanted_rows.append(wanted.rows[same])
        rows.append(found.rows[apart.argmin(axis=1)[same]])
    return {
        "bytes": len(content),
        "ms": _milliseconds(extract, image),
        "keypoints_kept": float(np.mean(kept)),
        **agreement(np.concatenate(wanted_rows), np.concatenate(rows)),
    }


def _whole(detect_and_describe: Callable[..., Mapping[str, Any]]) -> _Extract:
    def extract(image: np.ndarray) -> _Found:
        outputs = {
            name: np.asarray(value) for name, value in detect_and_describe(image=image).items()
        }
        (count,) = outputs["count"]
        return _Found(outputs["keypoints"][:count], outputs["descriptors"][:count])

    return extract


def _one_level(
    network: DenseNetwork,
    read: Callable[..., Mapping[str, Any]],
    describe: Callable[..., Mapping[str, Any]],
) -> _Extract:
    def extract(image: np.ndarray) -> _Found:
        maps = read(
            images=image[np.newaxis, ..., np.newaxis].astype(np.float32),
            statistics=np.array([[image.mean(), image.std()]], np.float32),
        )
        x, y, scores = score_maxima(image, np.asarray(maps["scores"])[0, ..., 0])
        order = np.argsort(-scores, kind="stable")[:_KEYPOINTS]
        points = np.stack([x, y], axis=1)[order]
        sampled = [
            sample_map(np.asarray(maps[f"features{stride}"])[0], (points + 0.5) / stride - 0.5)
            for stride in network.feature_strides
        ]
        rows = describe(sampled=np.concatenate(sampled, axis=1))["descriptors"]
        return _Found(np.pad(points, [(0, 0), (0, 1)]), np.asarray(rows))

    return extract


def _milliseconds(extract: _Extract, image: np.ndarray) -> float:
    times = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        extract(image)
        times.append(time.perf_counter() - start)
    return 1000.0 * min(times)
