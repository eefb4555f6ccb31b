"""Exporting networks: SavedModels for TensorFlow Serving, .tflite files for phones, ONNX."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
