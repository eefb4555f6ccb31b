"""A client of networks that TensorFlow Serving serves."""

from doap_tf.serving.client import DetectedFeatures, ServingClient
from doap_tf.serving.transports import ServingError

__all__ = ["DetectedFeatures", "ServingClient", "ServingError"]
