"""`tfds build` and `tfds.load`, as TFDS documents them, in processes of their own."""

import os
import pathlib
import subprocess
import sys

import pytest

DATASETS = pathlib.Path(__file__).resolve().parents[2] / "datasets"
NAMES = [path.parent.name for path in DATASETS.glob("*/*_dataset_builder.py")]

# What `tfds build` calls; the whole of `tfds` needs the packages of the extra tfds-cli.
BUILD = """
import sys
from tensorflow_datasets.scripts.cli import build, cli_utils
cli_utils.make_flags_parser(build.Args, description="build")(sys.argv).execute()
"""


def run(*command, cwd):
    finished = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(DATASETS.parent)},
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def prepared(data_dir):
    return {
        path.parent.relative_to(data_dir).as_posix().split("/1.")[0]
        for path in data_dir.rglob("dataset_info.json")
    }


@pytest.mark.slow
def test_every_builder_is_built_from_its_folder(tmp_path):
    # TFDS reads no argument as "", the current folder.
    folders = ["", *("../" + name for name in NAMES if name != "rome_patches")]
    (tmp_path / "manual").mkdir()
    for name in NAMES:
        (tmp_path / "manual" / name).symlink_to(DATASETS / name / "dummy_data")
    output = run(
        *("-c", BUILD, *folders, "--add_name_to_manual_dir", f"--manual_dir={tmp_path / 'manual'}"),
        *(f"--data_dir={tmp_path / 'data'}", "--max_examples_per_split=1"),
        cwd=DATASETS / "rome_patches",
    )
    scenes = ("liberty", "notredame", "yosemite")
    hashed = {name for name in prepared(tmp_path / "data") if name[-17:-16] == "_"}
    assert sorted(name[:-17] for name in hashed) == [
        "colmap_patches/observed",
        "colmap_patches/projected",
        "photo_patches/photos",
    ]
    assert prepared(tmp_path / "data") - hashed == {
        "hpatches",
        "oxford_affine/hpatches_sequences",
        "oxford_affine/oxford",
        "rome_patches",
        *(f"ubc_phototour/{scene}" for scene in scenes),
        *(f"ubc_phototour/{scene}_pairs" for scene in scenes),
    }
    assert "preparing photo_patches (12 photographs of scikit-image, 65 pixels) in " in output


@pytest.mark.slow
def test_one_import_lets_tfds_load_builders_by_name(tmp_path):
    load = """
import sys
import doap_tf.datasets
assert "tensorflow" not in sys.modules
import tensorflow_datasets as tfds
data_dir, *sources = sys.argv[1:]
for name, source in zip(["rome_patches", "ubc_phototour/liberty_pairs"], sources):
    loaded = tfds.load(name, data_dir=data_dir, builder_kwargs={"source": source})
    print({split: len(examples) for split, examples in sorted(loaded.items())})
"""
    sources = [DATASETS / name / "dummy_data" for name in ("rome_patches", "ubc_phototour")]
    output = run("-c", load, tmp_path, *sources, cwd=tmp_path).splitlines()
    assert "{'test': 2, 'train': 2}" in output and "{'test': 4}" in output


def test_the_command_builds_by_name(tmp_path):
    for package in ("apache_beam", "mlcroissant"):
        pytest.importorskip(package, reason="pip install 'doap_tf[tfds-cli]'")
    run(
        *("-m", "tensorflow_datasets.scripts.cli.main", "build", "rome_patches"),
        *("--imports=doap_tf.datasets", f"--manual_dir={DATASETS / 'rome_patches/dummy_data'}"),
        f"--data_dir={tmp_path}",
        cwd=tmp_path,
    )
    assert prepared(tmp_path) == {"rome_patches"}
