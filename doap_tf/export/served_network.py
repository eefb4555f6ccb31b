"""The signatures of a SavedModel: a network with its preprocessing in the graph."""

from collections.abc import Callable

import tensorflow as tf

from doap_tf.export.graph_cutting import cut_patches
from doap_tf.networks import DescriptorNetwork, pack_bits
from doap_tf.preprocessing import resize_patches

# Patches that run through the network at a time: bounds a server's memory whatever a request
# holds (with a spatial transformer a patch takes 0.7 MB) and costs no time.
_CHUNK = 256
# As in doap_tf.readers.images: a header must not make a server allocate gigabytes.
_SMALL_IMAGE = 2**24
_MOST_PIXELS_A_BYTE = 1000
_FARTHEST = 1e6  # pixels; a frame with larger numbers is not one of an image


class ServedNetwork:
    """The signatures of one network.

    All are batch-major, so that a server may join requests, and rows are independent: a patch that
    holds NaN affects only its own row.

    Args:
        network: A built network.
    """

    def __init__(self, network: DescriptorNetwork):
        self.network = network
        size = network.input_size
        # Traced once and called by every signature: smaller and faster to write and load.
        self._infer = tf.function(
            lambda patches: network(patches, training=False),
            input_signature=[tf.TensorSpec([None, size, size, 1], tf.float32)],
        )

    def serving_default(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes patches of any square size, grey values of any scale."""
        return {"descriptors": self._describe(patches)}

    def describe_uint8(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes 8-bit patches of any square size; a quarter of the traffic."""
        return {"descriptors": self._describe(patches)}

    def describe_packed(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes 8-bit patches of any square size in bits, in the order of numpy.packbits."""
        return {"packed": pack_bits(self._describe(patches))}

    def describe_image(self, images: tf.Tensor, frames: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes K places of each of B images, at the magnification the model was trained for.

        Images are JPEG or PNG files; their EXIF orientation is not applied. Frames are row-major
        2×3 maps from the unit circle to pixels (centres at integers, x right, y down). Padding
        (rows of zeros) and other frames without an area give zeros.
        """
        places, dimension = tf.shape(frames)[1], self.network.output_dim
        check = tf.debugging.assert_equal(
            tf.shape(frames)[0], tf.size(images), "frames must have one row per image."
        )
        with tf.control_dependencies([check]):
            frames = tf.identity(frames)

        def describe(number: tf.Tensor) -> tf.Tensor:
            # A server that pads inputs repeats the first number: such rows have no area either.
            rows = tf.where(_has_area(frames[number]))
            patches = cut_patches(
                _decode(images[number]),
                tf.gather_nd(frames[number], rows),
                self.network.input_size,
                self.network.magnification,
            )
            return tf.scatter_nd(
                tf.cast(rows, tf.int32), self._describe(patches), [places, dimension]
            )

        descriptors = _concatenate(tf.size(images), describe, dimension)
        outputs = {"descriptors": descriptors}
        if self.network.head == "binary":
            outputs["packed"] = pack_bits(descriptors)
        return {
            name: tf.reshape(rows, [tf.size(images), places, rows.shape[1]])
            for name, rows in outputs.items()
        }

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """All signatures of this network by name, traced."""
        float32_patches = tf.TensorSpec([None, None, None, 1], tf.float32, "patches")
        uint8_patches = tf.TensorSpec([None, None, None, 1], tf.uint8, "patches")
        images = tf.TensorSpec([None], tf.string, "images")
        frames = tf.TensorSpec([None, None, 6], tf.float32, "frames")
        specs: dict[Callable, list[tf.TensorSpec]] = {
            self.serving_default: [float32_patches],
            self.describe_uint8: [uint8_patches],
            self.describe_image: [images, frames],
        }
        if self.network.head == "binary":
            specs[self.describe_packed] = [uint8_patches]
        return {
            method.__name__: tf.function(method, input_signature=spec).get_concrete_function()
            for method, spec in specs.items()
        }

    def _describe(self, patches: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(patches)
        checks = [
            tf.debugging.assert_equal(shape[1], shape[2], "patches must be square."),
            # Neither TensorFlow nor a server compares a request with the signature's last 1.
            tf.debugging.assert_equal(
                tf.size(patches), tf.reduce_prod(shape[:3]), "patches must have one channel."
            ),
        ]
        with tf.control_dependencies(checks):  # no other node must fail first
            patches = tf.identity(patches)

        def describe(number: tf.Tensor) -> tf.Tensor:
            chunk = patches[number * _CHUNK : (number + 1) * _CHUNK]
            return self._infer(resize_patches(chunk, self.network.input_size))

        return _concatenate(-(-shape[0] // _CHUNK), describe, self.network.output_dim)


def _concatenate(
    count: tf.Tensor, rows_of: Callable[[tf.Tensor], tf.Tensor], dimension: int
) -> tf.Tensor:
    """Concatenates rows_of(0) … rows_of(count − 1), float32 [n, dimension], computed in turn."""
    parts = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, dimension])
    _, parts = tf.while_loop(
        lambda number, _: number < count,
        lambda number, parts: (number + 1, parts.write(number, rows_of(number))),
        (0, parts),
        parallel_iterations=1,
    )
    return tf.ensure_shape(parts.concat(), [None, dimension])


def _has_area(frames: tf.Tensor) -> tf.Tensor:
    """Which frames [K, 6] map the circle to an ellipse in an image, bool [K]."""
    a, b, _, c, d, _ = tf.unstack(frames, axis=-1)
    sound = tf.reduce_all(tf.abs(frames) <= _FARTHEST, axis=-1)  # false for NaN
    return sound & (a * d != b * c)


def _decode(image: tf.Tensor) -> tf.Tensor:
    """Grey values of an encoded image, float32 [H, W], weighted and rounded as OpenCV does."""
    most = tf.maximum(_SMALL_IMAGE, _MOST_PIXELS_A_BYTE * tf.strings.length(image))
    check = tf.debugging.assert_less_equal(
        _claimed_pixels(image),
        tf.cast(most, tf.int64),
        "an image claims more pixels than it can hold.",
    )
    with tf.control_dependencies([check]):
        colors = tf.io.decode_image(image, channels=3, expand_animations=False)
    grey = tf.tensordot(tf.cast(colors, tf.float32), [0.299, 0.587, 0.114], axes=1)
    return tf.ensure_shape(tf.round(grey), [None, None])


def _claimed_pixels(image: tf.Tensor) -> tf.Tensor:
    """Width times height in the header of a JPEG or PNG file, int64; 0 for others."""
    header = tf.strings.join([tf.strings.substr(image, 0, 24), "\0" * 24])
    sides = tf.case(
        [
            (tf.io.is_jpeg(image), lambda: tf.io.extract_jpeg_shape(image)[:2]),
            (
                tf.equal(tf.strings.substr(header, 1, 3), "PNG"),
                lambda: tf.io.decode_raw(tf.strings.substr(header, 16, 8), tf.int32, False),
            ),
        ],
        lambda: tf.zeros([2], tf.int32),
    )
    return tf.reduce_prod(tf.cast(sides, tf.int64))
