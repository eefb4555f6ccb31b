"""The devices and the precision that a run computes with."""

import contextlib
import json
import os
from collections.abc import Iterator

import tensorflow as tf

from doap_tf.errors import InputError, check_choice

STRATEGIES = ("auto", "none", "mirrored", "multi_worker")


def make_strategy(name: str) -> tf.distribute.Strategy:
    """Returns the strategy of a name.

    Args:
        name: `"none"`: one device. `"mirrored"`: all GPUs of this machine, or all logical CPUs
            where there is none. `"multi_worker"`: all machines named in TF_CONFIG. `"auto"`:
            several machines if TF_CONFIG is set, mirrored where there is a GPU, otherwise none.
    """
    check_choice("strategy", name, STRATEGIES)
    if name == "auto":
        if os.environ.get("TF_CONFIG"):
            name = "multi_worker"
        else:
            name = "mirrored" if tf.config.list_physical_devices("GPU") else "none"
    if name == "multi_worker":
        _check_cluster(os.environ.get("TF_CONFIG", ""))
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "mirrored":
        kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices(kind)]
        )
    return tf.distribute.get_strategy()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes checkpoints and records."""
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type is None:
        return True
    return resolver.task_type == "chief" or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


@contextlib.contextmanager
def precision(policy: str) -> Iterator[None]:
    """Sets the dtype policy of networks that are built inside, and how products are rounded."""
    before = tf.keras.config.dtype_policy()
    rounded = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.keras.config.set_dtype_policy(policy)
    # float32 means float32; beside bfloat16 the products of the loss may be rounded to TF32.
    tf.config.experimental.enable_tensor_float_32_execution(policy != "float32")
    try:
        yield
    finally:
        tf.keras.config.set_dtype_policy(before)
        tf.config.experimental.enable_tensor_float_32_execution(rounded)


def _check_cluster(text: str) -> None:
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        cluster = json.loads(text)
        known = cluster["cluster"][cluster["task"]["type"]][cluster["task"]["index"]]
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"the strategy multi_worker requires TF_CONFIG such as {example}, not {text!r}."
        ) from error
    if not isinstance(known, str):
        raise InputError(f"TF_CONFIG must name this task as host:port, not {known!r}.")
