import numpy as np
import pytest

from doap_tf.data import GroupSampler, MixtureSampler, PatchGroups, SameSequenceSampler
from doap_tf.errors import InputError
from doap_tf.training.sampling import make_sampler
from tests.training.launch import make_groups


@pytest.fixture
def groups_of_images():
    return PatchGroups.from_arrays(
        np.zeros([80, 32, 32], np.uint8),
        group=np.repeat(np.arange(40), 2),
        sequence=np.repeat(np.arange(5), 16),
        sequence_names=[f"image {number}" for number in range(5)],
    )


@pytest.mark.parametrize("given, share", [(None, 0.5), (1.0, 1.0)])
def test_the_share_reaches_the_sampler(given, share, groups_of_images):
    sampler = make_sampler("same_sequence", [groups_of_images], [], 16, 0, 2, given)
    assert isinstance(sampler, SameSequenceSampler)
    assert sampler.share == share


def test_of_several_datasets_those_with_sequences_take_the_share(groups_of_images):
    sampler = make_sampler("same_sequence", [groups_of_images, make_groups()], [], 16, 0, 2, 0.75)
    assert isinstance(sampler, MixtureSampler)
    images, others = sampler.samplers
    assert isinstance(images, SameSequenceSampler) and images.share == 0.75
    assert isinstance(others, GroupSampler)


def test_datasets_of_few_images_take_part_with_all_of_them(groups_of_images):
    two = groups_of_images.subset(np.arange(32))
    sampler = make_sampler("same_sequence", [groups_of_images, two], [], 16, 0, 2)
    assert [part.sequences_per_batch for part in sampler.samplers] == [4, 2]
    assert len(next(sampler)) == 16


def test_a_share_requires_the_sampler_that_has_one():
    with pytest.raises(InputError, match="sequence_share requires the sampler same_sequence"):
        make_sampler("groups", [make_groups()], [], 16, 0, None, 0.5)
