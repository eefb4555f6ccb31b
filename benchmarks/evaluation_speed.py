"""Compares the time of scoring HPatches' three tasks with plain NumPy, SciPy and scikit-learn.

python benchmarks/evaluation_speed.py

Both score the same descriptors in the same tasks on synthetic sequences; neither describing patches
nor drawing tasks is timed. Ours also makes the curves and examples of the report.
"""

import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

import cv2
import numpy as np
import scipy.spatial.distance
import sklearn.metrics
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.evaluation import Model, PatchSequences
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches import tasks as rules
from doap_tf.evaluation.hpatches.matching_task import evaluate_matching
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, TARGETS
from doap_tf.evaluation.hpatches.retrieval_task import POOLS, evaluate_retrieval
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.verification_task import evaluate_verification
from doap_tf.readers import STRIPS
from doap_tf.zoo import load_descriptor

FLAGS = flags.FLAGS
flags.DEFINE_integer("sequences", 6, "Number of sequences; HPatches has 116.")
flags.DEFINE_integer("positions", 1000, "Patches per strip; HPatches has 1,300 on average.")
flags.DEFINE_integer("pairs", 200_000, "Verification pairs of each kind; HPatches has a million.")

Strips = Mapping[tuple[int, str], np.ndarray]  # descriptors by sequence number and strip

_NOISE = {"r": 0, "e": 120, "h": 170, "t": 220}
_MEMORY_MB = 1024


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "scipy", "scikit-learn")
    with tempfile.TemporaryDirectory() as scratch:
        release = pathlib.Path(scratch) / "release"
        _write(release)
        sequences = PatchSequences(release)
        model = Model("pixels", load_descriptor("pixels"))
        descriptors = StripDescriptors(sequences, DescriptorCache(f"{scratch}/cache", model))
        lengths = list(sequences.lengths.values())
        names = list(sequences.lengths)
        pairs = rules.draw_verification(lengths, FLAGS.pairs)
        lists = rules.draw_retrieval(
            lengths,
            lambda number: sequences.patches(names[number], "ref").std(axis=(1, 2)),
            min(rules.QUERIES, sum(lengths) // 3),
            min(rules.DISTRACTORS, sum(lengths)),
        )
        strips = {
            (number, strip): np.array(descriptors.load(name, strip))
            for number, name in enumerate(names)
            for strip in STRIPS
        }
        options = ("mean_precision", _MEMORY_MB)
        _compare(
            f"verification, {len(pairs.positives.first):,} pairs of each kind",
            lambda: evaluate_verification(descriptors, pairs, *options)[0]["mean_imbalanced_ap"],
            lambda: _verification(strips, pairs),
        )
        _compare(
            f"matching, {len(lengths)} sequences of {lengths[0]:,} patches",
            lambda: evaluate_matching(descriptors, *options)[0]["mean"],
            lambda: _matching(strips, len(lengths)),
        )
        _compare(
            f"retrieval, {len(lists.queries):,} queries, {len(lists.distractors):,} distractors",
            lambda: evaluate_retrieval(descriptors, lists, *options)["mean"],
            lambda: _retrieval(strips, lists),
        )


def _compare(task: str, ours: Callable[[], float], plain: Callable[[], float]) -> None:
    score, expected = ours(), plain()
    if abs(score - expected) > 1e-4:
        raise RuntimeError(f"{task}: the scores should be equal, not {score} and {expected}.")
    times = measuring.fastest({"ours": ours, "plain": plain})
    measuring.print_table(task, times, ["plain"], {"mAP": {"ours": f"{score:.4f}"}})


def _write(folder: pathlib.Path) -> None:
    """Writes sequences of checkered patches with more noise at higher levels."""
    random = np.random.default_rng(0)
    for number in range(FLAGS.sequences):
        (folder / f"v_{number}").mkdir(parents=True)
        checks = random.integers(0, 256, (FLAGS.positions, 13, 13))
        for strip in STRIPS:
            noisy = checks + _NOISE[strip[0]] * random.standard_normal(checks.shape)
            patches = np.clip(noisy, 0, 255).astype(np.uint8).repeat(5, axis=1).repeat(5, axis=2)
            cv2.imwrite(str(folder / f"v_{number}" / f"{strip}.png"), patches.reshape(-1, 65))


def _average_precision(distances: np.ndarray, right: np.ndarray, positives: int) -> float:
    ranked = right[np.argsort(distances, kind="stable")]
    precisions = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
    return precisions[ranked].sum() / positives


def _verification(strips: Strips, task: rules.VerificationTask) -> float:
    values = []
    for prefix in LEVELS.values():
        images = ["ref", *(f"{prefix}{target}" for target in TARGETS)]

        def distances(pairs: rules.Pairs, images: Sequence[str] = images) -> np.ndarray:
            sides = (
                np.array([strips[number, images[image]][index] for number, image, index in side])
                for side in (pairs.first.tolist(), pairs.second.tolist())
            )
            return np.linalg.norm(np.subtract(*sides), axis=1)

        positives = distances(task.positives)
        few = positives[: len(positives) // 5]
        for others in (distances(task.same_sequence), distances(task.other_sequences)):
            balanced = np.concatenate([others, positives])
            sklearn.metrics.roc_auc_score(np.arange(len(balanced)) >= len(others), -balanced)
            imbalanced = np.concatenate([others, few])
            right = np.arange(len(imbalanced)) >= len(others)
            values.append(_average_precision(imbalanced, right, len(few)))
    return float(np.mean(values))


def _matching(strips: Strips, sequences: int) -> float:
    values = []
    for number in range(sequences):
        for prefix in LEVELS.values():
            for target in TARGETS:
                distances = scipy.spatial.distance.cdist(
                    strips[number, "ref"], strips[number, f"{prefix}{target}"]
                )
                right = distances.argmin(axis=1) == np.arange(len(distances))
                values.append(_average_precision(distances.min(axis=1), right, len(right)))
    return float(np.mean(values))


def _retrieval(strips: Strips, task: rules.RetrievalTask) -> float:
    pools = [pool for pool in POOLS if pool <= len(task.distractors)]
    pools = pools or [len(task.distractors) + len(TARGETS)]
    queries, distractors = (
        np.array([strips[number, "ref"][index] for number, index in patches.tolist()])
        for patches in (task.queries, task.distractors)
    )
    to_distractors = scipy.spatial.distance.cdist(queries, distractors)
    values = []
    for query, others, (number, index) in zip(
        queries, to_distractors, task.queries.tolist(), strict=True
    ):
        foreign = others[task.distractors[:, 0] != number]
        for prefix in LEVELS.values():
            targets = np.array([strips[number, f"{prefix}{target}"][index] for target in TARGETS])
            distances = np.append(np.linalg.norm(targets - query, axis=1), foreign)
            for pool in pools:
                members = distances[:pool]
                right = np.arange(len(members)) < len(TARGETS)
                values.append(_average_precision(members, right, len(TARGETS)))
    return float(np.mean(values))


if __name__ == "__main__":
    command_line.run(main)
