"""Replicas and workers must reach the weights that one device reaches."""

import json
import socket

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.commands import train
from doap_tf.networks import DescriptorNetwork
from tests.training import launch


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """Patch groups, and beside them a teacher."""
    folder = tmp_path_factory.mktemp("groups")
    tf.keras.utils.set_random_seed(0)
    teacher = DescriptorNetwork(16, width=0.125)
    teacher.build((None, 32, 32, 1))
    teacher.save(folder / "teacher.keras")
    return launch.make_groups().save(folder / "groups").directory


def flags(groups, train_dir, *more):
    return (
        f"--groups={groups}",
        f"--train_dir={launch.already_exported(train_dir)}",
        *launch.TINY,
        "--steps=3",  # the more, and the heavier the teacher, the further rounding errors grow
        "--dropout=0",
        "--synchronized_batch_norm",
        f"--teacher={groups.parent / 'teacher.keras'}",
        "--teacher_weight=0.1",
        *more,
    )


@pytest.fixture(scope="module")
def alone(groups, tmp_path_factory):
    train_dir = tmp_path_factory.mktemp("alone")
    launch.train_here(train, *flags(groups, train_dir, "--strategy=none"))
    return launch.last_checkpoint(train_dir)


def check_equal(got, wanted):
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_two_replicas(groups, alone, tmp_path):
    launch.train(*flags(groups, tmp_path, "--strategy=mirrored"), logical_cpus=2)
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["replicas"] == 2
    check_equal(launch.last_checkpoint(tmp_path), alone)


@pytest.mark.slow
def test_two_workers(groups, alone, tmp_path):
    ports = []
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
        ports.append(one.getsockname()[1])
    for one in sockets:
        one.close()
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    workers = [
        launch.start(
            *flags(groups, tmp_path, "--strategy=multi_worker"),
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    for worker in workers:
        launch.finish(worker)
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["replicas"] == 2
    check_equal(launch.last_checkpoint(tmp_path), alone)
