"""Describing patches and images with a model behind TensorFlow Serving."""

import functools
import os
import pathlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from doap_tf.descriptors.protocol import checked_patches
from doap_tf.errors import InputError
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from doap_tf.serving.transports import Endpoint, ServingError, connect

# Most rows of one request; `max_batch_size` in serving/batching.config is as large.
_PATCHES_PER_REQUEST = 256
_FRAMES_PER_REQUEST = 1024
_FEWEST_FRAMES = 16
_OVERHEAD = 64 * 1024  # bytes of a message for everything but tensors

_Answer = TypeVar("_Answer")


class DetectedFeatures(NamedTuple):
    """Keypoints of one image and their descriptors, the strongest first.

    Attributes:
        keypoints: float32 [N, 4]: x, y, size and angle as those of a `cv2.KeyPoint`, the size being
            twice the radius, the angle in degrees.
        scores: float32 [N], larger for better keypoints.
        descriptors: float32 [N, D], or packed bits, uint8 [N, bits / 8].
    """

    keypoints: np.ndarray
    scores: np.ndarray
    descriptors: np.ndarray


class ServingClient:
    """A descriptor that runs on a server, a `PatchDescriptor`; threads may share a client.

    A request that fails for a transient reason (the server cannot be reached, is overloaded or too
    slow) is sent again after a pause that doubles each time. REST does not need TensorFlow.

    Args:
        address: `grpc://host:8500` or `http://host:8501`; with TLS `grpcs://` or `https://`.
        model: Name of the model.
        version: Version number; by default the newest.
        timeout: Timeout of one attempt in seconds.
        attempts: Maximum number of attempts per request.
        backoff: Length of the first pause in seconds. Pauses are shortened at random by up to a
            half, so that clients that failed together do not retry together.
        max_message_bytes: Size of the largest message; larger requests are split.
        root_certificates: PEM file of the authority that signed the server's certificate; by
            default the authorities that the system trusts.

    Example:
        >>> with ServingClient("grpc://localhost:8500", "doap-128") as client:
        ...     descriptors = client.describe(patches)
    """

    def __init__(
        self,
        address: str,
        model: str,
        *,
        version: int | None = None,
        timeout: float = 10.0,
        attempts: int = 4,
        backoff: float = 0.2,
        max_message_bytes: int = 4 * 1024 * 1024,
        root_certificates: pathlib.Path | None = None,
    ):
        self.timeout = timeout
        self.attempts = attempts
        self.backoff = backoff
        self._room = max_message_bytes - _OVERHEAD
        self._transport = connect(
            Endpoint(address, model, version, max_message_bytes, root_certificates)
        )

    def __enter__(self) -> "ServingClient":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._transport.close()

    @functools.cached_property
    def signatures(self) -> dict[str, dict[str, int]]:
        """The last dimension of every output of every signature of the served model."""
        return self._with_retries(self._transport.signatures)

    @property
    def binary(self) -> bool:
        """Whether descriptors are packed bits."""
        return any("packed" in outputs for outputs in self.signatures.values())

    @property
    def dimension(self) -> int:
        """Number of values, or of bits."""
        return self.signatures["serving_default"]["descriptors"]

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""
        return NORM_HAMMING if self.binary else NORM_L2

    def describe(self, patches: np.ndarray, batch_size: int = _PATCHES_PER_REQUEST) -> np.ndarray:
        """Describes patches as `doap_tf.Descriptor.describe` does; uint8 needs less traffic.

        Args:
            patches: uint8 or float, [N, H, H], [N, H, H, 1] or [H, H], H ≥ 16.
            batch_size: Most patches of one request; fewer if they do not fit into a message.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
        self._check_signature("describe_uint8")
        patches = checked_patches(patches)
        if patches.dtype != np.uint8:
            patches = patches.astype(np.float32)
            rows = self._in_parts("serving_default", patches, "descriptors", batch_size)
            return np.packbits(rows > 0, axis=1) if self.binary else rows
        if self.binary:
            return self._in_parts("describe_packed", patches, "packed", batch_size)
        return self._in_parts("describe_uint8", patches, "descriptors", batch_size)

    __call__ = describe

    def describe_image(
        self, image: str | os.PathLike | bytes | np.ndarray, frames: npt.ArrayLike
    ) -> np.ndarray:
        """Describes frames of an image, at the magnification that the model was trained for.

        Args:
            image: A JPEG or PNG file, as a path or its contents; or uint8 [H, W] or BGR [H, W, 3].
                The EXIF orientation is not applied.
            frames: 2×3 maps from the unit circle to pixels, [K, 2, 3].

        Returns:
            float32 [K, D], or packed bits, uint8 [K, bits / 8].
        """
        maps = np.asarray(frames, np.float32)
        if maps.size and (maps.shape[1:] != (2, 3) or not np.isfinite(maps).all()):
            raise InputError(f"frames must be finite and [K, 2, 3], not {list(maps.shape)}.")
        rows = maps.reshape(-1, 6)
        output = "packed" if self.binary else "descriptors"
        images = np.array([_encoded(image)], object)
        self._check_fits(images, self._transport.size_of(rows[:_FRAMES_PER_REQUEST]))
        parts = [self._empty("describe_image", output)]
        for start in range(0, len(rows), _FRAMES_PER_REQUEST):
            part = rows[start : start + _FRAMES_PER_REQUEST]
            # Padded to a power of two: servers join only requests of equal shape.
            length = max(_FEWEST_FRAMES, 1 << (len(part) - 1).bit_length())
            padded = np.pad(part, [(0, length - len(part)), (0, 0)])[np.newaxis]
            inputs = {"images": images, "frames": padded}
            parts.append(self.predict("describe_image", inputs, [output])[output][0, : len(part)])
        return np.concatenate(parts, dtype=parts[0].dtype, casting="unsafe")  # JSON has no uint8

    def detect_and_describe(
        self, image: str | os.PathLike | bytes | np.ndarray, max_keypoints: int = 2048
    ) -> DetectedFeatures:
        """Finds keypoints and describes them, all on the server, in one request.

        Networks of patches describe what the learned detector finds, those of whole images
        keypoints of their own.

        Args:
            image: A JPEG or PNG file, as a path or its contents; or uint8 [H, W] or BGR [H, W, 3].
                The EXIF orientation is not applied.
            max_keypoints: Keep this many of the strongest.
        """
        if not 0 < max_keypoints < 2**31:
            raise InputError(f"max_keypoints must be above 0 and below 2³¹, not {max_keypoints}.")
        images = np.array([_encoded(image)], object)
        self._check_fits(images)
        inputs = {"images": images, "max_keypoints": np.array([max_keypoints], np.int32)}
        descriptors = "packed" if self.binary else "descriptors"
        outputs = ["keypoints", "scores", descriptors, "counts"]
        answer = self.predict("detect_and_describe", inputs, outputs)
        count = int(answer["counts"][0])
        like = self._empty("detect_and_describe", descriptors)  # JSON has no types and no [0, D]
        return DetectedFeatures(
            answer["keypoints"][0][:count].astype(np.float32).reshape(count, 4),
            answer["scores"][0][:count].astype(np.float32),
            answer[descriptors][0][:count].astype(like.dtype).reshape(count, like.shape[1]),
        )

    def predict(
        self, signature: str, inputs: dict[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Calls any signature, in one request with retries."""
        self._check_signature(signature)
        return self._with_retries(
            lambda timeout: self._transport.predict(signature, inputs, outputs, timeout)
        )

    def _check_signature(self, signature: str) -> None:
        if signature not in self.signatures:
            raise InputError(
                f"the served model has no signature {signature!r}; it has "
                f"{', '.join(sorted(self.signatures))}."
            )

    def _in_parts(
        self, signature: str, patches: np.ndarray, output: str, batch_size: int
    ) -> np.ndarray:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}.")
        parts = [self._empty(signature, output)]
        fitting = self._room // max(1, self._transport.size_of(patches[:1]))
        step = max(1, min(_PATCHES_PER_REQUEST, batch_size, fitting))
        for start in range(0, len(patches), step):
            inputs = {"patches": patches[start : start + step]}
            parts.append(self.predict(signature, inputs, [output])[output])
        return np.concatenate(parts, dtype=parts[0].dtype, casting="unsafe")  # JSON has no uint8

    def _check_fits(self, images: np.ndarray, others: int = 0) -> None:
        if self._transport.size_of(images) + others > self._room:
            raise InputError(
                f"the image has {len(images[0])} bytes and does not fit into one message: send a "
                "smaller one or raise max_message_bytes, here and on the server."
            )

    def _empty(self, signature: str, output: str) -> np.ndarray:
        self._check_signature(signature)
        dtype = np.uint8 if output == "packed" else np.float32
        return np.empty([0, self.signatures[signature][output]], dtype)

    def _with_retries(self, send: Callable[[float], _Answer]) -> _Answer:
        for attempt in range(self.attempts - 1):
            try:
                return send(self.timeout)
            except ServingError as error:
                if not error.retryable:
                    raise
            time.sleep(self.backoff * 2**attempt * random.uniform(0.5, 1.0))
        return send(self.timeout)


def _encoded(image: str | os.PathLike | bytes | np.ndarray) -> bytes:
    if image is None:
        raise InputError("the image is None: cv2.imread could not read the file; check its path.")
    if isinstance(image, bytes):
        return image
    if isinstance(image, np.ndarray):
        from doap_tf.drawing.pictures import encode_png

        planes = image.shape[2:]
        if image.dtype != np.uint8 or image.ndim < 2 or planes not in ((), (3,)) or not image.size:
            raise InputError(
                f"image is {image.dtype} of shape {image.shape}; expected uint8 [H, W] or BGR "
                "[H, W, 3]."
            )
        return encode_png(image)
    try:
        return pathlib.Path(image).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read image {image}: {error.strerror}.") from error
