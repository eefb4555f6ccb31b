"""Random tensors that are the same with and without XLA."""

import math

import tensorflow as tf

_POOL = 512  # numbers per row that are drawn at once; XLA takes seconds to compile each drawing


def split_seed(seed: tf.Tensor, count: int) -> list[tf.Tensor]:
    """Returns seeds int32 [2] made of a seed; `tf.random.split` gives others under XLA."""
    return tf.unstack(_bits([count, 2], seed, tf.int32))


class RandomTensors:
    """A source of random float32 tensors for a batch, all determined by a seed.

    TensorFlow's own floats differ under XLA; its bits, which these are made of, do not.

    Args:
        seed: int32 [2].
        batch: B, the first dimension of all tensors.
    """

    def __init__(self, seed: tf.Tensor, batch: int):
        self._seed, self._batch = seed, batch
        self._pool, self._used = self._draw(_POOL), 0

    def uniform(self, low: float, high: float, *shape: int) -> tf.Tensor:
        """Returns numbers in [low, high), `[B, *shape]`."""
        count = math.prod(shape)
        if count > _POOL:
            values = self._draw(count)
        else:
            if self._used + count > _POOL:
                self._pool, self._used = self._draw(_POOL), 0
            values = self._pool[:, self._used : self._used + count]
            self._used += count
        return low + (high - low) * tf.reshape(values, [self._batch, *shape])

    def log_uniform(self, low: float, high: float, *shape: int) -> tf.Tensor:
        """Returns numbers whose logarithms are uniform, `[B, *shape]`."""
        return tf.exp(self.uniform(math.log(low), math.log(high), *shape))

    def normal(self, *shape: int) -> tf.Tensor:
        """Returns normally distributed numbers, `[B, *shape]`."""
        one, two = tf.unstack(self.uniform(0, 1, 2, *shape), axis=1)
        return tf.sqrt(-2 * tf.math.log(1 - one)) * tf.cos(2 * math.pi * two)

    def signs(self, negative: float, *shape: int) -> tf.Tensor:
        """Returns −1 with the probability `negative`, else 1, `[B, *shape]`."""
        return tf.where(self.chance(negative, *shape), -1.0, 1.0)

    def chance(self, probability: float, *shape: int) -> tf.Tensor:
        """Returns True with a probability, bool `[B, *shape]`."""
        return self.uniform(0, 1, *shape) < probability

    def _draw(self, count: int) -> tf.Tensor:
        """Returns numbers in [0, 1), float32 [B, count]."""
        self._seed, seed = split_seed(self._seed, 2)
        bits = _bits([self._batch, count], seed, tf.uint32)
        bits = tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32))
        return 2**-24 * tf.cast(tf.cast(bits, tf.int32), tf.float32)


def _bits(shape: list[int], seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.random.stateless_uniform(
        shape, seed, minval=None, maxval=None, dtype=dtype, alg="philox"
    )
