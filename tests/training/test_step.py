import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.losses import LOSSES, DistillationLoss
from doap_tf.training.config import TrainingConfig
from doap_tf.training.step import TrainingStep, make_loss
from doap_tf.training.strategy import make_strategy, precision
from doap_tf.zoo import load_keras
from tests.training.launch import make_groups

CONFIG = TrainingConfig(batch_size=24, width=0.125, dimension=16, dropout=0.0)


@functools.cache
def one_step(**changes):
    """Weights before and after a step, by name, and its loss."""
    step = TrainingStep(dataclasses.replace(CONFIG, **changes), tf.distribute.get_strategy())
    groups = make_groups(size=step.network.input_size)
    before = {v.path: v.numpy() for v in step.network.trainable_variables}
    loss = step(groups.patches[:24, ..., np.newaxis], groups.labels(np.arange(24)), 0.1, 0)
    return before, {v.path: v.numpy() for v in step.network.trainable_variables}, float(loss)


def change(**options):
    before, after, _ = one_step(**options)
    return {path: after[path] - before[path] for path in before}


def test_weight_decay_is_coupled_and_on_kernels():
    before, _, _ = one_step(weight_decay=0.0)
    plain, decayed = change(weight_decay=0.0), change(weight_decay=0.5)
    for path in plain:
        np.testing.assert_allclose(
            decayed[path] - plain[path], -0.1 * 0.5 * before[path], atol=1e-5
        )


def test_only_the_prediction_layer_is_slowed():
    options = {"spatial_transformer": True, "weight_decay": 0.0}
    fast, slow = change(transformer_rate=1.0, **options), change(transformer_rate=0.01, **options)
    for path in fast:
        factor = 0.01 if "spatial_transformer/prediction/" in path else 1.0
        np.testing.assert_allclose(slow[path], factor * fast[path], rtol=1e-3, atol=1e-7)
    assert np.abs(fast["descriptor_network/spatial_transformer/prediction/kernel"]).max() > 0


def test_clipping_bounds_the_whole_gradient():
    def norm(changes):
        return np.sqrt(sum((array**2).sum() for array in changes.values()))

    plain, clipped = change(weight_decay=0.0), change(weight_decay=0.0, clip_norm=1e-3)
    np.testing.assert_allclose(norm(clipped), 0.1 * 1e-3, rtol=1e-4)
    assert norm(plain) > 1e-3
    np.testing.assert_allclose(
        clipped["descriptor_network/trunk/block7/convolution/kernel"] / norm(clipped),
        plain["descriptor_network/trunk/block7/convolution/kernel"] / norm(plain),
        atol=2e-4,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "hardest_in_batch"},
        {"head": "binary"},
        {"form": "fast", "bins": 10},
        {"distance": "squared"},
    ],
)
def test_losses_fall(options):
    step = TrainingStep(dataclasses.replace(CONFIG, **options), tf.distribute.get_strategy())
    groups = make_groups()
    patches, labels = groups.patches[:24, ..., np.newaxis], groups.labels(np.arange(24))
    losses = [float(step(patches, labels, 0.05, number)) for number in range(12)]
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_distance_reaches_the_loss(loss):
    config = dataclasses.replace(CONFIG, loss=loss)
    assert make_loss(config).distance == "euclidean"
    assert make_loss(dataclasses.replace(config, distance="squared")).distance == "squared"
    assert make_loss(dataclasses.replace(config, head="binary")).distance == "hamming"


def test_the_margin_reaches_the_loss():
    config = dataclasses.replace(CONFIG, loss="hardnet", margin=0.5)
    assert make_loss(config).margin == 0.5


def test_momentum_carries_on():
    step = TrainingStep(
        dataclasses.replace(CONFIG, momentum=0.5, weight_decay=0.0), tf.distribute.get_strategy()
    )
    groups = make_groups()
    patches, labels = groups.patches[:24, ..., np.newaxis], groups.labels(np.arange(24))
    kernel = step.network.trainable_variables[0]
    places = [kernel.numpy()]
    for rate in (0.1, 0.0):
        step(patches, labels, rate, 0)
        places.append(kernel.numpy())
    np.testing.assert_allclose(
        places[2] - places[1], 0.5 * (places[1] - places[0]), rtol=1e-4, atol=1e-7
    )


def test_a_restarted_step_does_what_a_new_one_does():
    def run(step):
        losses = [float(step(patches, labels, 0.1, number)) for number in range(3)]
        return losses, [variable.numpy() for variable in step.variables]

    config = dataclasses.replace(CONFIG, dropout=0.3, turn=True)
    groups = make_groups()
    patches, labels = groups.patches[:24, ..., np.newaxis], groups.labels(np.arange(24))
    new = TrainingStep(dataclasses.replace(config, seed=7), tf.distribute.get_strategy())
    used = TrainingStep(config, tf.distribute.get_strategy())
    expected, first = run(new), run(used)
    used.restart(7)
    losses, variables = run(used)
    assert losses == expected[0] != first[0]
    for variable, same in zip(variables, expected[1], strict=True):
        np.testing.assert_array_equal(variable, same)


@pytest.mark.slow
def test_xla_changes_little():
    plain, compiled = one_step(), one_step(xla=True)
    np.testing.assert_allclose(compiled[2], plain[2], atol=1e-4)


@pytest.mark.parametrize("text", ["", "{", '{"cluster": {"worker": []}}'])
def test_several_workers_require_a_cluster(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="requires TF_CONFIG such as"):
        make_strategy("multi_worker")


def test_unknown_strategy_is_refused():
    with pytest.raises(InputError, match="auto, none, mirrored, multi_worker, not 'tpu'"):
        make_strategy("tpu")


@pytest.mark.parametrize("policy, rounded", [("float32", False), ("mixed_bfloat16", True)])
def test_float32_is_not_rounded_to_tf32(policy, rounded):
    before = tf.keras.config.dtype_policy()
    assert tf.config.experimental.tensor_float_32_execution_enabled()
    with precision(policy):
        assert tf.config.experimental.tensor_float_32_execution_enabled() == rounded
        assert tf.keras.config.dtype_policy().name == policy
    assert tf.keras.config.dtype_policy() == before
    assert tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_step_starts_from_trained_networks_again_and_again():
    config = dataclasses.replace(
        CONFIG, initial="doap-fast-128", trunk="fast", dimension=128, width=1.0
    )
    trained = load_keras("doap-fast-128")
    step = TrainingStep(config, tf.distribute.get_strategy(), initial=[trained])
    groups = make_groups(size=32)
    patches, labels = groups.patches[:24, ..., np.newaxis], groups.labels(np.arange(24))
    for _ in range(2):
        np.testing.assert_array_equal(step.network(patches), trained(patches))
        step(patches, labels, 0.1, 0)
        assert np.abs(step.network(patches) - trained(patches)).max() > 0.01
        step.restart(3)
    with pytest.raises(InputError, match="0 networks to start from are given, but the settings na"):
        TrainingStep(config, tf.distribute.get_strategy())


def test_a_teacher_moves_the_network_towards_its_ranking():
    options = {"dimension": 64, "width": 0.25}
    groups = make_groups(size=32)
    patches = groups.patches[:24, ..., np.newaxis]
    network = load_keras("doap-tiny-256b")
    taught = network(patches)
    divergence = {}
    for teacher in ("", "doap-tiny-256b"):
        config = dataclasses.replace(CONFIG, teacher=teacher, **options)
        step = TrainingStep(config, tf.distribute.get_strategy(), None, [network] * bool(teacher))
        for number in range(20):
            loss = step(patches, groups.labels(np.arange(24)), 0.02, number)
        assert 0 <= float(loss) <= 1  # Average Precision's alone
        divergence[teacher] = float(
            DistillationLoss()(taught, step.network(patches, training=True))
        )
    assert divergence["doap-tiny-256b"] < 0.8 * divergence[""]
    with pytest.raises(InputError, match="0 teachers are given, but the settings name 'doap-tin"):
        TrainingStep(config, tf.distribute.get_strategy())
