"""Learning from another network: the ranking of a list as a teacher sees it."""

from typing import Any

import tensorflow as tf

from doap_tf.losses.global_list import gather_list, scale_to_list


@tf.keras.utils.register_keras_serializable("doap_tf")
class DistillationLoss(tf.keras.losses.Loss):
    """Kullback–Leibler divergence of the student's neighbours from the teacher's.

    Each descriptor queries all the others. The softmax of the cosine similarities over a
    temperature says how near each of them is, so the two networks may differ in dimension and
    head. Under a strategy with several replicas the list is the global batch, as in `ListLoss`.

    Args:
        temperature: The smaller it is, the more the nearest neighbours count.

    Call arguments:
        y_true: The teacher's descriptors [M, T].
        y_pred: The student's descriptors [M, D].

    Returns:
        [M] divergences.

    Reference:
        Fang et al.: SEED: Self-supervised Distillation for Visual Representation. ICLR 2021.
    """

    def __init__(self, temperature: float = 0.05, name: str = "distillation_loss", **kwargs: Any):
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, not {temperature!r}.")
        super().__init__(name=name, **kwargs)
        self.temperature = temperature

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        teacher = tf.math.l2_normalize(tf.cast(y_true, tf.float32), axis=1)
        student = tf.math.l2_normalize(tf.cast(y_pred, tf.float32), axis=1)
        (teachers, students), first = gather_list(teacher, student)
        count = tf.shape(teachers)[0]
        rows = first + tf.range(tf.shape(teacher)[0])
        itself = rows[:, tf.newaxis] == tf.range(count)
        wanted = self._log_shares(teacher, teachers, itself)
        learnt = self._log_shares(student, students, itself)
        return scale_to_list(tf.reduce_sum(tf.exp(wanted) * (wanted - learnt), axis=1), count)

    def _log_shares(self, queries: tf.Tensor, rows: tf.Tensor, itself: tf.Tensor) -> tf.Tensor:
        """Logarithms [Q, N] of each query's softmax over the list, in which it does not count."""
        similarities = tf.matmul(queries, rows, transpose_b=True) / self.temperature
        # Not −∞, whose product with a share of zero is not a number.
        return tf.nn.log_softmax(tf.where(itself, -1e4, similarities), axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}
