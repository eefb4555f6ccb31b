"""Training a dense network."""

import contextlib
import hashlib
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from doap_tf.training.dense_config import DenseConfig
from doap_tf.training.dense_images import DenseImages
from doap_tf.training.dense_step import DenseStep, make_dense_network
from doap_tf.training.dense_validation import DenseValidation
from doap_tf.training.loop import TrainingLoop
from doap_tf.training.scene_tracks import SceneTracks
from doap_tf.training.summaries import Summaries


class DenseTrainer(TrainingLoop):
    """Trains a dense network; a run that is interrupted resumes from its last checkpoint.

    Args:
        config: Settings.
        images: To train on and to choose the best network by.
        train_dir: Folder for everything that is written, and to resume from.
        strategy: Devices; see `NetworkUpdate`.
        tracks: Photographs of reconstructed scenes to train on as well.
        initial: Networks to start from, those that the settings name; see `start_from`.
    """

    unit, score, label = "pairs", "accuracy", "accuracy"

    def __init__(
        self,
        config: DenseConfig,
        images: DenseImages,
        train_dir: pathlib.Path,
        strategy: tf.distribute.Strategy | None = None,
        tracks: SceneTracks | None = None,
        initial: Sequence[tf.keras.Model] = (),
    ):
        super().__init__(
            config,
            DenseStep(config, images.train, strategy, tracks.pairs() if tracks else None, initial),
            make_dense_network(config),
            True,
            train_dir,
        )
        self._validation = DenseValidation(config, images.held_out)
        self._described = {
            "train": images.train.described(),
            "validation": images.held_out.described(),
        }
        if tracks is not None:
            train = self._described["train"]
            train["source"] += f", {tracks}"
            train["sha256"] = hashlib.sha256(
                (train["sha256"] + tracks.sha256()).encode()
            ).hexdigest()

    def _batches(self, start: int) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(itertools.count(start))

    def _update(self, batch: int, rate: float, step: int) -> dict[str, tf.Tensor]:
        return self._step(rate, step)

    def _evaluate(self, done: int, summaries: Summaries) -> dict[str, float]:
        return self._validation.evaluate(self._plain)

    def _provenance(self, origin: None) -> str:
        return str(self._described["train"]["source"])

    def _data(self) -> dict[str, dict[str, Any] | None]:
        return dict(self._described)
