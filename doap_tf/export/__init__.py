"""Exporting networks: SavedModels for TensorFlow Serving, .tflite files for phones, ONNX."""

from doap_tf.export.dense_tflite import convert_dense_to_tflite
from doap_tf.export.keypoint_tflite import convert_keypoints_to_tflite
from doap_tf.export.onnx import convert_to_onnx
from doap_tf.export.saved_model import export_saved_model
from doap_tf.export.tflite import (
    PRECISIONS,
    calibration_patches,
    convert_to_tflite,
    export_tflite,
)

__all__ = [
    "PRECISIONS",
    "calibration_patches",
    "convert_dense_to_tflite",
    "convert_keypoints_to_tflite",
    "convert_to_onnx",
    "convert_to_tflite",
    "export_saved_model",
    "export_tflite",
]
