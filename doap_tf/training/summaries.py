"""TensorBoard events, written by TensorFlow alone: TensorBoard need not be installed."""

import pathlib

import numpy as np
import tensorflow as tf

from doap_tf.errors import writing_to

_Metadata = tf.compat.v1.SummaryMetadata


class Summaries:
    """Scalars and pictures of a run.

    Args:
        directory: Where TensorBoard finds them; None writes nothing.
    """

    def __init__(self, directory: pathlib.Path | None):
        self._directory = directory or "TensorBoard's events"
        with writing_to(self._directory, tf.errors.OpError):
            self._writer = (
                tf.summary.create_noop_writer()
                if directory is None
                else tf.summary.create_file_writer(str(directory))
            )

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Writes numbers by name."""
        for name, value in values.items():
            self._write("scalars", "SCALAR", name, tf.constant(value, tf.float32), step)

    def image(self, name: str, picture: np.ndarray, step: int) -> None:
        """Writes a picture, uint8 [H, W] or BGR [H, W, 3]."""
        # Imported here because runs without pictures need no Matplotlib.
        from doap_tf.drawing.pictures import encode_png

        height, width = picture.shape[:2]
        content = tf.constant([str(width), str(height), encode_png(picture)])
        self._write("images", "BLOB_SEQUENCE", name, content, step)

    def flush(self) -> None:
        """Makes what was written visible to others."""
        with writing_to(self._directory, tf.errors.OpError):
            self._writer.flush()

    def _write(self, plugin: str, kind: str, name: str, content: tf.Tensor, step: int) -> None:
        metadata = _Metadata(
            plugin_data=_Metadata.PluginData(plugin_name=plugin), data_class=f"DATA_CLASS_{kind}"
        )
        with writing_to(self._directory, tf.errors.OpError), self._writer.as_default():
            tf.summary.write(name, content, step, metadata)
