"""The two ways to reach a TensorFlow Serving server, gRPC and REST, behind one interface."""

import abc
import base64
import contextlib
import http.client
import json
import pathlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from doap_tf.errors import InputError

# Most characters of a number in JSON, with its comma and brackets.
_JSON_INTEGER = 6
_JSON_FLOAT = 28
_REMEDY = "; ask for less or raise max_message_bytes."
_TRANSIENT_STATUS = (429, 502, 503, 504)  # too many requests, or a server that cannot be reached


class ServingError(RuntimeError):
    """A request that the server did not answer.

    Attributes:
        retryable: Whether the same request may succeed later.
    """

    def __init__(self, message: str, retryable: bool):
        super().__init__(message)
        self.retryable = retryable


class Endpoint(NamedTuple):
    """Address of a served model and how to trust its server; see `ServingClient`."""

    address: str
    model: str
    version: int | None
    max_message_bytes: int
    root_certificates: pathlib.Path | None


class Transport(abc.ABC):
    """Carries requests to one model; raises ServingErrors."""

    @abc.abstractmethod
    def size_of(self, values: np.ndarray) -> int:
        """Returns an upper bound for the bytes that values take in a message."""

    @abc.abstractmethod
    def predict(
        self, signature: str, inputs: dict[str, np.ndarray], outputs: Sequence[str], timeout: float
    ) -> dict[str, np.ndarray]:
        """Calls a signature; returns the named outputs."""

    @abc.abstractmethod
    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
        """Returns the last dimension of every output of every signature."""

    def close(self) -> None:  # noqa: B027, REST has nothing to close
        """Closes all connections."""


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
            f"{endpoint.address!r} is not the address of a server: expected grpc://host:8500 or "
            "http://host:8501, or with TLS grpcs:// or https://."
        )
    return transports[url.scheme](endpoint)


class GrpcTransport(Transport):
    """Sends the server's own messages."""

    def __init__(self, endpoint: Endpoint):
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise InputError(
                "gRPC needs another package: pip install tensorflow-serving-api; or use REST."
            ) from error
        self._endpoint = endpoint
        url = urlsplit(endpoint.address)
        options = [
            ("grpc.max_send_message_length", endpoint.max_message_bytes),
            ("grpc.max_receive_message_length", endpoint.max_message_bytes),
        ]
        if url.scheme == "grpcs":
            path = endpoint.root_certificates
            try:
                roots = None if path is None else pathlib.Path(path).read_bytes()
            except OSError as error:
                raise _no_certificates(path, error) from error
            credentials = grpc.ssl_channel_credentials(roots)
            self._channel = grpc.secure_channel(url.netloc, credentials, options)
        else:
            self._channel = grpc.insecure_channel(url.netloc, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def size_of(self, values: np.ndarray) -> int:
        return sum(map(len, values)) if values.dtype == object else values.nbytes

    def predict(
        self, signature: str, inputs: dict[str, np.ndarray], outputs: Sequence[str], timeout: float
    ) -> dict[str, np.ndarray]:
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest(output_filter=outputs)
        request.model_spec.signature_name = signature
        for name, values in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
        response = self._call(self._stub.Predict, request, timeout)
        return {name: tf.make_ndarray(response.outputs[name]) for name in outputs}

    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
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
            transient = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            remedy = _REMEDY if "larger than max" in (error.details() or "") else ""
            raise ServingError(
                f"{self._endpoint.address}: {code.name}, {error.details()}{remedy}",
                code in transient,
            ) from error


class RestTransport(Transport):
    """Sends JSON, for networks that allow nothing else; several times the bytes of gRPC."""

    def __init__(self, endpoint: Endpoint):
        self._limit = endpoint.max_message_bytes
        version = "" if endpoint.version is None else f"/versions/{endpoint.version}"
        self._url = f"{endpoint.address.rstrip('/')}/v1/models/{endpoint.model}{version}"
        self._tls = None
        if urlsplit(endpoint.address).scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=endpoint.root_certificates)
            except OSError as error:  # no such file, or none of certificates
                raise _no_certificates(endpoint.root_certificates, error) from error

    def size_of(self, values: np.ndarray) -> int:
        if values.dtype == object:
            return 2 * sum(map(len, values))  # base64
        return values.size * (_JSON_INTEGER if values.dtype == np.uint8 else _JSON_FLOAT)

    def predict(
        self, signature: str, inputs: dict[str, np.ndarray], outputs: Sequence[str], timeout: float
    ) -> dict[str, np.ndarray]:
        request = {
            "signature_name": signature,
            "inputs": {name: _to_json(values) for name, values in inputs.items()},
        }
        body = json.dumps(request, separators=(",", ":")).encode()
        answer = self._call(":predict", timeout, body)
        with self._expected():
            # The server omits the name of a signature's only output.
            found = answer["outputs"]
            named = found if isinstance(found, dict) else {outputs[0]: found}
            return {name: np.asarray(named[name]) for name in outputs}

    def signatures(self, timeout: float) -> dict[str, dict[str, int]]:
        answer = self._call("/metadata", timeout)
        with self._expected():
            definitions = answer["metadata"]["signature_def"]["signature_def"]
            return {
                signature: {
                    name: int(tensor["tensor_shape"]["dim"][-1]["size"])
                    for name, tensor in definition["outputs"].items()
                    if tensor["tensor_shape"].get("dim")
                }
                for signature, definition in definitions.items()
            }

    @contextlib.contextmanager
    def _expected(self) -> Iterator[None]:
        """Refuses an answer that is built in another way."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ServingError(
                f"{self._url}: the answer is not that of TensorFlow Serving ({error!r}).", False
            ) from error

    def _call(self, path: str, timeout: float, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, body)
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self._tls) as response:
                answer = response.read(self._limit + 1)
        except urllib.error.HTTPError as error:
            text = error.read(1000).decode(errors="replace")
            raise ServingError(
                f"{self._url}: status {error.code}, {text}", error.code in _TRANSIENT_STATUS
            ) from error
        except (OSError, http.client.HTTPException) as error:  # timeouts are OSErrors
            transient = not isinstance(getattr(error, "reason", error), ssl.SSLError)
            raise ServingError(f"{self._url}: {error}", transient) from error
        if len(answer) > self._limit:
            raise ServingError(
                f"{self._url}: the answer exceeds {self._limit} bytes{_REMEDY}", False
            )
        try:
            return json.loads(answer)
        except ValueError as error:
            raise ServingError(f"{self._url}: the answer is not JSON ({error}).", False) from error


def _no_certificates(path: pathlib.Path | None, error: OSError) -> InputError:
    return InputError(f"root_certificates {path} cannot be read: {error.strerror or error}.")


def _to_json(values: np.ndarray) -> list:
    if values.dtype == object:
        return [{"b64": base64.b64encode(value).decode()} for value in values]
    return values.tolist()
