"""Descriptors of others: ONNX and TorchScript files, and Python functions."""

import functools
import importlib
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from doap_tf.descriptors.patch_resizing import resize
from doap_tf.descriptors.protocol import checked_patches
from doap_tf.errors import InputError
from doap_tf.files import contents_sha256
from doap_tf.metrics.distances import NORM_HAMMING, NORM_L2, descriptor_size

INPUT_SIZE = 32
# Side of a patch over the size of an OpenCV keypoint at which the Image Matching Benchmark (Jin et
# al., 2021) cuts patches for HardNet, SOSNet and others.
MAGNIFICATION = 12.0

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_Run = Callable[[np.ndarray], np.ndarray]


class ThirdPartyDescriptor:
    """Describes patches by a function of others, in chunks of bounded memory.

    Floats are compared by the L2 distance, packed bits (uint8) by the Hamming distance.

    Args:
        name: Name in errors.
        run: Takes patches [N, S, S], uint8 or float32 in 0…255, and returns rows [N, D].
        weights_sha256: Identifies it in results.
        input_size: Side S of the patches; others are resized to it with anti-aliasing.
        magnification: Half the side of a patch over the radius of its keypoint.
        load: The function and the argument that load it again in a copy or another process; by
            default `run` is copied.
    """

    def __init__(
        self,
        name: str,
        run: _Run,
        weights_sha256: str | None,
        input_size: int = INPUT_SIZE,
        magnification: float = MAGNIFICATION,
        load: tuple[Callable, str | pathlib.Path] | None = None,
    ):
        self.weights_sha256 = weights_sha256
        self.input_size = input_size
        self.magnification = magnification
        self._name = name
        self._run = run
        self._load = load
        probe = np.random.default_rng(0).integers(0, 256, (2, input_size, input_size), np.uint8)
        rows = self._rows(probe)
        binary = rows.dtype == np.uint8
        self.norm = NORM_HAMMING if binary else NORM_L2
        self.dimension = rows.shape[1] * (8 if binary else 1)
        self._sample = rows[:0]

    def __reduce__(self) -> tuple | str:
        return (self._load[0], self._load[1:]) if self._load else super().__reduce__()

    def __repr__(self) -> str:
        return f"ThirdPartyDescriptor({self._name}, {descriptor_size(self.norm, self.dimension)})"

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches.

        Args:
            patches: uint8, or numbers in 0…255, [N, H, H], [N, H, H, 1] or [H, H], H ≥ 16.
            batch_size: Number of patches that are described at a time.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
        patches = checked_patches(patches)
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}.")
        rows = np.empty((len(patches), self._sample.shape[1]), self._sample.dtype)
        for start in range(0, len(patches), batch_size):
            chunk = slice(start, start + batch_size)
            found = self._rows(self._resized(patches[chunk]))
            if found.shape[1:] != rows.shape[1:] or found.dtype != rows.dtype:
                raise InputError(
                    f"{self._name} returned {found.dtype} {list(found.shape)} after "
                    f"{rows.dtype} [N, {rows.shape[1]}]."
                )
            rows[chunk] = found
        return rows

    __call__ = describe

    def _resized(self, patches: np.ndarray) -> np.ndarray:
        if patches.shape[1] != self.input_size:
            patches = resize(patches, self.input_size)
        return patches[..., 0]

    def _rows(self, patches: np.ndarray) -> np.ndarray:
        rows = np.asarray(self._run(patches))
        if rows.dtype.kind == "f":
            rows = rows.astype(np.float32, copy=False)
        elif rows.dtype != np.uint8:
            raise InputError(
                f"{self._name} returns {rows.dtype}; descriptors must be floats, or packed bits "
                "(uint8)."
            )
        if len(rows.shape) < 2 or len(rows) != len(patches) or not rows.size:
            raise InputError(
                f"{self._name} returns the shape {list(rows.shape)} for {len(patches)} patches, "
                f"not [{len(patches)}, D]."
            )
        return rows.reshape(len(rows), -1)


def is_function(name: str) -> bool:
    """Whether a name is written `module:function`."""
    return _FUNCTION.fullmatch(name) is not None


def load_function(name: str) -> ThirdPartyDescriptor:
    """Loads a Python function, `module:function`, from the working directory or a package.

    It takes patches uint8 [N, S, S] and returns float [N, D] or packed bits uint8 [N, bits / 8].
    Optional attributes: `input_size` S, `magnification`, and `weights_sha256`, which is otherwise
    the hash of the module's file.
    """
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not f"{module_name}.".startswith(f"{error.name}."):
            raise _missing_package(name, str(error.name)) from error
        raise InputError(
            f"{name}: there is no module {error.name} in {os.getcwd()} or among the installed "
            "packages."
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise InputError(f"{name}: {module_name} has no function {attribute}.")
    file = getattr(module, "__file__", None)
    return ThirdPartyDescriptor(
        name,
        lambda patches: function(_as_bytes(patches)),
        getattr(function, "weights_sha256", contents_sha256(file) if file else None),
        getattr(function, "input_size", INPUT_SIZE),
        getattr(function, "magnification", MAGNIFICATION),
        (load_function, name),
    )


def load_onnx(path: pathlib.Path) -> ThirdPartyDescriptor:
    """Loads a network that takes patches of mean 0 and standard deviation 1 with onnxruntime.

    Its input is float32 [N, 1, S, S] or [N, S, S, 1]; S is 32 unless the file fixes it.
    """
    session, weights_sha256 = onnx_session(path)
    first = session.get_inputs()[0]
    batch, *shape = [side if isinstance(side, int) else None for side in first.shape]
    channels_last = len(shape) == 3 and shape[2] == 1 and shape[0] != 1
    size = (shape[0] if channels_last else shape[-1] if shape else None) or INPUT_SIZE
    # Networks of doap_tf say what they were trained for.
    metadata = json.loads(session.get_modelmeta().custom_metadata_map.get("doap_tf", "{}"))

    def infer(patches: np.ndarray) -> np.ndarray:
        patches = patches[..., np.newaxis] if channels_last else patches[:, np.newaxis]
        return session.run(None, {first.name: patches})[0]

    return ThirdPartyDescriptor(
        str(path),
        functools.partial(_infer, path, infer, batch),
        weights_sha256,
        size,
        metadata.get("magnification", MAGNIFICATION),
        (load_onnx, path.absolute()),
    )


def onnx_session(path: pathlib.Path) -> tuple[Any, str]:
    """Opens an ONNX file with onnxruntime; returns the session and the hash of the file."""
    onnxruntime = _import("onnxruntime", path)
    providers = [
        provider
        for provider in ("CUDAExecutionProvider", "CPUExecutionProvider")
        if provider in onnxruntime.get_available_providers()
    ]
    try:
        session = onnxruntime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # its errors have no common class
        raise InputError(f"{path} cannot be read as an ONNX model: {_line(error)}") from error
    # A file may have weights beside it, under the name that PyTorch gives them.
    weights = path.with_name(f"{path.name}.data")
    return session, contents_sha256(path, *[weights] * weights.is_file())


def load_torchscript(path: pathlib.Path) -> ThirdPartyDescriptor:
    """Loads a network that takes patches float32 [N, 1, 32, 32] of mean 0 and deviation 1."""
    torch = _import("torch", path)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        network = torch.jit.load(str(path), map_location=device).eval()
    except Exception as error:  # PyTorch raises many kinds for a file that it cannot read
        raise InputError(
            f"{path} is not a TorchScript file: write it with torch.jit.script(network).save."
        ) from error

    def infer(patches: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.from_numpy(patches[:, np.newaxis]).to(device)).cpu().numpy()

    run = functools.partial(_infer, path, infer, None)
    load = (load_torchscript, path.absolute())
    return ThirdPartyDescriptor(str(path), run, contents_sha256(path), load=load)


def _infer(path: pathlib.Path, infer: _Run, batch: int | None, patches: np.ndarray) -> np.ndarray:
    """Runs a network on standardised patches, in batches of a fixed size if it wants one."""
    patches = _standardised(patches)
    count = len(patches)
    batch = batch or count
    patches = np.pad(patches, [(0, -count % batch), (0, 0), (0, 0)])
    try:
        parts = [infer(patches[start : start + batch]) for start in range(0, count, batch)]
    except Exception as error:  # runtimes raise many kinds
        raise InputError(
            f"{path} does not take patches float32 {[batch, 1, *patches.shape[1:]]}: {_line(error)}"
        ) from error
    return np.concatenate(parts)[:count]


def _standardised(patches: np.ndarray) -> np.ndarray:
    """Returns patches float32 [N, S, S], each minus its mean, over its standard deviation."""
    patches = patches.astype(np.float32)
    patches -= patches.mean(axis=(1, 2), keepdims=True)
    return patches / np.maximum(patches.std(axis=(1, 2), keepdims=True), 1e-6)


def _as_bytes(patches: np.ndarray) -> np.ndarray:
    if patches.dtype == np.uint8:
        return patches
    return np.clip(np.rint(patches), 0, 255).astype(np.uint8)


def _import(package: str, path: pathlib.Path) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _missing_package(str(path), package) from error


def _missing_package(name: str, package: str) -> InputError:
    return InputError(f"{name} needs {package}, which is not installed: pip install {package}")


def _line(error: Exception) -> str:
    """Returns the text of an error; of a long one, such as a traceback, the last line."""
    lines = str(error).split("\n")
    return " ".join(" ".join(lines if len(lines) < 5 else lines[-1:]).split())
