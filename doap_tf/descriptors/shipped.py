"""The networks that ship: files of weights, and .tflite files that are made from them."""

import functools
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys

from doap_tf.errors import InputError

PRECISIONS = ("float32", "float16", "int8")
WEIGHTS = pathlib.Path(__file__).parent / "weights"
_PACKAGE = pathlib.Path(__file__).parents[1]

# Runs in a process of its own, so that TensorFlow does not come into this one.
_CONVERSION = """
import sys
from doap_tf import files
from doap_tf.descriptors.weights_file import read_weights
from doap_tf.export import calibration_patches, convert_to_tflite
from doap_tf.patch_generation import GroupSettings, sample_groups
for weights, path in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
    network, patches = read_weights(weights), None
    if sys.argv[1] == "int8":
        size = network.input_size
        sample = sample_groups(GroupSettings(size, network.magnification))
        patches = calibration_patches(sample.reshape(-1, size, size))
    model = convert_to_tflite(network, sys.argv[1], representative_patches=patches)
    with files.write_atomically(path) as temporary:
        temporary.write_bytes(model)
"""


def names() -> list[str]:
    """Names of the networks that ship with the package."""
    return sorted(file.stem for file in WEIGHTS.glob("*.npz"))


def weights_file(name: str) -> pathlib.Path:
    """The weights of a network that ships."""
    return WEIGHTS / f"{name}.npz"


def tflite_file(name: str, precision: str = "float32") -> pathlib.Path:
    """The .tflite file of a network that ships.

    In float32 it lies beside the weights in a wheel and in a checkout that is set up. Otherwise it
    is converted on first use, by TensorFlow, and kept in `$XDG_CACHE_HOME/doap_tf`, by default
    `~/.cache/doap_tf`.

    Raises:
        OSError: The cache cannot be written.
    """
    packed = WEIGHTS / _file_name(name, precision)
    if packed.exists():
        return packed
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cached = pathlib.Path(cache) / "doap_tf" / packed.name
    if not cached.exists():
        if importlib.util.find_spec("tensorflow") is None:
            raise InputError(
                f"{name} is not here as a .tflite file in {precision}, and TensorFlow, which would "
                "make one, is not installed: install it, or a wheel of doap_tf that was built with "
                "the files."
            )
        cached.parent.mkdir(parents=True, exist_ok=True)
        _convert({name: cached}, precision)
    return cached


def make_tflite_files() -> None:
    """Makes the .tflite files beside the weights and removes outdated ones."""
    wanted = {name: WEIGHTS / _file_name(name, "float32") for name in names()}
    for path in WEIGHTS.glob("*.tflite"):
        if path not in wanted.values():
            path.unlink()
    missing = {name: path for name, path in wanted.items() if not path.exists()}
    if missing:
        _convert(missing, "float32")


def _file_name(name: str, precision: str) -> str:
    """A name with a hash of the weights and of the code that converts them: never outdated."""
    digest = hashlib.sha256(weights_file(name).read_bytes())
    digest.update(_code_hash())
    suffix = "" if precision == "float32" else f"-{precision}"
    return f"{name}{suffix}-{digest.hexdigest()[:16]}.tflite"


@functools.cache
def _code_hash() -> bytes:
    digest = hashlib.sha256()
    for folder in ("networks", "export"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.digest()


def _convert(paths: dict[str, pathlib.Path], precision: str) -> None:
    arguments = [os.fspath(file) for name in paths for file in (weights_file(name), paths[name])]
    python_path = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    finished = subprocess.run(
        [sys.executable, "-c", _CONVERSION, precision, *arguments],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(python_path),
            "CUDA_VISIBLE_DEVICES": "-1",  # whose memory this process may have taken
        },
    )
    if finished.returncode:
        reason = finished.stderr.strip().rpartition("\n")[2]
        raise InputError(
            f"{', '.join(paths)} cannot be converted for LiteRT ({reason}): "
            'backend="keras" does without.'
        )
