"""TensorBoard events, written by TensorFlow alone: TensorBoard itself need not be installed."""

import pathlib

import numpy as np
import tensorflow as tf

_Metadata = tf.compat.v1.SummaryMetadata


class Summaries:
    """Scalars and pictures of a run.

    Args:
        directory: Where TensorBoard looks for them; None writes nothing.
    """

    def __init__(self, directory: pathlib.Path | None):
        self._writer = (
            tf.summary.create_noop_writer()
            if directory is None
            else tf.summary.create_file_writer(str(directory))
        )

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Writes numbers by name."""
        metadata = _Metadata(
            plugin_data=_Metadata.PluginData(plugin_name="scalars"), data_class="DATA_CLASS_SCALAR"
        )
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), step, metadata)

    def image(self, name: str, picture: np.ndarray, step: int) -> None:
        """Writes a picture, uint8 [H, W] or [H, W, 3]."""
        metadata = _Metadata(
            plugin_data=_Metadata.PluginData(plugin_name="images"),
            data_class="DATA_CLASS_BLOB_SEQUENCE",
        )
        height, width = picture.shape[:2]
        content = tf.stack([str(width), str(height), encode_png(picture)])
        with self._writer.as_default():
            tf.summary.write(name, content, step, metadata)

    def flush(self) -> None:
        """Makes what was written visible to others."""
        self._writer.flush()


def encode_png(picture: np.ndarray) -> tf.Tensor:
    """Encodes uint8 [H, W] or [H, W, 3] without OpenCV."""
    return tf.io.encode_png(picture if picture.ndim == 3 else picture[..., np.newaxis])
