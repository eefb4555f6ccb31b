"""One step of training a context network: patches beside the maps."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from doap_tf.networks import ContextNetwork
from doap_tf.training.dense_step import DenseStep
from doap_tf.training.dense_validation import DenseValidation
from doap_tf.training.device_views import PointPairs
from doap_tf.training.point_frames import cut_patches

_KEYPOINT_SIDE = 48.0  # pixels of the patch at a keypoint in validation


class ContextStep(DenseStep):
    """A `DenseStep` whose descriptors have halves of maps and of patches.

    Besides whole descriptors each half is ranked by itself, so that neither leans on the other.
    Scores are trained with the maps' half.
    """

    network: ContextNetwork

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._cut: Callable = cut_patches
        self._describe_patches: Callable = self.network.describe_patches
        if self._config.xla:
            self._cut = tf.function(cut_patches, jit_compile=True)
        if self._config.xla and self._replicas == 1:
            # Without XLA the gradients of depthwise convolutions take longer than all the rest.
            self._describe_patches = tf.function(self._describe_patches, jit_compile=True)

    def _match(
        self, features: Sequence[tf.Tensor], pairs: PointPairs
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        views = tf.concat([pairs.view1, pairs.view2], 0)
        points = tf.concat([pairs.points1, pairs.points2], 0)
        frames = tf.concat([pairs.frames1, pairs.frames2], 0)
        patches = self._cut(views, points, frames, self.network.patch_size)
        of_maps = self.network.describe(features, points, training=True)
        of_patches = tf.reshape(self._describe_patches(patches, training=True), of_maps.shape)
        joined, maps, patch = (
            self._matching_loss(rows, pairs)
            for rows in (self.network.join(of_maps, of_patches), of_maps, of_patches)
        )
        loss = joined + self._config.map_weight * maps + self._config.patch_weight * patch
        return loss, {"descriptor_loss": joined, "map_loss": maps, "patch_loss": patch}


class ContextValidation(DenseValidation):
    """A `DenseValidation` of context networks; patches at their keypoints stand upright."""

    def _describe(
        self,
        network: Any,
        views: tf.Tensor,
        features: Sequence[tf.Tensor],
        points: tf.Tensor,
        frames: tf.Tensor | None,
    ) -> tf.Tensor:
        if frames is None:
            frames = tf.broadcast_to([_KEYPOINT_SIDE, 0.0], points.shape)
        of_maps = network.describe(features, points)
        of_patches = network.describe_patches(
            cut_patches(views, points, frames, network.patch_size)
        )
        return network.join(of_maps, tf.reshape(of_patches, of_maps.shape))
