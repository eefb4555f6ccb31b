"""The trainer as a library."""

import dataclasses

import numpy as np
import tensorflow as tf

from doap_tf.data import GroupSampler
from doap_tf.training.config import TrainingConfig
from doap_tf.training.step import TrainingStep
from doap_tf.training.trainer import Trainer
from doap_tf.training.validation import Validation
from tests.training.launch import make_groups

CONFIG = TrainingConfig(batch_size=24, steps=3, width=0.125, dimension=16, turn=True)


def train(config, folder, step=None):
    groups = make_groups()
    sampler = GroupSampler(groups, config.batch_size, config.seed)
    trainer = Trainer(config, groups, sampler, Validation(groups), folder, step=step)
    trainer.run()
    return trainer.descriptor.describe(groups.patches)


def test_a_step_that_is_reused_trains_as_a_new_one(tmp_path):
    step = TrainingStep(CONFIG, tf.distribute.get_strategy())
    config = dataclasses.replace(CONFIG, seed=1, learning_rate=0.5)
    first = train(CONFIG, tmp_path / "first", step)
    reused = train(config, tmp_path / "reused", step)
    np.testing.assert_array_equal(reused, train(config, tmp_path / "new"))
    assert (reused != first).any()


def test_a_finished_run_ends_with_its_last_network_again(tmp_path):
    np.testing.assert_array_equal(train(CONFIG, tmp_path), train(CONFIG, tmp_path))
