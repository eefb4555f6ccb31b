"""Time and peak memory of the AP loss, forward and backward, against a dense version and FastAP.

python benchmarks/loss_speed.py

All compute the same loss: form "fast" over 25 bins of Euclidean distances, groups of four. "dense"
is TensorFlow with tensors [M, M, 26]; FastAP is pytorch-metric-learning's. Each runs in a process
of its own, so that memory can be told apart, on as many threads as there are cores.
"""

import multiprocessing
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.parallel import cores

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["256", "512", "1024", "2048", "4096"], "Numbers of patches in a list.")

PROCESSES = multiprocessing.get_context("spawn")  # forked ones would share memory
Step = Callable[[], float]  # computes loss and gradient, gives the loss

_BINS = 25
_CHUNK = 512
_PEERS = ("dense", "FastAP")
_DENSE_TENSORS = 6  # [M, M, b + 1] that a peer holds at a time, and a bit of room


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("tensorflow", "torch", "pytorch-metric-learning")
    versions = list(_STEPS)
    if measuring.peer("pytorch_metric_learning") is None:
        versions.remove("FastAP")
    for size in map(int, FLAGS.sizes):
        _compare(size, [version for version in versions if _fits(version, size)])


def _fits(version: str, size: int) -> bool:
    needed = _DENSE_TENSORS * 4 * size**2 * (_BINS + 1)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    fits = version not in _PEERS or needed < free
    if not fits:
        print(f"{version} is left out at M = {size}: it would take {needed / 2**30:.0f} GiB.\n")
    return fits


def _compare(size: int, versions: Sequence[str]) -> None:
    workers = {version: _Worker(version, size) for version in versions}
    losses = {version: worker.step() for version, worker in workers.items()}
    if max(losses.values()) - min(losses.values()) > 1e-4:
        raise RuntimeError(f"these losses should be equal: {losses}.")
    times = measuring.fastest({version: worker.step for version, worker in workers.items()})
    peaks = {version: f"{worker.stop():,.0f}" for version, worker in workers.items()}
    measuring.print_table(f"M = {size}", times, _PEERS, {"peak MiB": peaks})


class _Worker:
    """A process that takes steps when asked to."""

    def __init__(self, version: str, size: int):
        self._connection, other = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=_serve, args=(version, size, other))
        self._process.daemon = True
        self._process.start()
        other.close()  # so that the death of the process ends the wait for it

    def step(self) -> float:
        """Gives the loss."""
        self._connection.send(True)
        return self._connection.recv()

    def stop(self) -> float:
        """Gives the peak of the memory that the steps took, in MiB."""
        self._connection.send(False)
        peak = self._connection.recv()
        self._process.join()
        return peak


def _serve(version: str, size: int, connection: Connection) -> None:
    # What libraries allocate once, whatever the size, is none of the loss's memory.
    _STEPS[version](*_list_of(16))()
    step = _STEPS[version](*_list_of(size))
    _forget_peak()
    before = _peak()
    while connection.recv():
        connection.send(step())
    connection.send(_peak() - before)


def _list_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Descriptors float32 [M, 128] of unit length and groups int64 [M] of four."""
    random = np.random.default_rng(0)
    groups = np.arange(size) // 4
    rows = random.standard_normal((size // 4 + 1, 128))[groups]
    rows += random.standard_normal(rows.shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), groups


def _forget_peak() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    """Most memory in use since `_forget_peak`, in MiB."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not tell the peak of memory: run on Linux.")


def _tensorflow_step(average_precisions: Callable) -> Callable[[np.ndarray, np.ndarray], Step]:
    def make(rows: np.ndarray, groups: np.ndarray) -> Step:
        import tensorflow as tf

        inputs, labels = tf.constant(rows), tf.constant(groups)

        @tf.function
        def step() -> tuple:
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                loss = 1 - tf.reduce_mean(average_precisions(inputs, labels))
            return loss, tape.gradient(loss, inputs)

        return lambda: float(step()[0])

    return make


def _ours(chunk_size: int | None) -> Callable:
    def average_precisions(rows, groups):
        import tensorflow as tf

        from doap_tf.losses import histogram_average_precision, relations

        def related(numbers):
            return relations(tf.gather(groups, numbers), groups, query_rows=numbers)

        return histogram_average_precision(
            rows, rows, related, bins=_BINS, form="fast", chunk_size=chunk_size
        )

    return average_precisions


def _dense(rows, groups):
    import tensorflow as tf

    others = 1 - tf.eye(len(rows))
    positive = tf.cast(groups[:, tf.newaxis] == groups, tf.float32) * others
    distances = tf.sqrt(tf.maximum(2 - 2 * tf.matmul(rows, rows, transpose_b=True), 1e-6))
    offsets = distances[..., tf.newaxis] - tf.linspace(0.0, 2.0, _BINS + 1)
    kernel = tf.nn.relu(1 - tf.abs(offsets) * (_BINS / 2))
    found = tf.reduce_sum(kernel * positive[..., tf.newaxis], axis=1)
    seen = tf.reduce_sum(kernel * others[..., tf.newaxis], axis=1)
    precisions = tf.math.divide_no_nan(tf.cumsum(found, axis=1), tf.cumsum(seen, axis=1))
    return tf.reduce_sum(found * precisions, axis=1) / tf.reduce_sum(positive, axis=1)


def _fast_ap(rows: np.ndarray, groups: np.ndarray) -> Step:
    import torch
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import FastAPLoss

    torch.set_num_threads(cores())  # as TensorFlow does by itself
    # Its default bins squared distances; these are the paper's and ours.
    loss = FastAPLoss(num_bins=_BINS, distance=LpDistance(power=1))
    inputs = torch.from_numpy(rows).requires_grad_()
    labels = torch.from_numpy(groups)

    def step() -> float:
        inputs.grad = None
        value = loss(inputs, labels)
        value.backward()
        return value.item()

    return step


_STEPS: dict[str, Callable[[np.ndarray, np.ndarray], Step]] = {
    "ours": _tensorflow_step(_ours(None)),
    f"ours, chunks of {_CHUNK}": _tensorflow_step(_ours(_CHUNK)),
    "dense": _tensorflow_step(_dense),
    "FastAP": _fast_ap,
}


if __name__ == "__main__":
    command_line.run(main)
