"""The version, alone in a module so that packaging can read it without TensorFlow."""

__version__ = "0.2.0"
