import cv2
import numpy as np

from doap_tf.features.cutting import cut_patches
from doap_tf.features.frames import similarity_frames
from doap_tf.patch_generation.visibility import MIN_CORRELATION, appearance_vectors
from tests.features.pictures import photograph

FRAMES = similarity_frames(*np.meshgrid([100, 200, 300, 400], [100, 200, 300, 400]), 8).reshape(
    -1, 2, 3
)


def correlations(image, other):
    return (appearance_vectors(image, FRAMES) * appearance_vectors(other, FRAMES)).sum(axis=1)


def test_dot_products_are_correlation_coefficients():
    image, other = photograph("camera"), cv2.blur(photograph("camera"), (9, 9))
    patches = [cut_patches(picture, FRAMES, 16, 5.0) for picture in (image, other)]
    strong = np.min([p.std(axis=(1, 2)) for p in patches], axis=0) > 5
    pairs = zip(*(p[strong].reshape(strong.sum(), -1) for p in patches), strict=True)
    assert strong.sum() > 5
    np.testing.assert_allclose(
        correlations(image, other)[strong], [np.corrcoef(*pair)[0, 1] for pair in pairs], atol=1e-5
    )


def test_light_leaves_a_place_visible_and_a_screen_does_not():
    image = photograph("astronaut")
    dimmed = cv2.convertScaleAbs(image, alpha=0.5, beta=20)
    assert (correlations(image, dimmed) > 0.9).mean() > 0.8
    screened = np.full_like(image, 90)
    np.testing.assert_array_equal(correlations(image, screened), 0)
    assert (correlations(image, np.roll(image, 60, axis=1)) >= MIN_CORRELATION).mean() < 0.5


def test_what_is_left_of_a_place_in_the_dark_does_not_count():
    image = photograph("astronaut")
    dark = cv2.convertScaleAbs(image, alpha=0.02, beta=10)
    assert (correlations(image, dark) < MIN_CORRELATION).all()
