"""The .tflite files of networks that ship, made from their graphs and weights."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from doap_tf import catalogue, tflite_metadata
from doap_tf.catalogue import Entry
from doap_tf.errors import InputError
from doap_tf.files import contents_sha256, write_file
from doap_tf.tflite_quantization import quantize
from doap_tf.zoo.graph_files import is_of, remove_weights, restore_weights

_PACKAGE = pathlib.Path(__file__).parents[1]

#: The code that a converted network depends on; a test compares it with what `convert` imports.
CODE = (
    *("networks/convolution", "networks/dense_network", "networks/descriptor_network"),
    *("networks/fast_trunk", "networks/l2net", "networks/network_file"),
    *("networks/spatial_transformer", "networks/trunk"),
    *("export/dense_tflite", "export/inference_network", "export/model_card"),
    *("export/point_description", "export/tflite", "tflite_quantization", "zoo/convert"),
)
_CONVERTED = ("descriptor", "extractor")
_DIGITS = 16  # of a hash in the name of a file


def tflite_file(name: str, precision: str = "float32") -> pathlib.Path:
    """The .tflite file of a descriptor or network of whole images that ships, made on first use.

    It is kept in `$XDG_CACHE_HOME/doap_tf`, by default `~/.cache/doap_tf`. In float32, and a
    network of whole images in int8 too, it is put together from `NAME.graph.tflite` and the
    weights, at once; otherwise, or if these do not belong together, TensorFlow converts the
    network.

    Raises:
        OSError: The cache cannot be written.
    """
    entry = catalogue.ENTRIES[name]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cached = pathlib.Path(cache) / "doap_tf" / _file_name(entry, precision)
    if cached.exists():
        return cached
    at_once = ("float32", "int8") if entry.kind == "extractor" else ("float32",)
    if precision in at_once and _has_graph(entry):
        model = restore_weights(_graph(entry).read_bytes(), entry.weights)
        if precision == "int8":
            metadata = {**tflite_metadata.read(model), "precision": precision}
            model = tflite_metadata.attach(quantize(model), metadata)
        write_file(cached, model)
        return cached
    if importlib.util.find_spec("tensorflow") is None:
        raise InputError(
            f"{name} must be converted to {precision} for LiteRT by TensorFlow, which is not "
            "installed: install it, or use a .tflite file of `export_main.py`."
        )
    print(
        f"converting {name} for LiteRT in {precision}, once; this takes about half a minute",
        file=sys.stderr,
        flush=True,
    )
    cached.parent.mkdir(parents=True, exist_ok=True)
    _convert({entry: cached}, precision)
    return cached


def make_graph_files() -> None:
    """Makes the graphs of all networks that ship whose weights are others than the graph's."""
    entries = [
        entry
        for entry in catalogue.ENTRIES.values()
        if entry.kind in _CONVERTED and not entry.load and not _has_graph(entry)
    ]
    with tempfile.TemporaryDirectory() as folder:
        models = {entry: pathlib.Path(folder, f"{entry.name}.tflite") for entry in entries}
        _convert(models, "float32")
        for entry, model in models.items():
            write_file(_graph(entry), remove_weights(model.read_bytes(), entry.weights))


def _graph(entry: Entry) -> pathlib.Path:
    return entry.file(".graph.tflite")


def _has_graph(entry: Entry) -> bool:
    return _graph(entry).exists() and is_of(_graph(entry).read_bytes(), entry.weights)


def _file_name(entry: Entry, precision: str) -> str:
    """Named by a hash of the weights and of the code that converts them: never outdated."""
    code = [_PACKAGE / f"{module}.py" for module in CODE]
    digest = contents_sha256(entry.weights, *code)[:_DIGITS]
    return f"{entry.name}-{precision}-{digest}.tflite"


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
