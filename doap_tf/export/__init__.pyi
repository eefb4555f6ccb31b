from .dense_onnx import convert_dense_to_onnx as convert_dense_to_onnx
from .dense_tflite import convert_dense_to_tflite as convert_dense_to_tflite
from .keypoint_tflite import convert_keypoints_to_tflite as convert_keypoints_to_tflite
from .phone_extraction import convert_extraction_to_tflite as convert_extraction_to_tflite
from .onnx import convert_to_onnx as convert_to_onnx
from .saved_model import export_saved_model as export_saved_model
from .tflite import (
    PRECISIONS as PRECISIONS,
    calibration_patches as calibration_patches,
    convert_to_tflite as convert_to_tflite,
    export_tflite as export_tflite,
)
