"""The HPatches benchmark: verification, matching and retrieval at three levels of difficulty."""

import dataclasses
import hashlib
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches import tasks as rules
from doap_tf.evaluation.hpatches.matching_task import evaluate_matching
from doap_tf.evaluation.hpatches.patch_sequences import PatchSequences
from doap_tf.evaluation.hpatches.retrieval_task import evaluate_retrieval
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.verification_task import evaluate_verification
from doap_tf.evaluation.model import Model
from doap_tf.evaluation.result import Plots, Result
from doap_tf.files import write_atomically

TASKS = ("verification", "matching", "retrieval")


class HPatches:
    """The benchmark on one folder; tasks are read or drawn once and serve any number of models.

    Args:
        sequences: The folder and its split.
        cache_dir: Where descriptors and drawn tasks are kept.
        tasks: Which of `TASKS`; by default all, less retrieval for a single sequence.
        tasks_dir: Folder of the official task files; without it the tasks are drawn by their rule.
        method: As in `average_precision`.
        normalise: Whether to whiten descriptors and apply a power law (see `Normalisation`).
        pairs: How many verification pairs of each kind are drawn.
        memory_mb: Limit for descriptors and distances in memory.
        name: What results call the benchmark.
    """

    def __init__(
        self,
        sequences: PatchSequences,
        cache_dir: str | os.PathLike,
        tasks: Sequence[str] | None = None,
        tasks_dir: str | os.PathLike | None = None,
        method: str = "trapezoid",
        normalise: bool = False,
        pairs: int = rules.PAIRS,
        memory_mb: float = 1024,
        name: str = "hpatches",
    ):
        if tasks is None:
            tasks = TASKS if len(sequences.lengths) > 1 else TASKS[:2]
        unknown = [task for task in tasks if task not in TASKS]
        if unknown or not tasks:
            raise InputError(f"tasks must be among {', '.join(TASKS)}, not {unknown}.")
        if normalise:
            _ = sequences.training  # raises before anything is described
        self._sequences = sequences
        self._cache_dir = pathlib.Path(cache_dir)
        self._tasks = [task for task in TASKS if task in tasks]
        self._tasks_dir = None if tasks_dir is None else pathlib.Path(tasks_dir)
        self._method = method
        self._normalise = normalise
        self._pairs = pairs
        self._memory_mb = memory_mb
        self._name = name
        self._verification = self._verification_task() if "verification" in tasks else None
        self._retrieval = self._retrieval_task() if "retrieval" in tasks else None

    def evaluate(self, model: Model) -> Result:
        """Describes all patches of the split with a model and scores the tasks."""
        descriptors = StripDescriptors(
            self._sequences,
            DescriptorCache(self._cache_dir / "descriptors", model),
            self._normalise,
        )
        scores: dict[str, Any] = {}
        summary: dict[str, float] = {}
        plots = Plots()
        options = (self._method, self._memory_mb)
        if self._verification is not None:
            scores["verification"], found = evaluate_verification(
                descriptors, self._verification, *options
            )
            summary["verification"] = scores["verification"]["mean_imbalanced_ap"]
            plots |= found
        if "matching" in self._tasks:
            scores["matching"], found = evaluate_matching(descriptors, *options)
            summary["matching"] = scores["matching"]["mean"]
            plots |= found
        if self._retrieval is not None:
            scores["retrieval"] = evaluate_retrieval(descriptors, self._retrieval, *options)
            summary["retrieval"] = scores["retrieval"]["mean"]
        return Result(
            benchmark=self._name,
            protocol=self._protocol(),
            split=self._sequences.split,
            seed=rules.SEED if self._tasks_dir is None else None,
            model=model,
            scores=scores,
            summary=summary,
            plots=plots,
        )

    def _protocol(self) -> str:
        tasks = (
            f"tasks drawn by the official rule, {self._pairs} verification pairs of each kind"
            if self._tasks_dir is None
            else "official task files"
        )
        return (
            f"HPatches tasks on {len(self._sequences.lengths)} sequences: "
            f"{', '.join(self._tasks)}; average precision by {self._method}; {tasks}; "
            f"{'ZCA and power-law' if self._normalise else 'no'} normalisation"
        )

    def _verification_task(self) -> rules.VerificationTask:
        lengths = self._sequences.lengths
        if self._tasks_dir is not None:
            return rules.read_verification(self._tasks_dir, self._sequences.split, lengths)
        key = hashlib.sha256(f"{list(lengths.values())} {self._pairs}".encode()).hexdigest()
        path = self._cache_dir / "tasks" / f"verification_{key}.npz"
        kinds = [field.name for field in dataclasses.fields(rules.VerificationTask)]
        try:
            with np.load(path) as kept:
                return rules.VerificationTask(*(rules.Pairs(*kept[kind]) for kind in kinds))
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            pass  # not drawn before, or damaged from outside
        task = rules.draw_verification(list(lengths.values()), self._pairs)
        with write_atomically(path) as partial:
            lists = [getattr(task, kind) for kind in kinds]
            arrays = [np.stack([pairs.first, pairs.second]) for pairs in lists]
            np.savez(partial, **dict(zip(kinds, arrays, strict=True)))  # type: ignore[arg-type]
        return task

    def _retrieval_task(self) -> rules.RetrievalTask:
        lengths = self._sequences.lengths
        if self._tasks_dir is not None:
            return rules.read_retrieval(self._tasks_dir, self._sequences.split, lengths)
        names = list(lengths)
        # The official numbers leave distractors only where there are enough patches.
        patches = sum(lengths.values())
        queries, distractors = min(rules.QUERIES, patches // 3), min(rules.DISTRACTORS, patches)
        return rules.draw_retrieval(
            list(lengths.values()),
            lambda number: self._sequences.patches(names[number], "ref").std(axis=(1, 2)),
            queries,
            distractors,
        )
