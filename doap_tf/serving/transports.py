"""The two ways to a TensorFlow Serving server, gRPC and REST, behind one interface."""

import base64
import http.client
import json
import pathlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
import tensorflow as tf

from doap_tf.errors import InputError

# Most characters of a pixel in JSON, with its comma and brackets.
_JSON_INTEGER = 6
_JSON_FLOAT = 28
_PASSING_STATUS = (429, 502, 503, 504)  # of REST: too many requests, or a server that is away


class ServingError(RuntimeError):
    """A request that the server did not answer.

    Attributes:
        retryable: Whether the same request may succeed later.
    """

    def __init__(self, message: str, retryable: bool):
        super().__init__(message)
        self.retryable = retryable


class Endpoint(NamedTuple):
    """Where a model is served, and how to trust the server; see `ServingClient`."""

    address: str
    model: str
    version: int | None
    max_message_bytes: int
    root_certificates: pathlib.Path | None


class Transport(Protocol):
    """Carries requests to one model; raises ServingErrors."""

    def size_of(self, values: np.ndarray) -> int:
        """How many bytes these values take in a message, at most."""

    def predict(
        self,
        signature: str,
        inputs: dict[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float,
    ) -> dict[str, np.ndarray]:
        """Calls a signature and gives these of its outputs."""

    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
        """Gives the last dimension of every output of every signature."""

    def close(self) -> None:
        """Ends all connections."""


def connect(endpoint: Endpoint) -> Transport:
    """Chooses the transport by the address; sends nothing yet."""
    url = urlsplit(endpoint.address)
    transports: dict[str, Callable[[Endpoint], Transport]] = {
        "grpc": GrpcTransport,
        "grpcs": GrpcTransport,
        "http": RestTransport,
        "https": RestTransport,
    }
    if url.scheme not in transports or not url.netloc:
        raise InputError(
            f"{endpoint.address!r} is not the address of a server: wanted is grpc://host:8500 or "
            "http://host:8501, or with TLS grpcs:// or https://."
        )
    return transports[url.scheme](endpoint)


class GrpcTransport:
    """Sends the server's own messages."""

    def __init__(self, endpoint: Endpoint):
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise InputError(
                "gRPC needs tensorflow-serving-api: pip install doap_tf[serving], or use REST."
            ) from error
        self._endpoint = endpoint
        url = urlsplit(endpoint.address)
        options = [
            ("grpc.max_send_message_length", endpoint.max_message_bytes),
            ("grpc.max_receive_message_length", endpoint.max_message_bytes),
        ]
        if url.scheme == "grpcs":
            path = endpoint.root_certificates
            roots = None if path is None else pathlib.Path(path).read_bytes()
            credentials = grpc.ssl_channel_credentials(roots)
            self._channel = grpc.secure_channel(url.netloc, credentials, options)
        else:
            self._channel = grpc.insecure_channel(url.netloc, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def size_of(self, values: np.ndarray) -> int:
        """See `Transport.size_of`; values travel as they are in memory."""
        return sum(map(len, values)) if values.dtype == object else values.nbytes

    def predict(
        self,
        signature: str,
        inputs: dict[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float,
    ) -> dict[str, np.ndarray]:
        """See `Transport.predict`."""
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
        response = self._call(self._stub.Predict, request, timeout)
        return {name: tf.make_ndarray(response.outputs[name]) for name in outputs}

    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
        """See `Transport.signatures`."""
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        response = self._call(self._stub.GetModelMetadata, request, timeout)
        table = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(table)
        return {
            signature: {
                name: tensor.tensor_shape.dim[-1].size
                for name, tensor in definition.outputs.items()
                if tensor.tensor_shape.dim
            }
            for signature, definition in table.signature_def.items()
        }

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def _call(self, method: Callable, request: Any, timeout: float) -> Any:
        import grpc

        request.model_spec.name = self._endpoint.model
        if self._endpoint.version is not None:
            request.model_spec.version.value = self._endpoint.version
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            code = error.code()
            passing = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            raise ServingError(
                f"{self._endpoint.address}: {code.name}, {error.details()}", code in passing
            ) from error


class RestTransport:
    """Sends JSON, for networks that let nothing else through; several times the bytes of gRPC."""

    def __init__(self, endpoint: Endpoint):
        self._endpoint = endpoint
        version = "" if endpoint.version is None else f"/versions/{endpoint.version}"
        self._url = f"{endpoint.address.rstrip('/')}/v1/models/{endpoint.model}{version}"
        self._tls = None
        if urlsplit(endpoint.address).scheme == "https":
            self._tls = ssl.create_default_context(cafile=endpoint.root_certificates)

    def size_of(self, values: np.ndarray) -> int:
        """See `Transport.size_of`; numbers travel as text, images in base64."""
        if values.dtype == object:
            return 2 * sum(map(len, values))
        return values.size * (_JSON_INTEGER if values.dtype == np.uint8 else _JSON_FLOAT)

    def predict(
        self,
        signature: str,
        inputs: dict[str, np.ndarray],
        outputs: Sequence[str],
        timeout: float,
    ) -> dict[str, np.ndarray]:
        """See `Transport.predict`."""
        request = {
            "signature_name": signature,
            "inputs": {name: _to_json(values) for name, values in inputs.items()},
        }
        body = json.dumps(request, separators=(",", ":")).encode()
        answer = self._call(":predict", timeout, body)["outputs"]
        # The server leaves the name out where a signature has only one output.
        named = answer if isinstance(answer, dict) else {outputs[0]: answer}
        return {name: np.asarray(named[name]) for name in outputs}

    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
        """See `Transport.signatures`."""
        answer = self._call("/metadata", timeout)["metadata"]["signature_def"]["signature_def"]
        return {
            signature: {
                name: int(tensor["tensor_shape"]["dim"][-1]["size"])
                for name, tensor in definition["outputs"].items()
                if tensor["tensor_shape"].get("dim")
            }
            for signature, definition in answer.items()
        }

    def close(self) -> None:
        """Does nothing: every request has a connection of its own."""

    def _call(self, path: str, timeout: float, body: bytes | None = None) -> dict[str, Any]:
        limit = self._endpoint.max_message_bytes
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self._url + path, body), timeout=timeout, context=self._tls
            ) as response:
                answer = response.read(limit + 1)
        except urllib.error.HTTPError as error:
            text = error.read(1000).decode(errors="replace")
            raise ServingError(
                f"{self._url}: status {error.code}, {text}", error.code in _PASSING_STATUS
            ) from error
        except (OSError, http.client.HTTPException) as error:  # timeouts are OSErrors
            passing = not isinstance(getattr(error, "reason", error), ssl.SSLError)
            raise ServingError(f"{self._url}: {error}", passing) from error
        if len(answer) > limit:
            raise ServingError(f"{self._url}: the answer has more than {limit} bytes.", False)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise ServingError(f"{self._url}: the answer is not JSON ({error}).", False) from error


def _to_json(values: np.ndarray) -> list:
    if values.dtype == object:
        return [{"b64": base64.b64encode(value).decode()} for value in values]
    return values.tolist()
