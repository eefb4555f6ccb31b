"""Two replicas on half a batch each must do what one device does on the whole."""

import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from doap_tf import losses

keras = tf.keras
generator = np.random.default_rng(0)
inputs = generator.normal(size=[27, 6]).astype(np.float32)
# Groups across both halves, some of one patch, with numbers that float32 does not tell apart.
labels = 2**24 + generator.integers(0, 6, size=27)
teacher = generator.normal(size=[27, 5]).astype(np.float32)

def train(loss, strategy):
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Dense(4), keras.layers.UnitNormalization()])
        model.build((None, 6))
        model.compile(optimizer=keras.optimizers.SGD(0.5), loss=loss())
    before = model.get_weights()[0]
    # The second batch has 11 rows, which two replicas split unevenly.
    wanted = teacher if loss is losses.DistillationLoss else labels
    data = tf.data.Dataset.from_tensor_slices((inputs, wanted)).batch(16)
    model.fit(data, epochs=3, verbose=0)
    assert np.abs(model.get_weights()[0] - before).max() > 1e-3
    return model.get_weights()

mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for loss in (losses.AveragePrecisionLoss, losses.HardestInBatchLoss, losses.DistillationLoss):
    one = train(loss, tf.distribute.get_strategy())
    two = train(loss, mirrored)
    for a, b in zip(one, two):
        np.testing.assert_allclose(a, b, atol=5e-5)
"""


@pytest.mark.slow
def test_two_replicas_train_like_one_device():
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
