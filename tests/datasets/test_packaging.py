"""`doap_tf.datasets` is found in a clone, an editable install and a wheel."""

import configparser
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATASETS = ("hpatches", "oxford_affine", "rome_patches", "ubc_phototour")

IMPORT = f"""
import importlib, pathlib, site, sys
for folder in sys.argv[2:]:
    site.addsitedir(folder)  # unlike PYTHONPATH, as an installer's folder
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


def import_with(installed, tmp_path, cwd):
    """Imports everything beside another package called `datasets`; gives where hpatches lies."""
    other = tmp_path / "site" / "datasets"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    finished = subprocess.run(
        [sys.executable, "-c", IMPORT, str(tmp_path), *installed],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(other.parent)},
    )
    assert finished.returncode == 0, finished.stderr
    return pathlib.Path(finished.stdout.splitlines()[-1])


def test_a_clone_s_builders_live_beside_another_package_called_datasets(tmp_path):
    assert import_with([], tmp_path, cwd=ROOT) == ROOT / "datasets" / "hpatches"


def test_setup_cfg_lists_every_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    packages = [file.parent.relative_to(ROOT).parts for file in ROOT.glob("doap_tf/**/__init__.py")]
    packages += [("doap_tf", "datasets")]
    packages += [
        ("doap_tf", "datasets", file.parent.name) for file in ROOT.glob("datasets/*/__init__.py")
    ]
    assert set(listed) == set(map(".".join, packages))
    assert not (ROOT / "datasets" / "__init__.py").exists()


@pytest.mark.slow
@pytest.mark.parametrize("install", ["wheel", "editable"])
def test_an_install_holds_builders_and_their_files(tmp_path, install):
    clone = tmp_path / "clone"
    for name in ("doap_tf", "datasets"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, clone)
    if install == "wheel":
        command = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(clone)]
    else:
        target = tmp_path / "target"
        command = ["install", "--no-deps", "--no-build-isolation", "--target", str(target)]
        command += ["-e", str(clone)]
    subprocess.run([sys.executable, "-m", "pip", "-q", *command], check=True)
    if install == "wheel":
        (wheel,) = tmp_path.glob("doap_tf-*.whl")
        with zipfile.ZipFile(wheel) as packed:
            tops = {name.split("/")[0] for name in packed.namelist()}
            assert {top for top in tops if not top.endswith(".dist-info")} == {"doap_tf"}
            packed.extractall(tmp_path / "target")
        weights = pathlib.Path("doap_tf", "pretrained", "weights")
        shipped = {file.name for file in (tmp_path / "target" / weights).iterdir()}
        assert shipped == {file.name for file in (ROOT / weights).iterdir()}
        expected = tmp_path / "target" / "doap_tf" / "datasets" / "hpatches"
    else:
        expected = clone / "datasets" / "hpatches"
    found = import_with([str(tmp_path / "target")], tmp_path, cwd=tmp_path)
    assert found == expected
