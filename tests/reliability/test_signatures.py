"""Whatever arrays come in: right descriptors come out, or a clear refusal, in little memory."""

import re
import struct
import zlib

import cv2
import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf.errors import InputError
from doap_tf.export import export_saved_model
from doap_tf.networks import DescriptorNetwork
from tests.reliability.fuzzing import peak_mb, reset_peak_mb

RANDOM = np.random.default_rng(0)
PATCHES = RANDOM.integers(0, 256, [3, 32, 32, 1]).astype(np.float32)
FRAMES = np.tile(np.array([4, 0, 30, 0, 4, 30], np.float32), [1, 5, 1])


@pytest.fixture(scope="module")
def network():
    network = DescriptorNetwork(16, head="binary", width=0.05)
    network(RANDOM.integers(0, 256, [64, 32, 32, 1]).astype(np.float32), training=True)
    return network


@pytest.fixture(scope="module")
def descriptor(network):
    return doap_tf.Descriptor(network)


@pytest.fixture(scope="module")
def signatures(network, tmp_path_factory):
    folder = export_saved_model(network, tmp_path_factory.mktemp("exports") / "model")
    model = tf.saved_model.load(str(folder))
    yield model.signatures
    del model


def encoded(suffix=".png", shape=(60, 80, 3), options=()):
    return cv2.imencode(suffix, RANDOM.integers(0, 256, shape, np.uint8), options)[1].tobytes()


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (None, r"must have the shape .* not \[\]"),
        ("patches", r"must have the shape .* not \[\]"),
        (np.zeros([2, 32, 32, 3]), r"not \[2, 32, 32, 3\]"),
        (np.zeros([4, 0, 0]), "not 0 high and 0 wide"),
        (np.full([2, 32, 32], None), "not object"),
        (np.full([2, 32, 32], True), "not bool"),
        (PATCHES * [[[[1]]], [[[np.nan]]], [[[1]]]], "patch 1 holds NaN"),
        (np.full([1, 32, 32], -np.inf), "patch 0 holds NaN, infinity"),
        (PATCHES.astype(np.float64) * 1e300, r"within ±1e\+15"),
    ],
)
def test_descriptor_refuses(descriptor, patches, message):
    with pytest.raises(InputError, match=message):
        descriptor.describe(patches)


def test_descriptor_takes_empty_large_and_odd_arrays(descriptor):
    wanted = descriptor.describe(PATCHES)
    for odd in (
        PATCHES.tolist(),
        np.asfortranarray(PATCHES),
        PATCHES[::-1][::-1],
        PATCHES.astype(np.float16),
        PATCHES * np.float32(1e12),
        PATCHES.astype(np.uint64) << 40,
        tf.constant(PATCHES),
    ):
        np.testing.assert_array_equal(descriptor.describe(odd), wanted)
    for empty in (np.zeros([0, 32, 32]), np.zeros([0, 99, 99, 1], np.uint8)):
        assert descriptor.describe(empty).shape == (0, 2)
    np.testing.assert_array_equal(descriptor.describe(PATCHES, batch_size=np.int64(2)), wanted)
    many = np.broadcast_to(PATCHES[:1], [20_000, 32, 32, 1])
    before = reset_peak_mb()
    described = descriptor.describe(many)
    assert peak_mb() - before < 300
    assert (described == wanted[0]).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, 32, 31, 1], "patches must be square"),
        ([2, 32, 32, 3], "patches must have one channel"),
        ([2, 32, 32], "4"),
        ([2, 0, 0, 1], "must"),
    ],
)
def test_signatures_refuse_shapes(signatures, shape, message):
    for name, dtype in (("serving_default", tf.float32), ("describe_packed", tf.uint8)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            signatures[name](patches=tf.zeros(shape, dtype))


def test_signatures_refuse_other_types(signatures):
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        signatures["serving_default"](patches=tf.zeros([1, 32, 32, 1], tf.uint8))


def test_signatures_take_empty_large_and_spoilt_batches(signatures, descriptor):
    def described(patches):
        return signatures["serving_default"](patches=tf.constant(patches))["descriptors"].numpy()

    assert described(np.zeros([0, 32, 32, 1], np.float32)).shape == (0, 16)
    wanted = described(PATCHES)
    np.testing.assert_array_equal(np.packbits(wanted > 0, axis=1), descriptor.describe(PATCHES))
    for value in (np.nan, np.inf, 3e38):
        spoilt = PATCHES.copy()
        spoilt[1, 5, 5] = value
        np.testing.assert_array_equal(described(spoilt)[[0, 2]], wanted[[0, 2]])
    many = np.broadcast_to(PATCHES[:1], [10_000, 32, 32, 1])
    before = reset_peak_mb()
    assert (described(many) == wanted[0]).all()
    assert peak_mb() - before < 200


def bomb(suffix, side=12_000):
    """A small file that claims to be a huge image."""
    if suffix == ".png":
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(999)))]
        return b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in chunks
        )
    content = bytearray(encoded(suffix, (12, 10, 3)))
    start = re.search(rb"\xff\xc0\0\x11", content).start() + 5
    content[start : start + 4] = struct.pack(">HH", side, side)
    return bytes(content)


@pytest.mark.parametrize(
    ("images", "frames", "message"),
    [
        ([b""], FRAMES, "an image is neither"),
        ([b"no image"], FRAMES, "an image is neither"),
        ([encoded(".bmp")], FRAMES, "an image is neither"),
        ([encoded(".gif")], FRAMES, "an image is neither"),
        ([encoded()[:-30]], FRAMES, "Invalid PNG data"),
        ([bomb(".png")], FRAMES, "an image claims more"),
        ([bomb(".jpg")], FRAMES, "an image claims more"),
        ([encoded()] * 2, FRAMES, "frames must have one row"),
        ([encoded()], np.tile(FRAMES, [2, 1, 1]), "frames must have one row"),
    ],
)
def test_images_are_refused(signatures, images, frames, message):
    before = reset_peak_mb()
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        signatures["describe_image"](images=tf.constant(images), frames=tf.constant(frames))
    assert peak_mb() - before < 200


def test_images_without_frames_and_frames_without_sense(signatures):
    def described(images, frames):
        return signatures["describe_image"](
            images=tf.constant(images, tf.string, [len(images)]),
            frames=tf.constant(frames, tf.float32),
        )["packed"].numpy()

    assert described([], np.zeros([0, 4, 6])).shape == (0, 4, 2)
    assert described([encoded()], np.zeros([1, 0, 6])).shape == (1, 0, 2)
    image = encoded(".jpg")
    wanted = described([image], FRAMES)
    spoilt = FRAMES.copy()
    spoilt[0, 1] = np.nan
    spoilt[0, 2] = 1e30
    spoilt[0, 3] = 0
    got = described([image], spoilt)
    np.testing.assert_array_equal(got[0, [0, 4]], wanted[0, [0, 4]])
    assert not got[0, 1:4].any()
