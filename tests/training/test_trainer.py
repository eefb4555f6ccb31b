"""The trainer as a library."""

import concurrent.futures
import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf import losses
from doap_tf.data import GroupSampler
from doap_tf.errors import InputError
from doap_tf.training.config import TrainingConfig
from doap_tf.training.step import TrainingStep
from doap_tf.training.trainer import Trainer
from doap_tf.training.validation import Validation
from tests.training.launch import make_groups

CONFIG = TrainingConfig(batch_size=24, steps=3, width=0.125, dimension=16, turn=True)


@pytest.fixture(scope="module")
def step():
    """A compiled step; a trainer that is given it restarts it."""
    return TrainingStep(CONFIG, tf.distribute.get_strategy())


def train(config, folder, step=None, validate=True):
    groups = make_groups()
    sampler = GroupSampler(groups, config.batch_size, config.seed)
    validation = Validation(groups) if validate else None
    trainer = Trainer(config, groups, sampler, validation, folder, step=step)
    trainer.run()
    return trainer.descriptor.describe(groups.patches)


@pytest.mark.slow
def test_a_step_that_is_reused_trains_as_a_new_one(step, tmp_path):
    config = dataclasses.replace(CONFIG, seed=1, learning_rate=0.5)
    first = train(CONFIG, tmp_path / "first", step)
    reused = train(config, tmp_path / "reused", step)
    np.testing.assert_array_equal(reused, train(config, tmp_path / "new"))
    assert (reused != first).any()


def test_a_finished_run_ends_with_its_last_network_again(step, tmp_path):
    """The second time in a thread, which cannot handle signals."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        last = train(CONFIG, tmp_path, step)
        again = threads.submit(train, CONFIG, tmp_path, step).result()
        np.testing.assert_array_equal(again, last)


def test_without_validation_the_last_network_is_kept(step, tmp_path):
    last = train(CONFIG, tmp_path, step, validate=False)
    np.testing.assert_array_equal(
        doap_tf.from_pretrained(tmp_path).describe(make_groups().patches), last
    )
    np.testing.assert_array_equal(train(CONFIG, tmp_path / "validated", step), last)
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["model"] == "last" and record["best"] is record["data"]["validation"] is None
    assert not any("validation" in entry for entry in record["history"])
    (events,) = (tmp_path / "tensorboard").iterdir()
    written = tf.compat.v1.train.summary_iterator(str(events))
    tags = {value.tag for event in written for value in event.summary.value}
    assert {"loss", "patch_groups"} <= tags and "distances" not in tags
    with pytest.raises(InputError, match="cannot be resumed: it was not validated"):
        train(CONFIG, tmp_path, step)


def test_a_run_resumes_with_the_same_data_only(step, tmp_path):
    groups, others = make_groups(), make_groups(seed=1)
    sampler = GroupSampler(groups, CONFIG.batch_size)
    Trainer(CONFIG, groups, sampler, Validation(groups), tmp_path, step=step).run()
    for part, train_on, validate_on in (("train", others, groups), ("validation", groups, others)):
        trainer = Trainer(CONFIG, train_on, sampler, Validation(validate_on), tmp_path, step=step)
        with pytest.raises(InputError, match=rf"cannot be resumed: the data of {part} were arrays"):
            trainer.run()


def test_a_loss_of_somebody_else_is_trained_by_its_name(tmp_path, monkeypatch):
    class MeanDissimilarity(losses.ListLoss):
        settings = ("bins",)

        def __init__(self, bins, **kwargs):
            super().__init__(**kwargs)
            self.bins = bins

        def query_losses(self, queries, database, relations, first):
            positive = relations(first + tf.range(tf.shape(queries)[0])) == losses.POSITIVE
            products = tf.matmul(queries, database, transpose_b=True)
            return self.bins - tf.reduce_sum(tf.where(positive, products, 0.0), axis=1)

    monkeypatch.setitem(losses.LOSSES, "dissimilarity", MeanDissimilarity)
    config = dataclasses.replace(CONFIG, loss="dissimilarity", bins=7, steps=2, log_every=1)
    train(config, tmp_path, validate=False)
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["config"]["loss"] == "dissimilarity"
    assert [4 < entry["loss"] < 10 for entry in record["history"]] == [True, True]


def test_summaries_that_cannot_be_written_are_named(step, tmp_path):
    (tmp_path / "tensorboard").touch()
    with pytest.raises(InputError, match=r"tensorboard cannot be written \(.*Not a directory"):
        train(CONFIG, tmp_path, step)


def test_groups_of_one_patch_teach_nothing(tmp_path):
    groups = make_groups(views=1)
    with pytest.raises(InputError, match="no group of arrays has two patches"):
        Trainer(CONFIG, groups, GroupSampler(groups, CONFIG.batch_size), None, tmp_path)


def test_a_run_without_validation_resumes_exactly(step, tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, checkpoint_every=2, validate_every=1)
    wanted = train(config, tmp_path / "uninterrupted", step, validate=False)
    call = TrainingStep.__call__

    def stopping(self, patches, labels, rate, step):
        if step == 2:
            raise RuntimeError("power cut")
        return call(self, patches, labels, rate, step)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingStep, "__call__", stopping)
        with pytest.raises(RuntimeError, match="power cut"):
            train(config, tmp_path / "stopped", step, validate=False)
    assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == [
        "step-000000002.npz"
    ]
    resumed = train(config, tmp_path / "stopped", step, validate=False)
    np.testing.assert_array_equal(resumed, wanted)


def test_other_magnifications_are_refused_or_warned_of(step, tmp_path, caplog):
    groups = dataclasses.replace(make_groups(), magnification=5.0)
    sampler = GroupSampler(groups, CONFIG.batch_size)
    with pytest.raises(InputError, match=r"magnification is 14, but .* were cut at 5"):
        Trainer(CONFIG, groups, sampler, None, tmp_path, step=step)
    Trainer(CONFIG, make_groups(), sampler, Validation(groups), tmp_path, step=step)
    assert "to validate on were cut at 5" in caplog.text
