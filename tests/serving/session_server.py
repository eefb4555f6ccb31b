# ruff: noqa: E402
"""Serves SavedModels as TensorFlow Serving does: by the session loader, without doap_tf.

    python session_server.py FOLDER [CERTIFICATE KEY]

FOLDER holds NAME/VERSION for every model; the newest versions are served.

Speaks the server's gRPC and REST protocols on loopback. Prints its ports as JSON, then obeys lines
of standard input, answering each with one line:

    fail N     the next N predictions are refused for a passing reason
    stall N    the next N predictions are not answered before `release`
    release
    memory     answers with the resident bytes
"""

import base64
import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import ssl
import sys
import threading

sys.modules["doap_tf"] = None  # any import of it fails from here on

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code


class Model:
    """A SavedModel in a session."""

    def __init__(self, path: str):
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            graph = tf.compat.v1.saved_model.load(self._session, ["serve"], path)
        self.signatures = {
            name: signature
            for name, signature in graph.signature_def.items()
            if not name.startswith("__")
        }

    def signature(self, name: str):
        if name not in self.signatures:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"no signature {name}")
        return self.signatures[name]

    def predict(self, name: str, inputs: dict, outputs: list) -> dict:
        signature = self.signature(name)
        try:
            return self._session.run(
                {key: signature.outputs[key].name for key in outputs or signature.outputs},
                {signature.inputs[key].name: values for key, values in inputs.items()},
            )
        except (tf.errors.OpError, ValueError, KeyError) as error:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:300]) from error


class Faults:
    """Errors and stalls that the test orders."""

    def __init__(self):
        self._lock = threading.Lock()
        self._ordered = []
        self._release = threading.Event()

    def order(self, kind: str, count: int) -> None:
        with self._lock:
            self._release.clear()
            self._ordered += [kind] * count

    def release(self) -> None:
        self._release.set()

    def strike(self) -> None:
        with self._lock:
            kind = self._ordered.pop(0) if self._ordered else None
        if kind == "fail":
            raise Refused(grpc.StatusCode.UNAVAILABLE, "ordered to fail")
        if kind == "stall":
            self._release.wait(60)


def named(models: dict, name: str) -> Model:
    if name not in models:
        raise Refused(grpc.StatusCode.NOT_FOUND, f"no model {name}")
    return models[name]


class GrpcService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers real PredictRequests."""

    def __init__(self, models: dict, faults: Faults):
        self._models, self._faults = models, faults

    def Predict(self, request, context):
        response = predict_pb2.PredictResponse()
        try:
            model = named(self._models, request.model_spec.name)
            self._faults.strike()
            outputs = model.predict(
                request.model_spec.signature_name or "serving_default",
                {key: tf.make_ndarray(value) for key, value in request.inputs.items()},
                list(request.output_filter),
            )
        except Refused as refusal:
            context.abort(refusal.code, str(refusal))
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response

    def GetModelMetadata(self, request, context):
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        try:
            model = named(self._models, request.model_spec.name)
        except Refused as refusal:
            context.abort(refusal.code, str(refusal))
        table = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in model.signatures.items():
            table.signature_def[name].CopyFrom(signature)
        response.metadata["signature_def"].Pack(table)
        return response


def rest_handler(models: dict, faults: Faults) -> type:
    """The REST interface, as a class for http.server."""
    status = {
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.UNAVAILABLE: 503,
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer("/metadata", _metadata)

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(":predict", lambda model: _predict(model, faults, request))

        def log_message(self, *_):
            pass

        def _answer(self, ending: str, make) -> None:
            try:
                path = re.fullmatch(rf"/v1/models/([^/:]+)(/versions/\d+)?{ending}", self.path)
                code, answer = 200, make(named(models, path[1] if path else ""))
            except Refused as refusal:
                code, answer = status[refusal.code], {"error": str(refusal)}
            body = json.dumps(answer).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client has given up

    return Handler


def _metadata(model: Model) -> dict:
    def tensor(info) -> dict:
        sizes = [{"size": str(size.size)} for size in info.tensor_shape.dim]
        return {"dtype": tf.dtypes.as_dtype(info.dtype).name, "tensor_shape": {"dim": sizes}}

    table = {
        name: {"outputs": {key: tensor(info) for key, info in signature.outputs.items()}}
        for name, signature in model.signatures.items()
    }
    return {"metadata": {"signature_def": {"signature_def": table}}}


def _predict(model: Model, faults: Faults, request: dict) -> dict:
    faults.strike()
    signature = model.signature(request["signature_name"])
    inputs = {}
    for key, values in request["inputs"].items():
        dtype = tf.dtypes.as_dtype(signature.inputs[key].dtype)
        if dtype == tf.string:
            inputs[key] = np.array([base64.b64decode(value["b64"]) for value in values], object)
        else:
            inputs[key] = np.array(values, dtype.as_numpy_dtype)
    outputs = model.predict(request["signature_name"], inputs, [])
    lists = {key: value.tolist() for key, value in outputs.items()}
    return {"outputs": next(iter(lists.values())) if len(lists) == 1 else lists}


def serve(folder: str, certificate: str = "", key: str = "") -> None:
    """Runs until standard input ends."""
    models = {
        path.name: Model(str(max(path.iterdir(), key=lambda version: int(version.name))))
        for path in pathlib.Path(folder).iterdir()
    }
    faults = Faults()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(16),
        options=[("grpc.max_receive_message_length", 64 << 20)],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        GrpcService(models, faults), server
    )
    ports = {"grpc": server.add_insecure_port("127.0.0.1:0")}
    handler = rest_handler(models, faults)
    rest_servers = {"http": http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)}
    if certificate:
        with open(key, "rb") as key_file, open(certificate, "rb") as certificate_file:
            pair = (key_file.read(), certificate_file.read())
        ports["grpcs"] = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([pair]))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        rest_servers["https"] = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        rest_servers["https"].socket = tls.wrap_socket(
            rest_servers["https"].socket, server_side=True
        )
    for scheme, rest_server in rest_servers.items():
        ports[scheme] = rest_server.server_port
        threading.Thread(target=rest_server.serve_forever, daemon=True).start()
    server.start()
    print(json.dumps(ports), flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = "done"
        if command == "release":
            faults.release()
        elif command == "memory":
            with open("/proc/self/statm") as file:
                answer = str(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        else:
            faults.order(command, int(arguments[0]))
        print(answer, flush=True)
    server.stop(None)


if __name__ == "__main__":
    serve(*sys.argv[1:])
