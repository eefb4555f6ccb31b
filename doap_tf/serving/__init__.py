"""A client of networks that TensorFlow Serving serves."""

from doap_tf.serving.client import ServingClient
from doap_tf.serving.transports import ServingError

__all__ = ["ServingClient", "ServingError"]
