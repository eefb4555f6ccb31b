"""`doap_tf.datasets` is found in a clone; `.ci/use_wheel` looks for it in a wheel."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATASETS = ("hpatches", "oxford_affine", "rome_patches", "ubc_phototour")

IMPORT = f"""
import importlib, pathlib, sys
import datasets
assert datasets.__file__.startswith(sys.argv[1]), datasets.__file__
from doap_tf.data.builders import builder
for name in {DATASETS}:
    made = builder(name, data_dir=sys.argv[1] + "/data")
    assert made.name == name and made.info.description and made.info.citation, name
    assert made.get_metadata().tags == ["content.data-type.image"], name
from doap_tf.datasets.hpatches import split_sequences
assert len(split_sequences("full")) == 116
print(pathlib.Path(importlib.import_module("doap_tf.datasets.hpatches").__file__).parent)
"""


def test_a_clones_builders_live_beside_another_package_called_datasets(tmp_path):
    other = tmp_path / "site" / "datasets"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    finished = subprocess.run(
        [sys.executable, "-c", IMPORT, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(other.parent)},
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == str(ROOT / "datasets" / "hpatches")
