import cv2
import numpy as np
import pytest
import scipy.ndimage

from doap_tf.errors import InputError
from doap_tf.features.cutting import Pyramid, cut_patches
from doap_tf.features.frames import compose, similarity_frames
from tests.features.pictures import photograph


def reference_patches(image, frames, size, magnification, margin=400):
    """The stated prefilter and bilinear sampling, patch by patch, in float64 at full resolution."""
    extended = np.pad(image.astype(np.float64), margin, mode="edge")
    centres = ((2 * np.arange(size) + 1) / size - 1) * magnification
    grid = np.stack([*np.meshgrid(centres, centres), np.ones((size, size))], axis=-1)
    smoothed, patches = {}, []
    for frame in frames:
        step = np.linalg.svd(frame[:, :2])[1][0] * 2 * magnification / size
        level = max(0, int(np.ceil(2 * np.log2(step))))
        if level not in smoothed:
            sigma = 0.6 * np.sqrt(2**level - 1)
            smoothed[level] = scipy.ndimage.gaussian_filter(extended, sigma, truncate=6)
        x, y = np.moveaxis(grid @ frame.T, -1, 0) + margin
        patches.append(scipy.ndimage.map_coordinates(smoothed[level], [y, x], order=1))
    return np.stack(patches)


def random_frames(count, shape, radii, rng):
    radius = np.exp(rng.uniform(*np.log(radii), count))
    x, y = rng.uniform(0, shape[1], count), rng.uniform(0, shape[0], count)
    shapes = np.zeros((count, 2, 3))
    shapes[:, :, :2] = np.eye(2) + rng.normal(0, 0.15, (count, 2, 2))
    return compose(similarity_frames(x, y, radius, rng.uniform(0, 7, count)), shapes)


@pytest.mark.parametrize("name", ["astronaut", "page", "noise"])
def test_patches_agree_with_the_slow_reference(name):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (301, 402), np.uint8) if name == "noise" else photograph(name)
    frames = random_frames(60, image.shape, (1, 25), rng)
    error = np.abs(cut_patches(image, frames, 32, 5.0) - reference_patches(image, frames, 32, 5.0))
    assert error.mean() <= 0.5
    assert np.percentile(error, 99) <= 2
    assert error.max() <= 8


@pytest.mark.parametrize("size", [450, 256, 180, 128, 100])
def test_a_zone_plate_does_not_alias(size):
    side = 512
    centre = (side - 1) / 2
    y, x = np.mgrid[:side, :side] - centre
    # The local frequency is radius/side cycles a pixel: a half, the most there is, at the edge.
    plate = np.rint(127.5 + 127.5 * np.cos(np.pi * (x**2 + y**2) / side)).astype(np.uint8)
    patch = cut_patches(plate, similarity_frames(centre, centre, side / 2), size, 1.0)[0]
    offsets = ((2 * np.arange(size) + 1) / size - 1) * side / 2
    radius = np.hypot(*np.meshgrid(offsets, offsets))
    frequency = radius / side * side / size  # in cycles a patch pixel

    def amplitude(values, low, high):
        ring = (frequency >= low) & (frequency < high) & (radius < side / 2)
        return np.sqrt(2) * values[ring].std() / 127.5

    top = min(0.5 * side / size, 1.0)
    bare = cv2.resize(plate, (size, size), interpolation=cv2.INTER_LINEAR).astype(float)
    assert amplitude(patch.astype(float), 0.5, top) < 0.2
    assert amplitude(patch.astype(float), max(0.5, 0.8 * top), top) < 0.17
    assert amplitude(bare, 0.5, top) > 0.2  # what the test is there to notice
    assert amplitude(patch.astype(float), 0.05, 0.15) > 0.8 * amplitude(bare, 0.05, 0.15)


def test_a_step_of_one_pixel_gives_the_pixels_themselves():
    image = photograph()
    patch = cut_patches(image, similarity_frames(100.5, 200.5, 16), 32, 1.0)[0]
    np.testing.assert_array_equal(patch, image[185:217, 85:117])


def test_patches_cover_the_square_and_turn_with_the_frame():
    x, y = np.meshgrid(np.arange(200, dtype=np.float32), np.arange(150, dtype=np.float32))
    frame = compose(
        similarity_frames(90.3, 70.8, 3.0, 0.7), np.array([[1.2, 0.3, 0], [-0.1, 0.8, 0]])
    )
    centres = ((2 * np.arange(16) + 1) / 16 - 1) * 5.0
    grid = np.stack([*np.meshgrid(centres, centres), np.ones((16, 16))], axis=-1)
    expected = grid @ frame[0].T
    # A ramp stays itself under smoothing; cv2.remap counts in 1/32 of a pixel.
    np.testing.assert_allclose(cut_patches(x, frame, 16, 5.0)[0], expected[..., 0], atol=0.04)
    np.testing.assert_allclose(cut_patches(y, frame, 16, 5.0)[0], expected[..., 1], atol=0.04)


@pytest.mark.parametrize("radius", [2.0, 40.0, 1e5])
def test_outside_the_border_is_repeated(radius):
    image = np.full((60, 80), 50, np.uint8)
    image[:, 40:] = 200
    frames = similarity_frames([-1e6, 1e6], 30, radius)
    patches = cut_patches(image, frames, 8, 1.0)
    assert (patches[0] == 50).all() and (patches[1] == 200).all()


def test_patches_depend_neither_on_company_nor_on_threads():
    image, rng = photograph(), np.random.default_rng(1)
    frames = random_frames(500, image.shape, (1, 20), rng)
    pyramid = Pyramid(image)
    patches = pyramid.cut(frames, 24, 5.0)
    order = rng.permutation(500)
    np.testing.assert_array_equal(pyramid.cut(frames[order], 24, 5.0), patches[order])
    np.testing.assert_array_equal(cut_patches(image, frames[7:9], 24, 5.0), patches[7:9])
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        np.testing.assert_array_equal(cut_patches(image, frames, 24, 5.0), patches)
    finally:
        cv2.setNumThreads(threads)


def test_the_longer_axis_decides_the_level():
    circle, ellipse = similarity_frames(0, 0, 8.0), np.array([[[8.0, 0, 0], [0, 1, 0]]])
    image = photograph()
    sigma = 0.6 * np.sqrt(2**4 - 1)  # steps of 8 · 2 / 4 = 2^(4 / 2) pixels
    smoothed = cv2.GaussianBlur(image.astype(np.float32), (0, 0), sigma)
    for frame in (circle, ellipse):
        frame[:, :, 2] = 200
        patch = cut_patches(image.astype(np.float32), frame, 4, 1.0)
        np.testing.assert_allclose(patch, cut_patches_without_prefilter(smoothed, frame), atol=1)


def cut_patches_without_prefilter(image, frames):
    centres = (2 * np.arange(4) + 1) / 4 - 1
    grid = np.stack([*np.meshgrid(centres, centres), np.ones((4, 4))], axis=-1)
    x, y = np.moveaxis(grid @ frames[0].T, -1, 0)
    return scipy.ndimage.map_coordinates(image, [y, x], order=1)[None]


def test_a_mirrored_view_of_an_array_is_an_image_too():
    image, frames = photograph()[:, ::-1], similarity_frames(100, 120, 9)
    np.testing.assert_array_equal(
        cut_patches(image, frames, 16, 2.0), cut_patches(image.copy(), frames, 16, 2.0)
    )


def test_no_frames_give_no_patches():
    assert cut_patches(photograph(), np.zeros((0, 2, 3)), 32, 5.0).shape == (0, 32, 32)


def test_large_patches_are_cut_as_well():
    patch = cut_patches(photograph(), similarity_frames(256, 256, 200), 400, 1.0)
    assert patch.shape == (1, 400, 400)


@pytest.mark.parametrize(
    ("image", "frames", "size", "message"),
    [
        (np.zeros((9, 9, 2), np.uint8), np.zeros((1, 2, 3)), 8, r"\[9, 9, 2\]"),
        (np.zeros((9, 9), np.uint16), np.zeros((1, 2, 3)), 8, "uint16"),
        (np.zeros((0, 9), np.uint8), np.zeros((1, 2, 3)), 8, r"shape \(0, 9\)"),
        (np.zeros((9, 9), np.uint8), np.zeros((1, 3, 3)), 8, "frames have shape"),
        (np.zeros((9, 9), np.uint8), np.full((1, 2, 3), np.inf), 8, "frame 0"),
        (np.zeros((9, 9), np.uint8), np.zeros((1, 2, 3)), 0, "size 0"),
    ],
)
def test_bad_input_is_named(image, frames, size, message):
    with pytest.raises(InputError, match=message):
        cut_patches(image, frames, size, 5.0)
