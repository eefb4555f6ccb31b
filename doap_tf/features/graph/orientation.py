"""The dominant gradient inside a TensorFlow graph: the twin of `doap_tf.features.orientation`."""

import math

import tensorflow as tf

from doap_tf.features.gradients import BINS, WINDOW_SIGMA, frame_gradients
from doap_tf.features.graph.cutting import GraphPyramid


def dominant_angles(pyramid: GraphPyramid, frames: tf.Tensor) -> tf.Tensor:
    """The strongest directions of the gradient around frames.

    Args:
        pyramid: Of the image.
        frames: Row-major 2×3 maps from the unit circle to pixels, float32 [N, 6].

    Returns:
        Angles in the coordinates of the frames, float32 [N] in radians.
    """
    along, across, window = frame_gradients(pyramid, frames, WINDOW_SIGMA)
    along, across = (tf.reshape(gradient, [-1, window.size]) for gradient in (along, across))
    weight = tf.sqrt(along**2 + across**2) * window.ravel()
    position = tf.math.floormod(tf.atan2(across, along) * (BINS / (2 * math.pi)), BINS)
    lower = tf.floor(position)
    fraction = position - lower
    # Each gradient counts for the two nearest of the bins, which are closed into a circle.
    bins = tf.cast(tf.stack([lower, lower + 1.0]), tf.int32) % BINS
    count = tf.shape(frames)[0]
    histogram = tf.math.unsorted_segment_sum(
        weight * tf.stack([1.0 - fraction, fraction]),
        bins + BINS * tf.range(count)[:, tf.newaxis],
        count * BINS,
    )
    histogram = tf.reshape(histogram, [count, BINS])
    for _ in range(2):
        near = tf.roll(histogram, 1, 1) + tf.roll(histogram, -1, 1)
        far = tf.roll(histogram, 2, 1) + tf.roll(histogram, -2, 1)
        histogram = (6.0 * histogram + 4.0 * near + far) / 16.0
    peak = tf.argmax(histogram, axis=1, output_type=tf.int32)
    before, here, after = (
        tf.gather(histogram, (peak + step) % BINS, axis=1, batch_dims=1) for step in (-1, 0, 1)
    )
    curvature = tf.maximum(2.0 * here - before - after, 1e-12)
    offset = (after - before) / (2.0 * curvature)
    return (tf.cast(peak, tf.float32) + offset) * (2 * math.pi / BINS)
