"""Differentiable distances of descriptors, as functions of their inner product.

The exact ones, in NumPy, are in `doap_tf.metrics.distances`.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from doap_tf.errors import check_choice

DISTANCES = ("euclidean", "squared", "hamming")

# Identical patches occur in real data, where the slope of the root is infinite. In float32 an inner
# product near 1 cannot resolve distances below 3e-4, so little is lost.
_SMALLEST = 1e-3


@dataclasses.dataclass(frozen=True)
class Distance:
    """A distance D(s) of the inner product s of two descriptors, with values in [0, largest]."""

    name: str
    dimension: int

    def __post_init__(self) -> None:
        check_choice("distance", self.name, DISTANCES)

    @property
    def largest(self) -> float:
        """The largest distance: 2, its square, or the number of bits."""
        return {"euclidean": 2.0, "squared": 4.0, "hamming": float(self.dimension)}[self.name]

    def of(self, products: tf.Tensor) -> tf.Tensor:
        """D: √(2 − 2s) or 2 − 2s of unit vectors, or (bits − s) / 2 of vectors of −1 and 1."""

        @tf.custom_gradient
        def measured(products: tf.Tensor) -> tuple[tf.Tensor, Callable]:
            if self.name == "hamming":
                distances = tf.clip_by_value((self.dimension - products) / 2.0, 0.0, self.largest)
            else:
                distances = tf.clip_by_value(2.0 - 2.0 * products, 0.0, 4.0)
            if self.name == "euclidean":
                distances = tf.sqrt(distances)
            return distances, lambda upstream: upstream * self.slope(distances)

        return measured(products)

    def slope(self, distances: tf.Tensor) -> tf.Tensor:
        """dD/ds at the given distances, finite at zero."""
        if self.name == "euclidean":
            return -1.0 / tf.maximum(distances, _SMALLEST)
        return tf.constant(-2.0 if self.name == "squared" else -0.5, distances.dtype)
