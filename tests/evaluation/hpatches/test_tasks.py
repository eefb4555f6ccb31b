"""Tasks drawn by the official rule: first rows of the official files, and the rule in full."""

import numpy as np
import pytest

from doap_tf.datasets.hpatches import split_sequences
from doap_tf.errors import InputError
from doap_tf.evaluation.hpatches import tasks as tasks

# Patches of the sequences that the first rows of the official files come from.
LENGTHS = {"v_birdwoman": 2000, "v_strand": 1816, "i_salon": 1102}


def official_lengths():
    return [LENGTHS.get(name, 2000) for name in split_sequences("a")]


def test_first_rows_of_the_official_retrieval_file():
    task = tasks.draw_retrieval(official_lengths(), lambda number: np.full(2000, 99.0))
    names = split_sequences("a")
    rows = [(names[sequence], int(index)) for sequence, index in task.queries[:3]]
    assert rows == [("v_birdwoman", 3), ("v_strand", 2), ("i_salon", 324)]


@pytest.mark.slow
def test_first_rows_of_the_official_verification_file():
    task = tasks.draw_verification(official_lengths())
    names = split_sequences("a")
    rows = [(names[sequence], int(index)) for sequence, _, index in task.positives.first[:3]]
    assert rows == [("v_birdwoman", 251), ("v_strand", 1625), ("i_salon", 1100)]


def test_verification_rule():
    lengths, pairs = [5, 9, 7], 40
    task = tasks.draw_verification(lengths, pairs)
    np.random.seed(42)
    sequences = np.random.choice(["s0", "s1", "s2"], pairs)
    counts = {f"s{number}": length for number, length in enumerate(lengths)}
    indices = [np.random.choice(np.arange(counts[s]), 2, replace=False) for s in sequences]
    images = [np.random.choice(np.arange(5), 2, replace=False) for _ in sequences]
    others = np.random.choice(["s0", "s1", "s2"], pairs)
    other_indices = [np.random.randint(counts[s]) for s in others]
    for row in range(pairs):
        number, other = int(sequences[row][1]), int(others[row][1])
        (first, second), (image, other_image) = indices[row], images[row]
        assert task.positives.first[row].tolist() == [number, image, first]
        assert task.positives.second[row].tolist() == [number, other_image, first]
        assert task.same_sequence.first[row].tolist() == [number, image, first]
        assert task.same_sequence.second[row].tolist() == [number, other_image, second]
        assert task.other_sequences.first[row].tolist() == [number, image, first]
        assert task.other_sequences.second[row].tolist() == [other, other_image, other_indices[row]]


def test_retrieval_leaves_out_flat_and_repeated_patches_and_queries():
    deviations = [np.array([99, 10.0, 99, 99]), np.array([10.1, 99, 0, 99, 99])]
    task = tasks.draw_retrieval([4, 5], deviations.__getitem__, queries=3, distractors=100)
    drawn = task.queries.tolist() + task.distractors.tolist()
    assert len(task.queries) == 3
    expected = [[0, 0], [0, 2], [0, 3], [1, 0], [1, 1], [1, 3], [1, 4]]
    assert sorted(drawn) == expected


def test_verification_of_single_patches_is_an_error():
    with pytest.raises(InputError, match="at least two patches"):
        tasks.draw_verification([4, 1], 10)
