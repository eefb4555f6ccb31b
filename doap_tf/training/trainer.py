"""The training loop: steps, logs, validation and checkpoints."""

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
from absl import logging

from doap_tf import files
from doap_tf.command_line import Interrupted
from doap_tf.data import MixtureSampler, PatchGroups, Sampler
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.drawing.patches import contact_sheet, draw_alignment
from doap_tf.drawing.plots import draw_distances
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from doap_tf.progress import progress
from doap_tf.training import record
from doap_tf.training.batches import Batch, Batches
from doap_tf.training.checkpoints import Checkpoints
from doap_tf.training.config import TrainingConfig, difference
from doap_tf.training.step import TrainingStep, make_network
from doap_tf.training.strategy import is_chief
from doap_tf.training.summaries import Summaries
from doap_tf.training.validation import Validation

MODEL_FILE = "model.keras"


class DivergedError(InputError):
    """The loss or a weight is not finite."""


class _Pending(NamedTuple):
    """A step whose loss has not been checked yet."""

    step: int
    rate: float
    rows: np.ndarray
    loss: tf.Tensor


class Trainer:
    """Trains a network; a run that is interrupted resumes from its last checkpoint.

    Args:
        config: Settings.
        groups: Patches to train on, of the network's input size.
        sampler: Makes lists of `config.batch_size` rows of `groups`.
        validation: Chooses the best network; None keeps the last one.
        train_dir: Folder for everything that is written, and to resume from.
        strategy: Devices; the default strategy by default.
        step: A compiled step to reuse, whose settings differ at most in seed, number of steps,
            learning rate and its schedule; it is restarted. By default one is made.

    Attributes:
        descriptor: Describes patches with the network as it was last validated, or as it is after
            the run.
    """

    def __init__(
        self,
        config: TrainingConfig,
        groups: PatchGroups,
        sampler: Sampler | MixtureSampler,
        validation: Validation | None,
        train_dir: pathlib.Path,
        strategy: tf.distribute.Strategy | None = None,
        step: TrainingStep | None = None,
    ):
        self._config = config
        self._groups = groups
        self._sampler = sampler
        self._validation = validation
        self._directory = train_dir
        self._strategy = strategy or tf.distribute.get_strategy()
        if config.batch_size % self._strategy.num_replicas_in_sync:
            raise InputError(
                f"batch_size {config.batch_size} is not a multiple of the "
                f"{self._strategy.num_replicas_in_sync} replicas."
            )
        mined = config.same_sequence == "mined"
        if mined and groups.far_apart is None:
            raise InputError(
                f"{groups.source} has no mined labels, which same_sequence 'mined' requires: "
                "use label_mining."
            )
        if step is None:
            step = TrainingStep(config, self._strategy, groups.far_apart if mined else None)
        else:
            step.restart(config.seed)
        self._step = step
        if groups.size != self._step.network.input_size:
            raise InputError(
                f"the network takes patches of {self._step.network.input_size} pixels, but those "
                f"of {groups.source} have {groups.size}."
            )
        if groups.magnification not in (None, config.magnification):
            raise InputError(
                f"magnification is {config.magnification:g}, but the patches of {groups.source} "
                f"were cut at {groups.magnification:g}."
            )
        if validation and validation.groups.magnification not in (None, config.magnification):
            logging.warning(
                "magnification is %g, but the patches of %s to validate on were cut at %g.",
                config.magnification,
                validation.groups.source,
                validation.groups.magnification,
            )
        # A copy without strategy and mixed precision, for validation and export.
        self._plain = make_network(config)
        self.descriptor = Descriptor(self._plain)
        self._checkpoints = Checkpoints(train_dir / "checkpoints")
        self._history: list[dict[str, Any]] = []
        self._best: dict[str, Any] | None = None

    def run(self) -> DescriptorNetwork:
        """Trains to the end, from the newest checkpoint if there is one.

        Returns:
            The network that was best on the validation groups, or without them the last one; also
            saved as `model.keras`.

        Raises:
            Interrupted: After SIGTERM or Ctrl-C, with a checkpoint written.
            DivergedError: The loss is not finite; the last checkpoint is kept.
        """
        config = self._config
        start = self._restore()
        chief = is_chief(self._strategy)
        if chief:
            self._claim_directory()
        summaries = Summaries(self._directory / "tensorboard" if chief else None)
        batches = Batches(
            self._groups, self._sampler, with_sequences=config.same_sequence != "distractors"
        )
        if start == 0:
            self._draw_groups(summaries)
            self._validate(0, summaries)
        bar = progress(
            title="training",
            total=config.steps,
            initial=start,
            unit="step",
            disable=None if chief else True,
        )
        pending: list[_Pending] = []
        logged = time.perf_counter()
        with bar, batches, _signals() as stop:
            for step in range(start, config.steps):
                batch = next(batches)
                rate = self._config.rate_at(step)
                loss = self._step(batch.patches, batch.labels, rate, step)
                pending.append(_Pending(step, rate, batch.rows, loss))
                bar.update()
                done = step + 1
                last = done == config.steps
                stopped = stop.is_set()
                if done % config.log_every == 0 or last:
                    losses = self._checked(pending)
                    now = time.perf_counter()
                    speed = len(losses) * config.batch_size / (now - logged)
                    pending, logged = [], now
                    self._log(done, rate, float(np.mean(losses)), speed, summaries, bar)
                validated = last or (self._validation and done % config.validate_every == 0)
                if validated or stopped or done % config.checkpoint_every == 0:
                    self._checked(pending)
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
        changed = difference(self._config, state["config"])
        if changed is None and state["data"] != self._groups.source:
            changed = f"the data were {state['data']!r} and are {self._groups.source!r} now"
        if changed is None and (state["best"] is None) != (self._validation is None):
            changed = f"it was {'not ' if state['best'] is None else ''}validated"
        if changed is not None:
            raise InputError(
                f"{self._directory} holds a run that cannot be resumed: {changed}. Choose another "
                "folder or remove that one."
            )
        variables = self._step.variables
        for number, variable in enumerate(variables):
            variable.assign(checkpoint.arrays[_array_name(number)])
        self._sampler.restore(state["sampler"])
        self._history = state["history"]
        self._best = state["best"]
        print(f"resuming {self._directory} after step {state['step']}")
        return int(state["step"])

    def _save(self, done: int, batch: Batch) -> None:
        if not is_chief(self._strategy):
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
                "data": self._groups.source,
                "sampler": batch.sampler_state,
                "history": self._history,
                "best": self._best,
            },
        )

    def _checked(self, pending: list[_Pending]) -> list[float]:
        """Waits for the losses of some steps; raises at the first one that is not finite."""
        losses = []
        for step in pending:
            loss = float(step.loss)
            if not np.isfinite(loss):
                raise DivergedError(
                    f"the loss is {loss} at step {step.step}, learning rate {step.rate:.3g}, on "
                    f"{self._provenance(step.rows)}; the last checkpoint in {self._directory} is "
                    "kept. Lower learning_rate or set clip_norm."
                )
            losses.append(loss)
        return losses

    def _provenance(self, rows: np.ndarray) -> str:
        groups = np.unique(self._groups.group[rows])
        sequences = np.unique(self._groups.sequence[rows])
        names = [self._groups.sequence_names[s] for s in sequences[sequences >= 0][:4]]
        of = f" of {', '.join(names)}…" if names else ""
        return f"{len(groups)} groups{of} of {self._groups.source}, the first being {groups[:8]}"

    def _log(
        self,
        done: int,
        rate: float,
        loss: float,
        speed: float,
        summaries: Summaries,
        bar: tqdm.tqdm,
    ) -> None:
        entry = {"step": done, "loss": loss, "learning_rate": rate, "patches_per_second": speed}
        shown = {"loss": f"{loss:.4f}", "patches/s": f"{speed:,.0f}"}
        if self._config.loss == "average_precision":
            entry["train_average_precision"] = 1 - loss
        if self._best is not None:
            shown["mAP"] = f"{self._best['matching_map']:.3f}"
        self._history.append(entry)
        summaries.scalars({k: v for k, v in entry.items() if k != "step"}, done)
        bar.set_postfix(shown)

    def _validate(self, done: int, summaries: Summaries) -> None:
        """Scores the network and saves it if it is the best so far."""
        if self._validation is None or not is_chief(self._strategy):
            return
        self._copy_weights()
        evaluation = self._validation.evaluate(self.descriptor)
        scores = evaluation.scores
        tqdm.tqdm.write(
            f"step {done} of {self._config.steps}: validation mAP {scores['matching_map']:.3f}"
        )
        sys.stdout.flush()
        self._history.append({"step": done, "validation": scores})
        summaries.scalars({f"validation/{name}": value for name, value in scores.items()}, done)
        if self._plain.transformer is not None:
            groups = self._validation.groups
            picture = draw_alignment(self.descriptor, groups.patches[groups.rows_of(0)])
            summaries.image("aligned_patches", picture, done)
        distances = (evaluation.matching_distances, evaluation.other_distances)
        summaries.image("distances", draw_distances({"": distances}), done)
        if self._best is None or scores["matching_map"] >= self._best["matching_map"]:
            self._best = {"step": done, **scores}
            self._save_model()

    def _save_model(self) -> None:
        with files.write_atomically(self._directory / MODEL_FILE) as temporary:
            self._plain.save(temporary)

    def _copy_weights(self) -> None:
        for plain, trained in zip(self._plain.weights, self._step.network.weights, strict=True):
            plain.assign(trained)

    def _draw_groups(self, summaries: Summaries) -> None:
        chosen = range(min(12, self._groups.group_count))
        summaries.image("patch_groups", contact_sheet(self._groups, chosen, columns=16), 0)

    def _finish(self) -> DescriptorNetwork:
        self._copy_weights()
        if not is_chief(self._strategy):
            return self._plain
        if self._validation is None:
            self._save_model()
        self._write_record()
        return tf.keras.models.load_model(self._directory / MODEL_FILE, compile=False)

    def _write_record(self) -> None:
        record.write_record(
            self._directory,
            {
                "config": dataclasses.asdict(self._config),
                "replicas": self._strategy.num_replicas_in_sync,
                "data": {
                    "train": _described(self._groups),
                    "validation": self._validation and _described(self._validation.groups),
                },
                "model": "last" if self._validation is None else "best",
                "lists": str(self._sampler),
                "environment": record.environment(),
                "best": self._best,
                "history": self._history,
            },
        )


def _described(groups: PatchGroups) -> dict[str, Any]:
    return {
        "source": groups.source,
        "patches": len(groups),
        "groups": groups.group_count,
        "sha256": groups.content_hash(),
    }


def _array_name(number: int) -> str:
    return f"variable_{number:04d}"


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """Sets an event on SIGTERM and Ctrl-C instead of stopping at once."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
