import numpy as np
import skimage.data
import tensorflow as tf

from doap_tf.features.detectors import detect
from doap_tf.features.frames import angles
from doap_tf.features.graph import GraphPyramid, dominant_angles


def test_angles_are_those_of_the_detectors():
    image = skimage.data.camera()[:300, :300]
    upright = detect(image, "hessian_laplace", 400, oriented=False).frames
    expected = angles(detect(image, "hessian_laplace", 400).frames)
    pyramid = GraphPyramid(tf.constant(image, tf.float32), tf.constant(4.0))
    found = dominant_angles(pyramid, tf.constant(upright.reshape(-1, 6), tf.float32)).numpy()
    errors = np.abs((np.degrees(found - expected) + 180) % 360 - 180)
    assert len(errors) > 200
    assert np.mean(errors < 5) >= 0.95
    assert np.median(errors) < 0.5
