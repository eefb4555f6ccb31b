"""HPatches' matching task: the nearest neighbour of every reference patch in each target."""

import collections
from typing import Any, NamedTuple

import numpy as np

from doap_tf.drawing.plots import Curve
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, TARGETS, PatchSequences
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.result import EXAMPLES, Examples, Plots
from doap_tf.metrics import average_precision, match, paired_distances, precision_recall_curve
from doap_tf.parallel import parallel_map
from doap_tf.progress import progress
from doap_tf.readers.strips import PATCH

KINDS = ("illumination", "viewpoint")
_EXAMPLE_LEVEL = "hard"


class _Example(NamedTuple):
    distance: float
    sequence: str
    strip: str
    patch: int
    neighbour: int


def evaluate_matching(
    descriptors: StripDescriptors, method: str, memory_mb: float
) -> tuple[dict[str, Any], Plots]:
    """Returns scores by level, kind of change and sequence, with plots of each level."""
    precisions: dict[str, dict[str, float]] = {level: {} for level in LEVELS}
    pooled: dict[str, list[tuple[np.ndarray, ...]]] = collections.defaultdict(list)
    examples: dict[bool, list[_Example]] = {True: [], False: []}
    norm = descriptors.norm
    for sequence in progress(descriptors.sequences.lengths, "matching"):
        reference = descriptors.load(sequence, "ref")
        for level, prefix in LEVELS.items():
            values = []
            for strip in (f"{prefix}{target}" for target in TARGETS):
                target = descriptors.load(sequence, strip)
                distances, right, neighbours = match(reference, target, norm, memory_mb)
                values.append(average_precision(distances, right, method, len(right)))
                same = paired_distances(reference, target, norm, memory_mb)
                other = paired_distances(reference, np.roll(target, 1, axis=0), norm, memory_mb)
                pooled[level].append((distances, right, same, other))
                if level == _EXAMPLE_LEVEL:
                    for kind, kept in examples.items():
                        rows = np.flatnonzero(right == kind)
                        rows = rows[np.argsort(distances[rows], kind="stable")[:EXAMPLES]]
                        kept += [
                            _Example(
                                float(distances[i]), sequence, strip, int(i), int(neighbours[i])
                            )
                            for i in rows
                        ]
            precisions[level][sequence] = float(np.mean(values))
    return _scores(precisions), _plots(pooled, examples, descriptors.sequences)


def _scores(precisions: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Averages by level and over levels.

    "mean" is over the sequences of each kind of change, then over the kinds, as in the MATLAB code
    of HPatches' article; "flat_mean" is over all sequences, as in its Python code.
    """
    kinds = {f"{kind[0]}_": kind for kind in KINDS}
    scores: dict[str, Any] = {}
    for level, by_sequence in precisions.items():
        by_kind = collections.defaultdict(list)
        for name, value in by_sequence.items():
            by_kind[kinds.get(name[:2], "other")].append(value)
        means = {kind: float(np.mean(by_kind[kind])) for kind in sorted(by_kind)}
        scores[level] = {
            "mean": float(np.mean(list(means.values()))),
            "flat_mean": float(np.mean(list(by_sequence.values()))),
            **means,
            "sequences": by_sequence,
        }
    overall = {
        name: float(np.mean([scores[level][name] for level in LEVELS]))
        for name in ("mean", "flat_mean")
    }
    return scores | overall


def _plots(
    pooled: dict[str, list[tuple[np.ndarray, ...]]],
    examples: dict[bool, list[_Example]],
    sequences: PatchSequences,
) -> Plots:
    plots = Plots()
    for level, parts in pooled.items():
        distances, right, same, other = map(np.concatenate, zip(*parts, strict=True))
        precision, recall = precision_recall_curve(distances, right, len(right))
        plots.precision_recall[f"matching, {level}"] = Curve.thinned(recall, precision)
        plots.distances[level] = (same, other)
    titles = {
        True: f"Nearest right matches ({_EXAMPLE_LEVEL})",
        False: f"Nearest wrong matches ({_EXAMPLE_LEVEL})",
    }
    for kind, title in titles.items():
        if examples[kind]:
            plots.examples.append(_read(title, sorted(examples[kind])[:EXAMPLES], sequences))
    return plots


def _read(title: str, examples: list[_Example], sequences: PatchSequences) -> Examples:
    roles = ("reference", "nearest", "true match")
    patches = np.empty((len(roles), len(examples), PATCH, PATCH), np.uint8)
    # Examples tend to share strips, which are slow to read.
    by_strip: dict[tuple[str, str], list[tuple[int, int, int]]] = collections.defaultdict(list)
    for column, example in enumerate(examples):
        _, sequence, strip, patch, neighbour = example
        for role, (name, index) in enumerate([("ref", patch), (strip, neighbour), (strip, patch)]):
            by_strip[sequence, name].append((role, column, index))

    def fill(strip: tuple[str, str]) -> None:
        strip_patches = sequences.patches(*strip)
        for role, column, index in by_strip[strip]:
            patches[role, column] = strip_patches[index]

    parallel_map(fill, list(by_strip))
    return Examples(title, roles, patches)
