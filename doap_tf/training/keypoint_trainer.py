"""Training a keypoint network."""

import contextlib
import pathlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from doap_tf.networks import KeypointNetwork
from doap_tf.parallel import map_ahead
from doap_tf.patch_generation.view_pairs import ViewPairs, Views
from doap_tf.training.keypoint_config import KeypointConfig
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.keypoint_step import KeypointStep, make_keypoint_network
from doap_tf.training.keypoint_validation import KeypointValidation
from doap_tf.training.loop import TrainingLoop
from doap_tf.training.summaries import Summaries


class KeypointTrainer(TrainingLoop):
    """Trains a keypoint network; a run that is interrupted resumes from its last checkpoint.

    Args:
        config: Settings.
        pairs: Views to train on.
        objective: What the scores are trained for.
        validation: Chooses the best network; None keeps the last one.
        train_dir: Folder for everything that is written, and to resume from.
        strategy: Devices; see `NetworkUpdate`.
        initial: Networks to start from, those that the settings name; see `start_from`.
    """

    unit, score, label = "pairs", "gain", "gain"

    def __init__(
        self,
        config: KeypointConfig,
        pairs: ViewPairs,
        objective: KeypointObjective,
        validation: KeypointValidation | None,
        train_dir: pathlib.Path,
        strategy: tf.distribute.Strategy | None = None,
        initial: Sequence[KeypointNetwork] = (),
    ):
        super().__init__(
            config,
            KeypointStep(config, objective, strategy, initial),
            make_keypoint_network(config),
            validation is not None,
            train_dir,
        )
        self._pairs = pairs
        self._validation = validation

    def _batches(self, start: int) -> contextlib.AbstractContextManager[Any]:
        size = self._config.batch_size
        return contextlib.closing(
            map_ahead(lambda step: self._pairs.batch(step, size), range(start, self._config.steps))
        )

    def _update(self, batch: Views, rate: float, step: int) -> dict[str, tf.Tensor]:
        return self._step(batch, rate, step)

    def _evaluate(self, done: int, summaries: Summaries) -> dict[str, float]:
        assert self._validation is not None
        summaries.image("keypoints", self._validation.draw(self._plain), done)
        return self._validation.evaluate(self._plain)

    def _provenance(self, origin: None) -> str:
        return str(self._pairs)

    def _data(self) -> dict[str, dict[str, Any] | None]:
        return {
            "train": _described(self._pairs),
            "validation": _described(self._validation.pairs) if self._validation else None,
        }


def _described(pairs: ViewPairs) -> dict[str, Any]:
    return {"source": str(pairs), "scenes": pairs.names, "sha256": pairs.sha256}
