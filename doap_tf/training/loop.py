"""The training loop, whatever is trained: steps, logs, validation and checkpoints."""

import abc
import contextlib
import dataclasses
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tqdm

from doap_tf import files, runs
from doap_tf.environment import environment
from doap_tf.errors import InputError, Interrupted
from doap_tf.progress import progress
from doap_tf.training.checkpoints import Checkpoints
from doap_tf.training.config import incompatibility
from doap_tf.training.initial_weights import start_from
from doap_tf.training.network_update import NetworkUpdate
from doap_tf.training.strategy import is_chief
from doap_tf.training.summaries import Summaries


class DivergedError(InputError):
    """The loss or a weight is not finite."""


class _Pending(NamedTuple):
    """A step whose loss has not been checked yet."""

    step: int
    rate: float
    origin: Any
    results: dict[str, tf.Tensor]


class TrainingLoop(abc.ABC):
    """Trains a network; a run that is interrupted resumes from its last checkpoint.

    A subclass says what a batch is, what a step does with it, and how networks are compared.

    Args:
        config: Settings: `batch_size`, `steps`, `rate_at(step)` and the intervals `log_every`,
            `validate_every` and `checkpoint_every`, in a dataclass.
        step: Updates the network.
        plain: A copy of the network without strategy and mixed precision, for validation and
            export.
        validated: Whether the best network is kept, else the last one.
        train_dir: Folder for everything that is written, and to resume from.

    Attributes:
        unit: What a batch consists of, for the log.
        score: Name of the score, the higher the better, that networks are compared by.
        label: The same in words.
    """

    unit: str
    score: str
    label: str

    def __init__(
        self,
        config: Any,
        step: NetworkUpdate,
        plain: Any,
        validated: bool,
        train_dir: pathlib.Path,
    ):
        self._config = config
        self._step: Any = step
        if step.initial:
            print(start_from(plain, step.initial))
        self._plain = plain
        self._validated = validated
        self._directory = train_dir
        self._chief = is_chief(step.strategy)
        self._checkpoints = Checkpoints(train_dir / runs.CHECKPOINTS)
        self._history: list[dict[str, Any]] = []
        self._best: dict[str, Any] | None = None

    @abc.abstractmethod
    def _batches(self, start: int) -> contextlib.AbstractContextManager[Any]:
        """Returns the batches from a step on."""

    @abc.abstractmethod
    def _update(self, batch: Any, rate: float, step: int) -> dict[str, tf.Tensor]:
        """Runs a step; returns scalars to log, `loss` among them."""

    @abc.abstractmethod
    def _evaluate(self, done: int, summaries: Summaries) -> dict[str, float]:
        """Scores the plain network, and may draw pictures."""

    @abc.abstractmethod
    def _data(self) -> dict[str, dict[str, Any] | None]:
        """Returns what tells the data to train on and to validate on, with `source`, `sha256`."""

    def _about(self) -> dict[str, Any]:
        """Returns what the record tells beside the data."""
        return {}

    def _origin(self, batch: Any) -> Any:
        """Returns what `_provenance` needs to know of a batch."""
        return None

    @abc.abstractmethod
    def _provenance(self, origin: Any) -> str:
        """Describes where a batch comes from."""

    def _state(self, batch: Any) -> dict[str, Any]:
        """Returns what a checkpoint keeps beside the common state, JSON."""
        return {}

    def _restore_state(self, state: dict[str, Any]) -> None:  # noqa: B027 (may be empty)
        """Restores what `_state` returned."""

    def _draw_data(self, summaries: Summaries) -> None:  # noqa: B027 (may be empty)
        """Draws the data before the first step."""

    def run(self) -> Any:
        """Trains to the end, from the newest checkpoint if there is one.

        Returns:
            The network that was best in validation, or without it the last one; also saved as
            `model.keras`.

        Raises:
            Interrupted: After SIGTERM or Ctrl-C, with a checkpoint written.
            DivergedError: The loss is not finite; the last checkpoint is kept.
        """
        config = self._config
        start = self._restore()
        if self._chief:
            self._claim_directory()
        summaries = Summaries(self._directory / runs.TENSORBOARD if self._chief else None)
        if start == 0:
            self._draw_data(summaries)
            self._validate(0, summaries)
        bar = progress(
            title="training",
            total=config.steps,
            initial=start,
            unit="step",
            disable=None if self._chief else True,
        )
        pending: list[_Pending] = []
        logged = time.perf_counter()
        with bar, self._batches(start) as batches, _signals() as stop:
            for step in range(start, config.steps):
                batch = next(batches)
                rate = config.rate_at(step)
                results = self._update(batch, rate, step)
                pending.append(_Pending(step, rate, self._origin(batch), results))
                bar.update()
                done = step + 1
                last = done == config.steps
                stopped = stop.is_set()
                if done % config.log_every == 0 or last:
                    means = self._checked_means(pending)
                    now = time.perf_counter()
                    speed = len(pending) * config.batch_size / (now - logged)
                    pending, logged = [], now
                    self._log(done, rate, means, speed, summaries, bar)
                validated = last or (self._validated and done % config.validate_every == 0)
                if validated or stopped or done % config.checkpoint_every == 0:
                    if pending:
                        self._checked_means(pending)
                    pending = []
                    if validated:
                        self._validate(done, summaries)
                    summaries.flush()
                    self._save(done, batch)
                    logged = time.perf_counter()
                if stopped and not last:
                    raise Interrupted(
                        f"interrupted after step {done} of {config.steps}; the same command "
                        f"resumes from {self._directory}."
                    )
        return self._finish()

    def _claim_directory(self) -> None:
        """Checks before the first step that the folder can be written."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write_record()
        except OSError as error:
            raise InputError(
                f"the folder {self._directory} cannot be written: {error.strerror}."
            ) from error

    def _restore(self) -> int:
        """Restores the newest checkpoint; returns the number of steps done."""
        checkpoint = self._checkpoints.newest()
        if checkpoint is None:
            return 0
        state = checkpoint.state
        changed = incompatibility(self._config, state["config"])
        if changed is None and (state["best"] is not None) != self._validated:
            changed = f"it was {'not ' if state['best'] is None else ''}validated"
        changed = changed or _changed_data(state["data"], self._data())
        if changed is not None:
            raise InputError(
                f"{self._directory} holds a run that cannot be resumed: {changed}. Choose another "
                "folder or remove that one."
            )
        for number, variable in enumerate(self._step.variables):
            variable.assign(checkpoint.arrays[_array_name(number)])
        self._restore_state(state)
        self._history = state["history"]
        self._best = state["best"]
        print(f"resuming {self._directory} after step {state['step']}")
        return int(state["step"])

    def _save(self, done: int, batch: Any) -> None:
        if not self._chief:
            return
        arrays = {
            _array_name(number): np.asarray(variable)
            for number, variable in enumerate(self._step.variables)
        }
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise DivergedError(
                f"weights are not finite after step {done}; the last checkpoint in "
                f"{self._directory} is kept. Lower learning_rate or set clip_norm."
            )
        self._checkpoints.save(
            done,
            arrays,
            {
                "step": done,
                "config": dataclasses.asdict(self._config),
                "data": self._data(),
                **self._state(batch),
                "history": self._history,
                "best": self._best,
            },
        )

    def _checked_means(self, pending: list[_Pending]) -> dict[str, float]:
        """Waits for some steps and averages; raises at the first loss that is not finite."""
        values: dict[str, list[float]] = {name: [] for name in pending[0].results}
        for step in pending:
            for name, value in step.results.items():
                values[name].append(float(value))
            loss = values["loss"][-1]
            if not np.isfinite(loss):
                raise DivergedError(
                    f"the loss is {loss} at step {step.step}, learning rate {step.rate:.3g}, on "
                    f"{self._provenance(step.origin)}; the last checkpoint in {self._directory} "
                    "is kept. Lower learning_rate or set clip_norm."
                )
        return {name: float(np.mean(series)) for name, series in values.items()}

    def _log(
        self,
        done: int,
        rate: float,
        means: dict[str, float],
        speed: float,
        summaries: Summaries,
        bar: tqdm.tqdm,
    ) -> None:
        loss = means["loss"]
        scalars = {**means, "learning_rate": rate, f"{self.unit}_per_second": speed}
        shown = {"loss": f"{loss:.4f}", f"{self.unit}/s": f"{speed:,.0f}"}
        if self._best is not None:
            shown[self.label] = f"{self._best[self.score]:.3f}"
        self._history.append({"step": done, **scalars})
        summaries.scalars(scalars, done)
        bar.set_postfix(shown, refresh=False)

    def _validate(self, done: int, summaries: Summaries) -> None:
        """Scores the network and saves it if it is the best so far."""
        if not self._validated or not self._chief:
            return
        self._copy_weights()
        scores = self._evaluate(done, summaries)
        tqdm.tqdm.write(
            f"step {done} of {self._config.steps}: validation {self.label} {scores[self.score]:.3f}"
        )
        sys.stdout.flush()
        self._history.append({"step": done, "validation": scores})
        summaries.scalars({f"validation/{name}": value for name, value in scores.items()}, done)
        if self._best is None or scores[self.score] >= self._best[self.score]:
            self._best = {"step": done, **scores}
            self._save_model()

    def _save_model(self) -> None:
        with files.write_atomically(self._directory / runs.MODEL) as temporary:
            self._plain.save(temporary)

    def _copy_weights(self) -> None:
        for plain, trained in zip(self._plain.weights, self._step.network.weights, strict=True):
            plain.assign(trained)

    def _finish(self) -> Any:
        self._copy_weights()
        if not self._chief:
            return self._plain
        if not self._validated:
            self._save_model()
        self._write_record()
        return tf.keras.models.load_model(self._directory / runs.MODEL, compile=False)

    def _write_record(self) -> None:
        runs.write_record(
            self._directory,
            {
                "config": dataclasses.asdict(self._config),
                "replicas": self._step.strategy.num_replicas_in_sync,
                "model": "best" if self._validated else "last",
                "data": self._data(),
                **self._about(),
                "environment": environment(),
                "best": self._best,
                "history": self._history,
            },
        )


def _changed_data(before: Any, now: dict[str, dict[str, Any] | None]) -> str | None:
    """Says which data are others than those of a checkpoint, or returns None."""
    if not isinstance(before, dict):
        return "it is of an earlier version of doap_tf"
    for part in ("train", "validation"):
        old, new = before[part], now[part]
        if old and new and old["sha256"] != new["sha256"]:
            described = (
                f"{data['source']} (SHA-256 {data['sha256'][:12]}…)" for data in (old, new)
            )
            return f"the data of {part} were {' and are now '.join(described)}"
    return None


def _array_name(number: int) -> str:
    return f"variable_{number:04d}"


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """Sets an event on SIGTERM and Ctrl-C instead of stopping at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone may handle them
        yield stop
        return
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
