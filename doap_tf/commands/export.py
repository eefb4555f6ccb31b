r"""Exports a network: a SavedModel for TensorFlow Serving, .tflite files for phones, ONNX.

python export_main.py --model=doap-128 --export_dir=exports --formats=saved_model,tflite
python export_main.py --model=doap-dense-128 --export_dir=exports --formats=saved_model,onnx
python export_main.py --model=learned --export_dir=exports --formats=tflite --image_sizes=480x640
python export_main.py --model=doap-dense-small-256b --export_dir=exports --formats=tflite \
    --image_sizes=480x640,640x480

The last two export the keypoint network of the detector "learned" and a network of whole images
for phones.
"""

import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags

from doap_tf import command_line, files, runs
from doap_tf.catalogue import ENTRIES
from doap_tf.errors import InputError, suggestion, writing_to
from doap_tf.tflite_metadata import PRECISIONS

FLAGS = flags.FLAGS
_SPLIT_SEED = 0
_MAX_BATCH = 2**20

flags.DEFINE_string(
    "model",
    None,
    "Name of a network that ships, training folder or .keras file, of a descriptor, of whole "
    'images or of keypoints; "learned" is the keypoint network that ships.',
)
flags.DEFINE_string(
    "export_dir",
    None,
    "Folder for NAME/VERSION/ (the SavedModel), NAME-*.tflite and NAME.onnx; for a keypoint "
    "network NAME.tflite and NAME-HEIGHTxWIDTH.tflite.",
)
flags.DEFINE_list("formats", ["saved_model", "tflite"], "Any of saved_model, tflite, onnx.")
flags.DEFINE_string("name", None, "NAME of the export; by default taken from --model.")
flags.DEFINE_list("precisions", list(PRECISIONS), "Precisions of the .tflite files.")
flags.DEFINE_list(
    "batch_sizes",
    ["1", "64"],
    "Fixed batch sizes of further .tflite files, for delegates of mobile GPUs.",
)
flags.DEFINE_list(
    "image_sizes",
    [],
    "HEIGHTxWIDTH of further .tflite files: of a keypoint network, for browsers; of a network of "
    "whole images, which give --max_keypoints in one call, for phones.",
)
flags.DEFINE_integer("max_keypoints", 1000, "Keypoints of .tflite files of --image_sizes.")
flags.DEFINE_string(
    "groups",
    None,
    "Folder of patch groups like those of the training: int8 takes its ranges from half of them, "
    "--benchmark measures on the other half. By default photographs of scikit-image are cut.",
)
flags.DEFINE_boolean("benchmark", False, "Measure the exported models; print and save a report.")


def main(argv: Sequence[str]) -> None:
    del argv
    _check_flags()
    import tensorflow as tf

    from doap_tf.export import comparison
    from doap_tf.export.dense_comparison import compare_dense
    from doap_tf.networks import DenseNetwork, DescriptorNetwork, KeypointNetwork
    from doap_tf.zoo import load_keras

    name = FLAGS.name or _name_of(FLAGS.model)
    directory = pathlib.Path(FLAGS.export_dir)
    network = load_keras(FLAGS.model, DescriptorNetwork, KeypointNetwork, DenseNetwork)
    if isinstance(network, KeypointNetwork):
        with writing_to(directory, OSError, tf.errors.OpError):
            _export_keypoints(network, name, directory)
        return
    if isinstance(network, DenseNetwork):
        if FLAGS.benchmark and "tflite" not in FLAGS.formats:
            raise InputError("--benchmark compares .tflite files of networks of whole images.")
        with writing_to(directory, OSError, tf.errors.OpError):
            exported = _export(network, name, directory, None)
        if FLAGS.benchmark:
            converted = {short: path for short, path in exported.items() if path.is_file()}
            _report(compare_dense(name, network, converted), directory)
        return
    if FLAGS.image_sizes:
        raise InputError(f"--image_sizes is for networks of images; {FLAGS.model} takes patches.")
    calibration, held_out = None, None
    if FLAGS.benchmark or ("tflite" in FLAGS.formats and "int8" in FLAGS.precisions):
        calibration, held_out = _load_groups(network).split(0.5, _SPLIT_SEED)
    with writing_to(directory, OSError, tf.errors.OpError):
        exported = _export(network, name, directory, calibration)
    if FLAGS.benchmark and held_out is not None:
        _report(comparison.compare(name, network, exported, held_out), directory)


def _report(record: dict[str, Any], directory: pathlib.Path) -> None:
    from doap_tf.export import comparison

    path = directory / f"{record['model']}-benchmark.json"
    files.write_file(path, json.dumps(record, indent=1) + "\n")
    print(f"\n{comparison.as_table(record)}\n\n{path}")


def _load_groups(network):
    import numpy as np

    from doap_tf.data import PatchGroups
    from doap_tf.patch_generation import GroupSettings, sample_groups

    if FLAGS.groups:
        return PatchGroups.load(FLAGS.groups)
    print(
        "calibrating on patches of two sample photographs; give --groups for patches like those "
        "of the training",
        flush=True,
    )
    size = network.input_size
    patches = sample_groups(GroupSettings(size, network.magnification))
    return PatchGroups.from_arrays(
        patches.reshape(-1, size, size),
        np.repeat(np.arange(len(patches)), patches.shape[1]),
        source="photographs of scikit-image",
    )


def _export(network, name: str, directory: pathlib.Path, calibration) -> dict[str, pathlib.Path]:
    """Writes all formats; returns those that can be measured, by short names."""
    written: dict[str, pathlib.Path] = {}
    for format_name, write in FORMATS.items():
        if format_name in FLAGS.formats:
            files_of_format = write(network, name, directory, calibration)
            print(*files_of_format.values(), sep="\n")
            written |= files_of_format
    return {
        short: path for short, path in written.items() if path.is_dir() or path.suffix == ".tflite"
    }


def _write_onnx(network, name: str, directory: pathlib.Path, _) -> dict[str, pathlib.Path]:
    from doap_tf.export import convert_dense_to_onnx, convert_to_onnx
    from doap_tf.networks import DenseNetwork

    convert = convert_dense_to_onnx if isinstance(network, DenseNetwork) else convert_to_onnx
    model, path = convert(network), directory / f"{name}.onnx"
    files.write_file(path, model)
    return {"onnx": path}


def _write_tflite(network, name: str, directory: pathlib.Path, groups) -> dict[str, pathlib.Path]:
    from doap_tf.export import calibration_patches, export_tflite
    from doap_tf.networks import DenseNetwork

    if isinstance(network, DenseNetwork):
        return _write_dense_tflite(network, name, directory)
    patches = None if groups is None else calibration_patches(groups.patches)
    sizes = [None, *map(int, FLAGS.batch_sizes)]
    paths = export_tflite(network, directory, name, FLAGS.precisions, sizes, patches)
    return {path.stem.removeprefix(f"{name}-"): path for path in paths}


def _write_dense_tflite(network, name: str, directory: pathlib.Path) -> dict[str, pathlib.Path]:
    from doap_tf.export import convert_dense_to_tflite, convert_extraction_to_tflite
    from doap_tf.progress import progress

    sizes: list[tuple[int, ...] | None] = [None]
    sizes += [tuple(map(int, text.split("x"))) for text in FLAGS.image_sizes]
    models = {}
    versions = list(itertools.product(FLAGS.precisions, sizes))
    for precision, size in progress(versions, "converting", unit="file"):
        if size:
            models[f"{precision}-{size[0]}x{size[1]}"] = convert_extraction_to_tflite(
                network, size, FLAGS.max_keypoints, precision
            )
        else:
            models[precision] = convert_dense_to_tflite(network, precision=precision)
    paths = {short: directory / f"{name}-{short}.tflite" for short in models}
    for short, path in paths.items():
        files.write_file(path, models[short])
    return paths


def _write_saved_model(network, name: str, directory: pathlib.Path, _) -> dict[str, pathlib.Path]:
    from doap_tf.export import export_saved_model

    record = _training_record(FLAGS.model)
    return {"saved_model": export_saved_model(network, directory / name, training_record=record)}


#: What writes a network in each format, given its name, the folder and groups to calibrate on;
#: returns the files by short names. Formats that need optional packages come first: if one is
#: missing, nothing is written.
FORMATS = {"onnx": _write_onnx, "tflite": _write_tflite, "saved_model": _write_saved_model}


def _export_keypoints(network, name: str, directory: pathlib.Path) -> None:
    from doap_tf.export import convert_keypoints_to_tflite

    if FLAGS.formats != ["tflite"] or FLAGS.benchmark:
        raise InputError(
            f"{FLAGS.model} scores keypoints: give --formats=tflite and no --benchmark. The "
            "SavedModel of a descriptor detects keypoints too."
        )
    models = {f"{name}.tflite": convert_keypoints_to_tflite(network)}
    for text in FLAGS.image_sizes:
        height, width = map(int, text.split("x"))
        models[f"{name}-{text}.tflite"] = convert_keypoints_to_tflite(network, (height, width))
    for file, model in models.items():
        files.write_file(directory / file, model)
        print(directory / file)


def _check_flags() -> None:
    """Checks the flags before anything is loaded."""
    for flag in ("model", "export_dir"):
        if not FLAGS[flag].value:
            raise InputError(f"give --{flag}: {FLAGS[flag].help}")
    _check_list("formats", FORMATS)
    _check_list("precisions", PRECISIONS)
    if not all(size.isdecimal() and 0 < int(size) <= _MAX_BATCH for size in FLAGS.batch_sizes):
        raise InputError(
            f"--batch_sizes must be numbers from 1 to {_MAX_BATCH}, not "
            f"{','.join(FLAGS.batch_sizes)}."
        )
    if not all(re.fullmatch(r"[1-9]\d*x[1-9]\d*", size) for size in FLAGS.image_sizes):
        raise InputError(
            f"--image_sizes must be like 480x640, height first, not {FLAGS.image_sizes}."
        )
    if FLAGS.max_keypoints < 1:
        raise InputError(f"--max_keypoints must be positive, not {FLAGS.max_keypoints}.")
    if FLAGS.name and (pathlib.PurePath(FLAGS.name).name != FLAGS.name or FLAGS.name == ".."):
        raise InputError(f"--name must be a plain name, not {FLAGS.name!r}.")


def _check_list(flag: str, known: Iterable[str]) -> None:
    values = FLAGS[flag].value or []
    unknown = [value for value in values if value not in known]
    if unknown or not values:
        raise InputError(
            f"--{flag} must be some of {', '.join(known)}, not {', '.join(unknown) or 'none'}."
            f"{suggestion(unknown[0], known) if unknown else ''}"
        )


def _name_of(model: str) -> str:
    """The last part of a path without .keras; the folder's name for a file model.keras."""
    path = pathlib.Path(model).resolve()
    return path.parent.name if path.name == runs.MODEL else path.name.removesuffix(".keras")


def _training_record(model: str) -> dict[str, Any] | str | None:
    """The card of a network that ships, or the record in the folder of the model's run."""
    if model in ENTRIES:
        return ENTRIES[model].file(".md").read_text("utf-8").partition("\n")[2].strip()
    path = pathlib.Path(model)
    folder = path if path.is_dir() else path.parent
    return runs.read_record(folder) if runs.has_record(folder) else None


def run() -> None:
    command_line.run(main)
