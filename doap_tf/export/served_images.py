"""Parts of signatures that take images: decoding, and detection in one image after the other."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from doap_tf.networks.descriptor_network import pack_bits

#: Of an image in which keypoints are detected: what that takes a server is bounded.
MOST_PIXELS = 2**24
_MOST_KEYPOINTS = 2**16
# As in doap_tf.readers.images: a header must not make a server allocate gigabytes.
_SMALL_IMAGE = 2**24
_MOST_PIXELS_A_BYTE = 1000


def traced(
    specs: Mapping[Callable, Sequence[tf.TensorSpec]],
) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """Traces methods, each with its inputs; returns the signatures by the methods' names."""
    return {
        method.__name__: tf.function(
            method, input_signature=spec, autograph=False
        ).get_concrete_function()
        for method, spec in specs.items()
    }


def detect_in_batch(
    images: tf.Tensor,
    max_keypoints: tf.Tensor,
    detect: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    dimension: int,
    binary: bool,
) -> dict[str, tf.Tensor]:
    """Detects and describes in each of B images.

    Args:
        images: [B, …].
        max_keypoints: int32 [B].
        detect: Gives x, y, size, angle, score and descriptor, float32 [n, 5 + D], of an image and a
            number of keypoints.
        dimension: D.
        binary: Whether to pack descriptors, too.

    Returns:
        `keypoints` [B, N, 4], `scores` [B, N], `descriptors` [B, N, D], N being the largest of
        `counts` [B]; with bits also `packed` [B, N, D / 8].
    """
    batch = tf.shape(images)[0]
    checks = [
        tf.debugging.assert_equal(
            tf.size(max_keypoints), batch, "max_keypoints must have one per image."
        ),
        tf.debugging.assert_non_negative(max_keypoints, "max_keypoints must not be negative."),
        tf.debugging.assert_less_equal(
            max_keypoints, _MOST_KEYPOINTS, f"max_keypoints must be up to {_MOST_KEYPOINTS}."
        ),
    ]
    with tf.control_dependencies(checks):
        max_keypoints = tf.identity(max_keypoints)

    def numbered(number: tf.Tensor) -> tf.Tensor:
        rows = detect(images[number], max_keypoints[number])
        numbers = tf.fill([tf.shape(rows)[0], 1], tf.cast(number, tf.float32))
        return tf.concat([numbers, rows], axis=1)

    rows = concatenate(batch, numbered, 6 + dimension)
    numbers = tf.cast(rows[:, 0], tf.int32)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, batch)
    occupied = tf.where(tf.sequence_mask(counts))
    shape = [batch, tf.reduce_max(tf.concat([counts, [0]], 0)), 5 + dimension]
    padded = tf.scatter_nd(tf.cast(occupied, tf.int32), rows[:, 1:], shape)
    outputs = {
        "keypoints": padded[..., :4],
        "scores": padded[..., 4],
        "descriptors": padded[..., 5:],
        "counts": counts,
    }
    if binary:
        packed = pack_bits(tf.reshape(padded[..., 5:], [-1, dimension]))
        outputs["packed"] = tf.reshape(packed, [*shape[:2], dimension // 8])
    return outputs


def concatenate(
    count: tf.Tensor, rows_of: Callable[[tf.Tensor], tf.Tensor], dimension: int
) -> tf.Tensor:
    """Concatenates rows_of(0) … rows_of(count − 1), float32 [n, dimension], computed in turn."""
    rows = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, dimension])
    _, rows = tf.while_loop(
        lambda number, _: number < count,
        lambda number, rows: (number + 1, rows.write(number, rows_of(number))),
        (0, rows),
        parallel_iterations=1,
    )
    return tf.ensure_shape(rows.concat(), [None, dimension])


def decode_image(image: tf.Tensor, most_pixels: int | None = None) -> tf.Tensor:
    """Grey values of an encoded image, float32 [H, W], as OpenCV decodes them."""
    if most_pixels is None:
        most = tf.maximum(_SMALL_IMAGE, _MOST_PIXELS_A_BYTE * tf.strings.length(image))
        message = "an image claims more pixels than it can hold."
    else:
        most = tf.constant(most_pixels)
        message = f"an image has more than {most_pixels} pixels; send a smaller one."
    check = tf.debugging.assert_less_equal(_claimed_pixels(image), tf.cast(most, tf.int64), message)
    with tf.control_dependencies([check]):
        colors = tf.cond(
            tf.io.is_jpeg(image),
            lambda: tf.io.decode_jpeg(image, 3, dct_method="INTEGER_ACCURATE"),
            lambda: tf.io.decode_png(image, 3),
        )
    return grey_values(colors)


def grey_values(colors: tf.Tensor) -> tf.Tensor:
    """Grey values float32 [H, W] of RGB, uint8 [H, W, 3], weighted and rounded as OpenCV does."""
    grey = tf.tensordot(tf.cast(colors, tf.float32), [0.299, 0.587, 0.114], axes=1)
    return tf.ensure_shape(tf.round(grey), [None, None])


def _claimed_pixels(image: tf.Tensor) -> tf.Tensor:
    """Width times height in the header of a JPEG or PNG file, int64; others are refused."""
    header = tf.strings.join([tf.strings.substr(image, 0, 24), "\0" * 24])
    is_jpeg, is_png = tf.io.is_jpeg(image), tf.equal(tf.strings.substr(header, 1, 3), "PNG")
    check = tf.debugging.assert_equal(is_jpeg | is_png, True, "an image is neither JPEG nor PNG.")
    with tf.control_dependencies([check]):
        header = tf.identity(header)
    sides = tf.cond(
        is_jpeg,
        lambda: tf.io.extract_jpeg_shape(image)[:2],
        lambda: tf.io.decode_raw(tf.strings.substr(header, 16, 8), tf.int32, False),
    )
    return tf.reduce_prod(tf.cast(sides, tf.int64))
