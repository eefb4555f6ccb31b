"""The .tflite files of descriptors that ship, made from their weights."""

import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

from doap_tf import catalogue
from doap_tf.catalogue import Entry
from doap_tf.errors import InputError
from doap_tf.files import contents_sha256

_PACKAGE = pathlib.Path(__file__).parents[1]

#: The code that a converted network depends on; a test compares it with what `convert` imports.
CODE = (
    *("networks/convolution", "networks/descriptor_network", "networks/fast_trunk"),
    *("networks/l2net", "networks/network_file", "networks/spatial_transformer"),
    *("networks/trunk", "export/inference_network", "export/model_card", "export/tflite"),
    "zoo/convert",
)
_DIGITS = 16  # of a hash in the name of a file


def tflite_file(name: str, precision: str = "float32") -> pathlib.Path:
    """The .tflite file of a descriptor that ships.

    In float32 it lies beside the weights in a wheel and in a checkout that is set up. Otherwise it
    is converted on first use, by TensorFlow, and kept in `$XDG_CACHE_HOME/doap_tf`, by default
    `~/.cache/doap_tf`.

    Raises:
        OSError: The cache cannot be written.
    """
    entry = catalogue.ENTRIES[name]
    packed = _packed(entry, precision)
    if packed.exists():
        return packed
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cached = pathlib.Path(cache) / "doap_tf" / packed.name
    if not cached.exists():
        if importlib.util.find_spec("tensorflow") is None:
            raise InputError(
                f"{name} is not here as a .tflite file in {precision}, and TensorFlow, which "
                "would make one, is not installed: install it, or a wheel of doap_tf that was "
                "built with the files."
            )
        cached.parent.mkdir(parents=True, exist_ok=True)
        _convert({entry: cached}, precision)
    return cached


def make_tflite_files() -> None:
    """Makes the .tflite files beside the weights and removes outdated ones."""
    wanted = {
        entry: _packed(entry)
        for entry in catalogue.ENTRIES.values()
        if entry.kind == "descriptor" and not entry.load
    }
    for path in catalogue.WEIGHTS.glob("*-" + "[0-9a-f]" * _DIGITS + ".tflite"):
        if path not in wanted.values():
            path.unlink()
    missing = {entry: path for entry, path in wanted.items() if not path.exists()}
    if missing:
        _convert(missing, "float32")


def _packed(entry: Entry, precision: str = "float32") -> pathlib.Path:
    """A file named by a hash of the weights and of the code that converts them: never outdated."""
    code = [_PACKAGE / f"{module}.py" for module in CODE]
    digest = contents_sha256(entry.weights, *code)[:_DIGITS]
    return entry.file(f"{'' if precision == 'float32' else f'-{precision}'}-{digest}.tflite")


def _convert(paths: Mapping[Entry, pathlib.Path], precision: str) -> None:
    """Converts networks in a process of its own, so that TensorFlow does not come into this one."""
    arguments = [os.fspath(file) for entry in paths for file in (entry.weights, paths[entry])]
    python_path = [str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    finished = subprocess.run(
        [sys.executable, "-m", "doap_tf.zoo.convert", precision, *arguments],
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
            f"{', '.join(entry.name for entry in paths)} cannot be converted for LiteRT "
            f'({reason}): backend="keras" does without.'
        )
