import numpy as np
import pytest
import skimage.data
import tensorflow as tf

from doap_tf.features import cutting
from doap_tf.features.frames import scale_frames, semi_axes, similarity_frames
from doap_tf.features.graph import cut_patches


def _affine_frames(count: int, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Frames of all sizes, a third of them beyond the border."""
    rng = np.random.default_rng(seed)
    height, width = shape
    frames = similarity_frames(
        rng.uniform(-0.2 * width, 1.2 * width, count),
        rng.uniform(-0.2 * height, 1.2 * height, count),
        1.0,
        rng.uniform(-np.pi, np.pi, count),
    )
    frames[:, :, :2] = frames[:, :, :2] @ (np.eye(2) + rng.normal(0, 0.2, [count, 2, 2]))
    longer = np.exp(rng.uniform(np.log(1), np.log(200), count))  # steps of up to 62 pixels
    return scale_frames(frames, longer / semi_axes(frames)[:, 0])


@pytest.mark.parametrize("name", ["camera", "brick"])
def test_cuts_what_the_pyramid_cuts(name):
    image = getattr(skimage.data, name)()
    frames = _affine_frames(400, image.shape)
    expected = cutting.cut_patches(image.astype(np.float32), frames, 32, 5.0)
    found = cut_patches(
        tf.constant(image, tf.float32), tf.constant(frames.reshape(-1, 6), tf.float32), 32, 5.0
    ).numpy()
    assert np.abs(found - expected).max() < 0.05


def test_large_frames_do_not_alias():
    """A chessboard of single pixels is grey from afar."""
    board = np.indices([256, 256]).sum(axis=0) % 2 * 255.0
    frame = tf.constant([[24.0, 3.0, 128.0, -2.0, 25.0, 127.0]])
    patch = cut_patches(tf.constant(board, tf.float32), frame, 32, 5.0).numpy()
    np.testing.assert_allclose(patch, 127.5, atol=2.0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 3)])
def test_tiny_images_repeat_their_border(shape):
    image = tf.fill(shape, 7.0)
    patches = cut_patches(image, tf.constant([[3.0, 0, 0, 0, 3.0, 0]]), 32, 5.0)
    np.testing.assert_allclose(patches, 7.0, rtol=1e-5)


def test_no_frames_give_no_patches():
    assert cut_patches(tf.zeros([9, 9]), tf.zeros([0, 6]), 32, 5.0).shape == (0, 32, 32)
