import concurrent.futures
import contextlib
import http.server
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest
import skimage.data
from scipy.spatial import KDTree

import doap_tf
import doap_tf.features
import doap_tf.matching
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.errors import InputError
from doap_tf.features.cutting import cut_patches
from doap_tf.features.frames import similarity_frames
from doap_tf.serving import ServingClient, ServingError
from doap_tf.serving import client as serving_client
from tests.dense import check_features, small_model

pytest.importorskip("tensorflow_serving")

SCHEMES = ("grpc", "http")


class SessionServer:
    """The process of session_server.py."""

    def __init__(self, folder: pathlib.Path, *certificate: pathlib.Path):
        script = pathlib.Path(__file__).with_name("session_server.py")
        self.process = subprocess.Popen(
            [sys.executable, script, folder, *certificate],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        ports = json.loads(self.process.stdout.readline())
        self.addresses = {scheme: f"{scheme}://localhost:{port}" for scheme, port in ports.items()}

    def order(self, command: str) -> str:
        print(command, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> tuple[pathlib.Path, ...]:
    """A certificate for localhost that it signed itself, and its key; nothing without openssl."""
    if not shutil.which("openssl"):
        return ()
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost -keyout key.pem -out certificate.pem"
    )
    subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture(scope="session")
def server(exports, certificate):
    server = SessionServer(exports, *certificate)
    yield server
    server.close()


@pytest.fixture(scope="session")
def descriptor(networks) -> Descriptor:
    return Descriptor(networks["binary_st"])


@pytest.fixture
def client(server):
    """Makes clients, by scheme, that do not wait long."""
    with contextlib.ExitStack() as stack:

        def make(scheme: str, model: str = "binary_st", **options) -> ServingClient:
            options = {"timeout": 30.0, "backoff": 0.01, **options}
            return stack.enter_context(ServingClient(server.addresses[scheme], model, **options))

        yield make


@pytest.fixture(scope="session")
def image() -> np.ndarray:
    return skimage.data.camera()


@pytest.fixture(scope="session")
def frames() -> np.ndarray:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 512, [2, 40])
    return similarity_frames(x, y, rng.uniform(1, 20, 40), rng.uniform(-3, 3, 40))


def _png(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


def _alike(first: np.ndarray, second: np.ndarray, least: float = 0.999) -> bool:
    """Whether packed bits agree but for rounding: those of other patches would differ by half."""
    assert first.shape == second.shape
    assert first.dtype == second.dtype == np.uint8
    return not first.size or np.mean(np.unpackbits(first) == np.unpackbits(second)) >= least


@pytest.mark.parametrize("count", [0, 7, 300])
def test_patch_signatures_of_a_binary_network(client, descriptor, groups, count):
    """One request each, whatever the batch."""
    patches = np.resize(groups.patches, [count, 48, 48])[..., np.newaxis]
    expected = descriptor.describe(patches)
    predict = client("grpc", max_message_bytes=1 << 26).predict
    floats = predict("serving_default", {"patches": patches.astype(np.float32)}, ["descriptors"])
    integers = predict("describe_uint8", {"patches": patches}, ["descriptors"])
    packed = predict("describe_packed", {"patches": patches}, ["packed"])
    for found in (floats["descriptors"], integers["descriptors"]):
        assert found.shape == (count, 128)
        assert np.all(np.abs(found) == 1.0)
        assert _alike(np.packbits(found > 0, axis=1), expected)
    assert _alike(packed["packed"], expected)


@pytest.mark.parametrize("count", [0, 7, 300])
def test_patch_signatures_of_a_real_network(client, networks, groups, count):
    patches = np.resize(groups.patches, [count, 48, 48])[..., np.newaxis]
    expected = Descriptor(networks["real"]).describe(patches)
    predict = client("grpc", "real", max_message_bytes=1 << 26).predict
    for signature, batch in (
        ("serving_default", patches.astype(np.float32)),
        ("describe_uint8", patches),
    ):
        found = predict(signature, {"patches": batch}, ["descriptors"])["descriptors"]
        assert found.shape == (count, 128)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_image_signature_of_a_real_network(client, networks, image, frames):
    descriptor = Descriptor(networks["real"])
    patches = cut_patches(image.astype(np.float32), frames, 32, descriptor.magnification)
    expected = descriptor.describe(patches)
    found = client("grpc", "real").describe_image(_png(image), frames)
    assert np.sum(found * expected, axis=1).min() > 0.9999


@pytest.mark.parametrize("side", [16, 42, 100])
def test_patches_of_any_square_size_are_resized_as_the_wrapper_does(client, descriptor, side):
    patches = np.random.default_rng(0).uniform(-1, 1, [3, side, side]).astype(np.float32)
    found = client("grpc").describe(patches)
    assert _alike(found, descriptor.describe(patches), 0.99)


def test_images_are_cut_like_patches(client, descriptor, image, frames):
    patches = cut_patches(image.astype(np.float32), frames, 42, descriptor.magnification)
    expected = descriptor.describe(patches)
    found = client("grpc").describe_image(_png(image), frames)
    assert _alike(found, expected)
    color = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    jpeg = cv2.imencode(".jpg", color, [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    assert _alike(client("grpc").describe_image(jpeg, frames), expected, 0.95)


@pytest.mark.parametrize(("images", "places"), [(0, 4), (2, 0), (3, 5)])
def test_padding_among_frames_gives_zeros(client, image, frames, images, places):
    """Zeros, and the equal numbers that a padding server puts in, are padding; NaN is no frame."""
    rows = np.zeros([images, places, 6], np.float32)
    rows[:, 1:2] = frames[:1].reshape(6)
    rows[:, 2:3] = 7.7
    rows[:, 3:4] = np.nan
    outputs = client("grpc").predict(
        "describe_image",
        {"images": np.array([_png(image)] * images, object), "frames": rows},
        ["descriptors", "packed"],
    )
    assert outputs["descriptors"].shape == (images, places, 128)
    assert outputs["packed"].shape == (images, places, 16)
    real = np.zeros([images, places], bool)
    real[:, 1:2] = True
    np.testing.assert_array_equal(np.abs(outputs["descriptors"]).min(axis=2), real)
    np.testing.assert_array_equal(np.abs(outputs["descriptors"]).max(axis=2), real)
    np.testing.assert_array_equal(outputs["packed"].any(axis=2), real)


def test_a_bad_patch_spoils_no_other(client, descriptor, groups):
    patches = groups.patches[:5].astype(np.float32)
    expected = descriptor.describe(patches)
    patches[2, 3, 3] = np.nan
    found = client("grpc").predict(
        "serving_default", {"patches": patches[..., np.newaxis]}, ["descriptors"]
    )["descriptors"]
    others = [0, 1, 3, 4]
    assert _alike(np.packbits(found[others] > 0, axis=1), expected[others])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_client_is_a_descriptor(client, descriptor, groups, image, frames, scheme):
    remote = client(scheme)
    assert (remote.norm, remote.dimension) == (descriptor.norm, descriptor.dimension)
    for patches in (groups.patches[:9], groups.patches[:9] / np.float32(255), groups.patches[:0]):
        found = remote.describe(patches)
        assert found.dtype == np.uint8
        assert _alike(found, descriptor.describe(patches), 0.999)
    found = remote.describe_image(_png(image), frames)
    assert _alike(found, client("grpc").describe_image(_png(image), frames))
    assert remote.describe_image(_png(image), frames[:0]).shape == (0, 16)


@pytest.fixture(scope="session")
def small_image(image) -> np.ndarray:
    return image[100:300, 120:380]


def _counterparts(found: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of keypoints [N, 4] and of frames that agree in place, size and angle."""
    expected = np.array(
        [(*k.pt, k.size, k.angle) for k in doap_tf.features.keypoints_from_frames(frames)]
    )
    near = KDTree(found[:, :2]).query_ball_point(expected[:, :2], 0.5)
    pairs = np.array([(row, other) for other, rows in enumerate(near) for row in rows])
    one, other = found[pairs[:, 0]], expected[pairs[:, 1]]
    turned = np.abs((one[:, 3] - other[:, 3] + 180) % 360 - 180)
    return pairs[(np.abs(one[:, 2] / other[:, 2] - 1) < 0.05) & (turned < 5)].T


@pytest.mark.parametrize(
    ("scheme", "model"), [("grpc", "binary_st"), ("http", "binary_st"), ("grpc", "real")]
)
def test_detects_and_describes_as_an_extractor(client, networks, small_image, scheme, model):
    local = doap_tf.DescriptorExtractor(Descriptor(networks[model]), "learned", 300)
    expected = local.extract(small_image)
    found = client(scheme, model).detect_and_describe(small_image, 300)
    assert len(found.keypoints) == len(expected.frames)
    np.testing.assert_allclose(found.scores, expected.responses, rtol=0.03)
    rows, others = _counterparts(found.keypoints, expected.frames)
    assert len(np.unique(others)) >= 0.95 * len(expected.frames)
    one, other = found.descriptors[rows], expected.descriptors[others]
    if model == "real":
        assert np.median(np.sum(one * other, axis=1)) > 0.999
    else:
        assert _alike(one, other, 0.97)


@pytest.fixture(scope="session")
def dense(tmp_path_factory) -> doap_tf.matching.DenseExtractor:
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model("binary"))
    return doap_tf.matching.DenseExtractor(path, max_keypoints=300)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_network_of_images_gives_the_rows_that_it_gives_in_python(
    client, dense, small_image, scheme, tmp_path
):
    """Of a JPEG file in colour, whose sides are odd, in one request."""
    colours = np.stack([small_image, small_image // 2 + 60, small_image[::-1]], axis=2)[:199, :257]
    (tmp_path / "a.jpg").write_bytes(cv2.imencode(".jpg", colours)[1])
    remote = client(scheme, "dense")
    assert (remote.binary, remote.dimension, remote.norm) == (True, 16, dense.norm)
    found = remote.detect_and_describe(tmp_path / "a.jpg", 300)
    assert not found.keypoints[:, 3].any()
    expected = dense.extract(tmp_path / "a.jpg")
    check_features(found.keypoints[:, :3], found.scores, found.descriptors, expected)
    nothing = remote.detect_and_describe(np.full([1, 1], 9, np.uint8))
    assert [part.shape for part in nothing] == [(0, 4), (0,), (0, 2)]
    with pytest.raises(InputError, match="no signature 'describe_uint8'"):
        remote.describe(np.zeros([2, 32, 32]))


def test_pixels_of_a_batch_are_read_as_their_files(client, small_image):
    remote = client("grpc", "dense")

    def detect(images, most, outputs=("keypoints", "packed", "counts")):
        inputs = {"images": images, "max_keypoints": np.array(most, np.int32)}
        return remote.predict("serving_default", inputs, list(outputs))

    grey = np.stack([small_image, small_image[::-1], np.full_like(small_image, 5)])[..., np.newaxis]
    found = detect(grey, [40, 30, 20])
    assert found["counts"].tolist() == [40, 30, 0]
    assert found["keypoints"].shape == (3, 40, 4)
    assert not found["packed"][1, 30:].any() and not found["packed"][2].any()
    alone = remote.detect_and_describe(small_image, 40)
    np.testing.assert_allclose(found["keypoints"][0], alone.keypoints, atol=1e-3)
    assert _alike(found["packed"][0], alone.descriptors, 0.99)
    colours = detect(np.repeat(grey[:2], 3, axis=3), [40, 30])
    np.testing.assert_allclose(colours["keypoints"], found["keypoints"][:2], atol=1e-3)
    for images, most, message in (
        (np.zeros([1, 9, 9, 2], np.uint8), [5], "one channel or three"),
        (np.zeros([1, 0, 9, 1], np.uint8), [5], "must not be empty"),
        (np.zeros([1, 4097, 4097, 1], np.uint8), [5], "send a smaller one"),
        (np.zeros([1, 9, 9, 1], np.uint8), [5, 5], "one per image"),
        (np.zeros([1, 9, 9, 1], np.uint8), [-1], "must not be negative"),
    ):
        with pytest.raises(ServingError, match=message):
            client("grpc", "dense", max_message_bytes=1 << 25).predict(
                "serving_default",
                {"images": images, "max_keypoints": np.array(most, np.int32)},
                ["counts"],
            )


def test_an_image_may_be_a_file_its_contents_or_an_array(client, small_image, tmp_path):
    colour = np.stack([small_image, small_image // 2, small_image // 3], axis=2)
    (tmp_path / "image.png").write_bytes(_png(colour))
    ways = (colour, _png(colour), tmp_path / "image.png", str(tmp_path / "image.png"))
    first, *others = (client("grpc").detect_and_describe(way, 20) for way in ways)
    assert first.keypoints.shape == (20, 4)
    assert first.keypoints.dtype == first.scores.dtype == np.float32
    for other in others:
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_images_of_one_batch_keep_their_own_numbers(client, small_image):
    images = [_png(small_image), _png(small_image[:5]), _png(small_image[:90, 50:])]
    predict = client("grpc").predict
    outputs = ["keypoints", "scores", "descriptors", "packed", "counts"]
    together = predict(
        "detect_and_describe",
        {"images": np.array(images, object), "max_keypoints": np.array([8, 9, 13], np.int32)},
        outputs,
    )
    assert together["counts"].tolist() == [8, 0, 13]
    shapes = {name: values.shape for name, values in together.items()}
    assert shapes == {
        "keypoints": (3, 13, 4),
        "scores": (3, 13),
        "descriptors": (3, 13, 128),
        "packed": (3, 13, 16),
        "counts": (3,),
    }
    for name in outputs[:-1]:
        assert not together[name][0, 8:].any()
        assert not together[name][1].any()
    alone = client("grpc").detect_and_describe(images[2], 13)
    np.testing.assert_allclose(together["keypoints"][2], alone.keypoints, atol=1e-3)
    assert _alike(together["packed"][2], alone.descriptors, 0.99)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_image_without_keypoints_has_none(client, scheme):
    found = client(scheme).detect_and_describe(np.full([40, 40], 9, np.uint8))
    assert [part.shape for part in found] == [(0, 4), (0,), (0, 16)]
    assert found.descriptors.dtype == np.uint8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_detection_is_refused_in_one_line(client, small_image, scheme, tmp_path):
    with pytest.raises(ServingError, match="raise max_message_bytes"):
        client(scheme, "real", max_message_bytes=1 << 17).detect_and_describe(small_image)
    with pytest.raises(ServingError, match="smaller"):
        client(scheme).detect_and_describe(np.zeros([4097, 4097], np.uint8))
    with pytest.raises(InputError, match="float64"):
        client(scheme).detect_and_describe(small_image / 255)
    with pytest.raises(InputError, match=r"is None: cv2\.imread could not read"):
        client(scheme).detect_and_describe(None)
    with pytest.raises(InputError, match=r"absent\.png"):
        client(scheme).detect_and_describe(tmp_path / "absent.png")
    with pytest.raises(InputError, match="max_message_bytes"):
        client(scheme, max_message_bytes=70_000).detect_and_describe(small_image)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_requests_are_split_below_the_limit(client, descriptor, groups, scheme, monkeypatch):
    patches = groups.patches[:60]
    limit = 160 * 1024
    remote = client(scheme, max_message_bytes=limit)
    sent = []
    predict = remote._transport.predict

    def spy(signature, inputs, outputs, timeout):
        sent.append(remote._transport.size_of(inputs["patches"]))
        return predict(signature, inputs, outputs, timeout)

    monkeypatch.setattr(remote._transport, "predict", spy)
    assert _alike(remote.describe(patches), descriptor.describe(patches))
    assert len(sent) > 1
    assert max(sent) < limit


def test_many_frames_are_split(client, image, frames, monkeypatch):
    expected = client("grpc").describe_image(_png(image), frames)
    monkeypatch.setattr(serving_client, "_FRAMES_PER_REQUEST", 17)
    assert _alike(client("grpc").describe_image(_png(image), frames), expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_transient_errors_are_retried(client, server, descriptor, groups, scheme):
    remote = client(scheme, attempts=3)
    assert remote.binary  # asks the server, before the errors begin
    server.order("fail 2")
    patches = groups.patches[:2]
    assert _alike(remote.describe(patches), descriptor.describe(patches))
    server.order("fail 3")
    with pytest.raises(ServingError, match="ordered to fail"):
        remote.describe(patches)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_slow_answers_time_out_and_are_retried(client, server, descriptor, groups, scheme):
    patches = groups.patches[:2]
    remote = client(scheme, attempts=2)
    remote.describe(patches)
    server.order("stall 1")
    remote.timeout = 2.0
    assert _alike(remote.describe(patches), descriptor.describe(patches))
    server.order("stall 1")
    remote.timeout, remote.attempts = 0.2, 1
    with pytest.raises(ServingError):
        remote.describe(patches)
    server.order("release")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_permanent_errors_are_not_retried(client, server, groups, scheme):
    """A fault that waits for the second attempt must still be there afterwards."""
    remote = client(scheme)
    broken = {"images": np.array([b"no image"], object), "frames": np.ones([1, 1, 6], np.float32)}
    with pytest.raises(ServingError) as error:
        remote.predict("describe_image", broken, ["packed"])
    assert not error.value.retryable
    oblong = {"patches": np.zeros([1, 20, 30, 1], np.float32)}
    with pytest.raises(ServingError, match="square"):
        remote.predict("serving_default", oblong, ["descriptors"])
    with (
        pytest.raises(ServingError) as error,
        ServingClient(server.addresses[scheme], "other", timeout=30.0) as other,
    ):
        other.describe(groups.patches[:1])
    assert not error.value.retryable


def test_client_describes_the_frames_of_an_extractor(client, descriptor, image, frames):
    remote = doap_tf.DescriptorExtractor(client("grpc"), magnification=4.0)
    found = remote.compute(image, frames)[1]
    expected = descriptor.describe(cut_patches(image, frames, 64, 4.0))
    assert _alike(found, expected)


def test_rest_needs_neither_tensorflow_nor_opencv():
    code = (
        "import sys; sys.modules['tensorflow'] = sys.modules['cv2'] = None;"
        "from doap_tf.serving import ServingClient, client;"
        "ServingClient('http://localhost:8501', 'real');"
        "import numpy; client._encoded(numpy.zeros([9, 9, 3], 'uint8'))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_bad_arguments_are_refused_in_one_line(client, image, frames):
    with pytest.raises(InputError, match="'describe'"):
        client("grpc").predict("describe", {}, [])
    with pytest.raises(InputError, match="localhost:8500"):
        ServingClient("localhost:8500", "real")
    with pytest.raises(InputError, match="square"):
        client("grpc").describe(np.zeros([1, 20, 30], np.uint8))
    with pytest.raises(InputError, match="batch_size must be at least 1, not 0"):
        client("grpc").describe(np.zeros([1, 32, 32], np.uint8), batch_size=0)
    for bad in (frames[:, 0], frames * np.nan):
        with pytest.raises(InputError, match="frames must be finite"):
            client("grpc").describe_image(_png(image), bad)
    with pytest.raises(InputError, match=r"max_keypoints .* not 0"):
        client("grpc").detect_and_describe(image, 0)
    with pytest.raises(InputError, match="max_message_bytes"):
        client("grpc", max_message_bytes=70_000).describe_image(_png(image), frames)


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"null", b'{"error": "x"}'])
def test_another_server_is_told_from_tensorflow_serving(answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        client = ServingClient(f"http://127.0.0.1:{other.server_port}", "doap-128")
        with pytest.raises(ServingError, match=r"127\.0\.0\.1.*not that of TensorFlow Serving"):
            client.signatures  # noqa: B018


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_missing_certificates_are_named(scheme, tmp_path):
    with pytest.raises(InputError, match=r"none\.pem cannot be read: No such file"):
        ServingClient(f"{scheme}://localhost:1", "m", root_certificates=tmp_path / "none.pem")


def test_an_absent_server_is_reported_after_all_attempts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for scheme in SCHEMES:
            address = f"{scheme}://127.0.0.1:{port}"
            with ServingClient(
                address, "binary_st", attempts=2, backoff=0.01, timeout=5.0
            ) as remote:
                with pytest.raises(ServingError, match=address) as error:
                    remote.describe(np.zeros([1, 32, 32], np.uint8))
                assert error.value.retryable


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_tls_requires_a_trusted_certificate(client, certificate, descriptor, groups, scheme):
    if not certificate:
        pytest.skip("openssl is needed to make a certificate")
    patches = groups.patches[:2]
    trusting = client(scheme, root_certificates=certificate[0])
    assert _alike(trusting.describe(patches), descriptor.describe(patches))
    with pytest.raises(ServingError, match=r"(?i)certificate|handshake|unavailable"):
        client(scheme, attempts=1, timeout=5.0).describe(patches)


@pytest.mark.slow
def test_a_thousand_mixed_requests_of_sixteen_threads(
    client, server, descriptor, groups, image, frames
):
    patches = groups.patches[:64]
    expected = descriptor.describe(patches)
    png = _png(image[:200, :200])
    of_image = client("grpc").describe_image(png, frames[:3])
    remote = {scheme: client(scheme) for scheme in SCHEMES}

    def ask(number: int) -> bool:
        first, count = number * 7 % 60, 1 + number % 4
        chosen = slice(first, first + count)
        transport = remote["http" if number % 5 == 0 else "grpc"]
        if number % 4 == 0:
            return _alike(transport.describe_image(png, frames[:3]), of_image, 0.98)
        batch = patches[chosen] if number % 4 < 3 else patches[chosen].astype(np.float32)
        return _alike(transport.describe(batch), expected[chosen], 0.98)

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        right = list(threads.map(ask, range(300)))
        before = int(server.order("memory"))
        right += threads.map(ask, range(300, 1000))
        grown = int(server.order("memory")) - before
    assert all(right)
    assert len(right) == 1000
    assert grown < 100e6


@pytest.fixture(scope="session")
def model_server(exports):
    """Address and SavedModel of a real server, where the environment names one."""
    address = os.environ.get("TENSORFLOW_SERVING_ADDRESS")
    if address:
        yield address, pathlib.Path(os.environ["TENSORFLOW_SERVING_MODEL"])
        return
    binary = os.environ.get("TENSORFLOW_MODEL_SERVER")
    if not binary:
        pytest.skip("neither TENSORFLOW_MODEL_SERVER nor TENSORFLOW_SERVING_ADDRESS is set")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = pathlib.Path(__file__).parents[2] / "serving" / "batching.config"
    process = subprocess.Popen(
        [
            binary,
            f"--port={port}",
            "--model_name=binary_st",
            f"--model_base_path={exports / 'binary_st'}",
            "--enable_batching=true",
            f"--batching_parameters_file={configuration}",
        ]
    )
    yield f"grpc://localhost:{port}", exports / "binary_st"
    process.terminate()
    process.wait(30)


def test_a_real_server_gives_what_the_saved_model_gives(model_server, groups, image, frames):
    address, path = model_server
    expected = doap_tf.from_pretrained(path)
    with ServingClient(address, path.name, attempts=8, backoff=0.5) as remote:
        for patches in (groups.patches[:300], groups.patches[:7].astype(np.float32)):
            found = remote.describe(patches)
            if expected.binary:
                assert _alike(found, expected.describe(patches), 0.999)
            else:
                np.testing.assert_allclose(found, expected.describe(patches), atol=1e-4)
        rows = remote.describe_image(_png(image), frames)
        assert len(rows) == len(frames)
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            parts = list(threads.map(remote.describe, np.split(groups.patches[:320], 80)))
        expected = remote.describe(groups.patches[:320])
        np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-4)
