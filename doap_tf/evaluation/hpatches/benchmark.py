"""The HPatches benchmark: verification, matching and retrieval at three levels of difficulty."""

import dataclasses
import hashlib
import os
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.drawing.plots import Bar
from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches import tasks as rules
from doap_tf.evaluation.hpatches.matching_task import KINDS, evaluate_matching
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, PatchSequences
from doap_tf.evaluation.hpatches.retrieval_task import evaluate_retrieval
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.verification_task import evaluate_verification
from doap_tf.evaluation.model import Model
from doap_tf.evaluation.result import Plots, Result
from doap_tf.evaluation.seen import what_was_seen
from doap_tf.files import write_atomically

TASKS = ("verification", "matching", "retrieval")


class HPatches:
    """The three tasks on patch sequences; tasks are read or drawn once for any number of models.

    Args:
        sequences: The patches, whose `name` is that of the benchmark.
        cache_dir: Folder for descriptors and drawn tasks.
        tasks: Some of `TASKS`; by default all, without retrieval for a single sequence.
        tasks_dir: Folder of the official task files; by default tasks are drawn by their rule.
        method: As for `average_precision`.
        normalise: Whether to whiten descriptors and apply a power law, see `Normalisation`.
        pairs: Number of verification pairs of each kind to draw.
        memory_mb: Limit for descriptors and distances in memory.
    """

    def __init__(
        self,
        sequences: PatchSequences,
        cache_dir: str | os.PathLike,
        *,
        tasks: Sequence[str] | None = None,
        tasks_dir: str | os.PathLike | None = None,
        method: str = "trapezoid",
        normalise: bool = False,
        pairs: int = rules.PAIRS,
        memory_mb: float = 1024,
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
        self._verification = self._verification_task() if "verification" in tasks else None
        self._retrieval = self._retrieval_task() if "retrieval" in tasks else None

    def evaluate(self, model: Model) -> Result:
        """Describes all patches of the split with a model and scores the tasks."""
        cache = DescriptorCache(self._cache_dir / "descriptors", model)
        descriptors = StripDescriptors(self._sequences, cache, self._normalise)
        scores: dict[str, Any] = {}
        summary: dict[str, float] = {}
        plots = Plots()
        options = (self._method, self._memory_mb)
        if self._verification is not None:
            scores["verification"], task_plots = evaluate_verification(
                descriptors, self._verification, *options
            )
            summary["verification"] = scores["verification"]["mean_imbalanced_ap"]
            plots |= task_plots
        if "matching" in self._tasks:
            scores["matching"], task_plots = evaluate_matching(descriptors, *options)
            summary["matching"] = scores["matching"]["mean"]
            if _has_both_kinds(scores):
                summary["matching, flat"] = scores["matching"]["flat_mean"]
            plots |= task_plots
        if self._retrieval is not None:
            scores["retrieval"] = evaluate_retrieval(descriptors, self._retrieval, *options)
            summary["retrieval"] = scores["retrieval"]["mean"]
        return Result(
            benchmark=self._sequences.name,
            protocol=self._protocol(),
            split=self._sequences.split,
            seed=rules.SEED if self._tasks_dir is None else None,
            model=model,
            scores=scores,
            summary=summary,
            plots=plots | Plots(bars=_bars(scores, summary)),
            details=_details(scores),
            seen=what_was_seen(
                model, [f"{self._sequences.name}/{name}" for name in self._sequences.lengths]
            ),
        )

    def _protocol(self) -> str:
        tasks = (
            f"tasks drawn by the official rule, {self._pairs} verification pairs of each kind"
            if self._tasks_dir is None
            else "official task files"
        )
        return (
            f"HPatches tasks on {len(self._sequences.lengths)} sequences: "
            f"{', '.join(self._tasks)}; matching averaged over illumination and viewpoint "
            "sequences, then over the two, as in HPatches' MATLAB code, and flat over all "
            f"sequences, as in its Python code; average precision by {self._method}; {tasks}; "
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
            pass  # absent or damaged
        task = rules.draw_verification(list(lengths.values()), self._pairs)
        with write_atomically(path) as partial:
            arrays = {kind: np.stack(dataclasses.astuple(getattr(task, kind))) for kind in kinds}
            np.savez(partial, **arrays)  # type: ignore[arg-type]
        return task

    def _retrieval_task(self) -> rules.RetrievalTask:
        lengths = self._sequences.lengths
        if self._tasks_dir is not None:
            return rules.read_retrieval(self._tasks_dir, self._sequences.split, lengths)
        names = list(lengths)
        # The official numbers leave distractors only where there are enough patches.
        patches = sum(lengths.values())
        return rules.draw_retrieval(
            list(lengths.values()),
            lambda number: self._sequences.patches(names[number], "ref").std(axis=(1, 2)),
            min(rules.QUERIES, patches // 3),
            min(rules.DISTRACTORS, patches),
        )


def _verification_columns(scores: dict[str, Any], measure: str) -> dict[tuple[str, str], float]:
    return {
        (level, kind.replace("_", " ")): values[measure]
        for level in LEVELS
        for kind, values in scores["verification"][level].items()
    }


def _matching_columns(scores: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Returns scores by level and kind of change where there are both kinds, else means only."""
    kinds = ["mean", "flat_mean", *KINDS] if _has_both_kinds(scores) else ["mean"]
    return {
        (level, kind.replace("_", " ")): scores["matching"][level][kind]
        for level in LEVELS
        for kind in kinds
    }


def _has_both_kinds(scores: dict[str, Any]) -> bool:
    return set(KINDS) <= scores["matching"]["easy"].keys()


def _bars(scores: dict[str, Any], summary: dict[str, float]) -> dict[str, Bar]:
    """Returns the bars of the benchmark's own figure, one panel per task."""
    bars = {}
    if "verification" in scores:
        marks = _verification_columns(scores, "imbalanced_ap")
        bars["Patch verification, imbalanced AP [%]"] = Bar(summary["verification"], marks)
    if "matching" in scores:
        by_kind = _matching_columns(scores)
        marks = {name: v for name, v in by_kind.items() if name[1] in KINDS} or by_kind
        bars["Image matching, mAP [%]"] = Bar(summary["matching"], marks)
    if "retrieval" in scores:
        marks = {(level, "mean"): scores["retrieval"][level]["mean"] for level in LEVELS}
        bars["Patch retrieval, mAP [%]"] = Bar(summary["retrieval"], marks)
    return bars


def _details(scores: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Returns the columns of the tables that papers show, by title."""
    columns: dict[str, dict[tuple[str, str], float]] = {}
    if "verification" in scores:
        for measure, title in (
            ("imbalanced_ap", "imbalanced, AP"),
            ("balanced_auc", "balanced, AUC"),
            ("balanced_auc_in_order", "balanced, AUC, ties in order as in HPatches' code"),
        ):
            columns[f"Verification, {title}"] = _verification_columns(scores, measure)
    if "matching" in scores:
        columns["Matching, mAP"] = _matching_columns(scores)
    if "retrieval" in scores:
        columns["Retrieval, mAP by size of the pool"] = {
            (level, pool): value
            for level in LEVELS
            for pool, value in scores["retrieval"][level].items()
        }
    return {
        title: {", ".join(name): value for name, value in values.items()}
        for title, values in columns.items()
    }
