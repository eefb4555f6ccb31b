"""Training a descriptor network."""

import contextlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from doap_tf.data import MixtureSampler, PatchGroups, Sampler
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.drawing.patches import contact_sheet, draw_alignment
from doap_tf.drawing.plots import draw_distances
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from doap_tf.training.batches import Batch, make_batches
from doap_tf.training.config import TrainingConfig
from doap_tf.training.loop import TrainingLoop
from doap_tf.training.step import TrainingStep, make_network
from doap_tf.training.summaries import Summaries
from doap_tf.training.validation import Validation


class Trainer(TrainingLoop):
    """Trains a descriptor network; a run that is interrupted resumes from its last checkpoint.

    Args:
        config: Settings.
        groups: Patches to train on, of the network's input size.
        sampler: Makes lists of `config.batch_size` rows of `groups`.
        validation: Chooses the best network; None keeps the last one.
        train_dir: Folder for everything that is written, and to resume from.
        strategy: Devices; see `NetworkUpdate`.
        step: A compiled step to reuse, whose settings differ at most in seed, number of steps,
            learning rate and its schedule; it is restarted. By default one is made.
        teachers: The networks that `config.teachers` names.
        initial: The networks to start from that `config.initial` names; see `start_from`.

    Attributes:
        descriptor: Describes patches with the network as it was last validated, or as it is after
            the run.
    """

    unit, score, label = "patches", "matching_map", "mAP"

    def __init__(
        self,
        config: TrainingConfig,
        groups: PatchGroups,
        sampler: Sampler | MixtureSampler,
        validation: Validation | None,
        train_dir: pathlib.Path,
        strategy: tf.distribute.Strategy | None = None,
        step: TrainingStep | None = None,
        teachers: Sequence[DescriptorNetwork] = (),
        initial: Sequence[DescriptorNetwork] = (),
    ):
        mined = config.same_sequence == "mined"
        if mined and groups.far_apart is None:
            raise InputError(
                f"{groups.source} has no mined labels, which same_sequence 'mined' requires: "
                "use label_mining."
            )
        if groups.group_sizes.max() < 2:
            raise InputError(
                f"no group of {groups.source} has two patches: there is nothing to learn from."
            )
        if step is None:
            step = TrainingStep(
                config, strategy, groups.far_apart if mined else None, teachers, initial
            )
        else:
            step.restart(config.seed)
        if groups.size != step.network.input_size:
            raise InputError(
                f"the network takes patches of {step.network.input_size} pixels, but those "
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
        plain = make_network(config)
        super().__init__(config, step, plain, validation is not None, train_dir)
        self._groups = groups
        self._sampler = sampler
        self._validation = validation
        self.descriptor = Descriptor(plain)

    def _batches(self, start: int) -> contextlib.AbstractContextManager[Any]:
        with_sequences = self._config.same_sequence != "distractors"
        return make_batches(self._groups, self._sampler, with_sequences)

    def _update(self, batch: Batch, rate: float, step: int) -> dict[str, tf.Tensor]:
        return {"loss": self._step(batch.patches, batch.labels, rate, step)}

    def _evaluate(self, done: int, summaries: Summaries) -> dict[str, float]:
        assert self._validation is not None
        evaluation = self._validation.evaluate(self.descriptor)
        if self._plain.transformer is not None:
            groups = self._validation.groups
            picture = draw_alignment(self.descriptor, groups.patches[groups.rows_of(0)])
            summaries.image("aligned_patches", picture, done)
        distances = (evaluation.matching_distances, evaluation.other_distances)
        summaries.image("distances", draw_distances({"": distances}), done)
        return evaluation.scores

    def _draw_data(self, summaries: Summaries) -> None:
        chosen = range(min(12, self._groups.group_count))
        summaries.image("patch_groups", contact_sheet(self._groups, chosen, columns=16), 0)

    def _origin(self, batch: Batch) -> np.ndarray:
        return batch.rows

    def _provenance(self, origin: np.ndarray) -> str:
        groups = np.unique(self._groups.group[origin])
        sequences = np.unique(self._groups.sequence[origin])
        names = [self._groups.sequence_names[s] for s in sequences[sequences >= 0][:4]]
        of = f" of {', '.join(names)}…" if names else ""
        return f"{len(groups)} groups{of} of {self._groups.source}, the first being {groups[:8]}"

    def _state(self, batch: Batch) -> dict[str, Any]:
        return {"sampler": batch.sampler_state}

    def _restore_state(self, state: dict[str, Any]) -> None:
        self._sampler.restore(state["sampler"])

    def _data(self) -> dict[str, dict[str, Any] | None]:
        return {
            "train": _described(self._groups),
            "validation": _described(self._validation.groups) if self._validation else None,
        }

    def _about(self) -> dict[str, Any]:
        return {"lists": str(self._sampler)}


def _described(groups: PatchGroups) -> dict[str, Any]:
    return {
        "source": groups.source,
        "patches": len(groups),
        "groups": groups.group_count,
        "sha256": groups.content_hash(),
    }
