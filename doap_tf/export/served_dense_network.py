"""The signatures of a SavedModel that reads whole images."""

from collections.abc import Callable

import tensorflow as tf

from doap_tf.export.graph_extractor import graph_extractor
from doap_tf.export.served_images import (
    MOST_PIXELS,
    decode_image,
    detect_in_batch,
    grey_values,
    traced,
)
from doap_tf.networks import DenseNetwork


class ServedDenseNetwork:
    """The signatures of one dense network, which give what `DenseExtractor` gives in float32.

    Both are batch-major, so that a server may join requests.

    Args:
        network: A built network.
    """

    def __init__(self, network: DenseNetwork):
        self.network = network
        # Traced once for both.
        self._extract = tf.function(
            graph_extractor(network).extract,
            input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32)],
            autograph=False,
        )

    def serving_default(self, images: tf.Tensor, max_keypoints: tf.Tensor) -> dict[str, tf.Tensor]:
        """Finds the strongest keypoints of each of B images of one size and describes them.

        Images are grey (one channel) or RGB (three) and have up to 2²⁴ pixels. Outputs are those of
        `detect_and_describe`.
        """
        height, width, channels = tf.unstack(tf.shape(images, tf.int64)[1:], 3)
        checks = [
            tf.debugging.assert_equal(
                (channels == 1) | (channels == 3), True, "images must have one channel or three."
            ),
            tf.debugging.assert_positive(height * width, "images must not be empty."),
            tf.debugging.assert_less_equal(
                height * width,
                tf.constant(MOST_PIXELS, tf.int64),
                f"an image has more than {MOST_PIXELS} pixels; send a smaller one.",
            ),
        ]
        with tf.control_dependencies(checks):
            images = tf.identity(images)
        return self._outputs(
            images,
            max_keypoints,
            lambda image: grey_values(tf.broadcast_to(image, [height, width, 3])),
        )

    def detect_and_describe(
        self, images: tf.Tensor, max_keypoints: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Finds the strongest keypoints of each of B images and describes them.

        Images are JPEG or PNG files of up to 2²⁴ pixels; their EXIF orientation is not applied.
        Keypoints are x, y (centres at integers, x right, y down), size (twice the radius) and angle
        in degrees (0: they stand upright), as those of OpenCV, the strongest first. Image i has
        `counts[i]` of them, at most `max_keypoints[i]`; further rows, up to the largest count, are
        zeros.
        """
        return self._outputs(images, max_keypoints, lambda image: decode_image(image, MOST_PIXELS))

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """All signatures by name, traced."""
        max_keypoints = tf.TensorSpec([None], tf.int32, "max_keypoints")
        specs: dict[Callable, list[tf.TensorSpec]] = {
            self.serving_default: [
                tf.TensorSpec([None, None, None, None], tf.uint8, "images"),
                max_keypoints,
            ],
            self.detect_and_describe: [tf.TensorSpec([None], tf.string, "images"), max_keypoints],
        }
        return traced(specs)

    def _outputs(
        self,
        images: tf.Tensor,
        max_keypoints: tf.Tensor,
        grey: Callable[[tf.Tensor], tf.Tensor],
    ) -> dict[str, tf.Tensor]:
        def detect(image: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
            (x, y, radius, score), descriptors = self._extract(grey(image), count)
            keypoints = tf.stack([x, y, 2.0 * radius, tf.zeros_like(x), score], axis=1)
            return tf.concat([keypoints, descriptors], axis=1)

        binary = self.network.head == "binary"
        return detect_in_batch(images, max_keypoints, detect, self.network.output_dim, binary)
