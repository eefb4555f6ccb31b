"""Flag files run on data in the official layouts."""

import json
import re
import subprocess
import sys

import pytest

import doap_tf
from doap_tf.datasets.hpatches import split_sequences
from tests import layouts
from tests.training import launch

FLAG_FILES = sorted((launch.REPOSITORY / "flags").glob("*.cfg"))
PRETRAINED = [file for file in FLAG_FILES if file.stem in doap_tf.list_pretrained()]
OTHER_COMMANDS = [launch.REPOSITORY / "flags" / f"{name}.cfg" for name in ("dense", "keypoints")]
PAPER = [file for file in FLAG_FILES if file.stem.split("_")[0] in ("hpatches", "rome", "ubc")]
TWO_REPLICAS = ("hpatches", "ubc_st")


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Writes small data of a dataset when they are first asked for."""
    folder = tmp_path_factory.mktemp("sources")

    def source(name: str, large: bool) -> str | None:
        path = folder / f"{name}-{large}"
        if name in ("photos", "quickstart"):
            return None  # the photographs of scikit-image
        if not path.exists():
            if name.startswith("ubc"):
                layouts.write_ubc(path, groups=500 if large else 60)
            elif name.startswith("rome"):
                layouts.write_rome(path, groups=120 if large else 60)
            else:
                sequences = split_sequences("a", "train")[: None if large else 4]
                layouts.write_hpatches(path, sequences, positions=33 if large else 4)
        return str(path)

    return source


def check_runs(flag_file, sources, tmp_path, *more, large):
    kind = "ubc" if flag_file.stem.startswith("ubc") else flag_file.stem.split("_")[0]
    source = sources(kind, large)
    two = flag_file.stem in TWO_REPLICAS
    flags = [f"--flagfile={flag_file}", f"--data_dir={tmp_path / 'data'}"]
    flags += [f"--train_dir={tmp_path / 'run'}", *more]
    flags += [f"--source={source}"] if source else []
    flags += ["--strategy=mirrored"] if two else []
    launch.train(*flags, logical_cpus=2 if two else 1)
    record = json.loads((tmp_path / "run" / "train.json").read_text())
    assert record["replicas"] == (2 if two else 1)
    losses = [entry["loss"] for entry in record["history"] if "loss" in entry]
    assert losses and all(0 <= loss <= 1 for loss in losses)
    assert record["model"] == ("last" if flag_file in PAPER else "best")
    assert (tmp_path / "run" / "matches.png").exists()
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, tensorflow as tf; model = tf.saved_model.load(sys.argv[1]);"
            "size = int(sys.argv[2]); patches = tf.random.uniform([3, size, size, 1]);"
            "outputs = model.signatures['serving_default'](patches);"
            "print([value.shape[0] for value in outputs.values()])",
            str(tmp_path / "run" / "saved_model" / "1"),
            "65",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,  # where doap_tf cannot be found but as an installed package
    )
    assert loaded.returncode == 0, loaded.stderr[-2000:]
    assert "[3" in loaded.stdout


@pytest.mark.parametrize(
    "name, more",
    [
        # README's own commands are also run by .ci/printed_commands.
        pytest.param("hpatches", ["--split=all"], marks=pytest.mark.slow),
        pytest.param("rome_binary", [], marks=pytest.mark.slow),
        pytest.param("ubc_st", ["--config=yosemite"], marks=pytest.mark.slow),
    ],
)
def test_small(name, more, sources, tmp_path):
    flag_file = launch.REPOSITORY / "flags" / f"{name}.cfg"
    small = ("--width=0.125", "--batch_size=48", "--steps=2", *more)
    check_runs(flag_file, sources, tmp_path, *small, large=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flag_file",
    [
        file
        for file in FLAG_FILES
        if not file.stem.startswith("doap-") and file not in OTHER_COMMANDS
    ],
    ids=lambda file: file.stem,
)
def test_unchanged(flag_file, sources, tmp_path):
    check_runs(flag_file, sources, tmp_path, "--steps=20", large=True)


def check_pretrained(flag_file, tmp_path, *more):
    """Trains on other groups, of the size that the flag file names."""
    size = 42 if "-st-" in flag_file.stem else 32
    cut = "groups5" if flag_file.stem.endswith("-patch") else "groups"
    given = dict(re.findall(r"^--(\w+)=(.*)$", flag_file.read_text(), re.M))
    parts = given["groups"].split(",")
    former = [f"{cut}/photos{size}", f"groups/photos{size}-half", f"{cut}/webcam{size}"]
    assert parts[:3] == former or parts[:2] == ["groups/photos-camera-up", "groups/photos-half"]
    groups = str(tmp_path / "groups")
    launch.make_groups(size=size).save(groups)
    flags = [f"--flagfile={flag_file}", f"--groups={','.join([groups] * len(parts))}", *more]
    flags += [f"--validation_groups={groups}", f"--train_dir={tmp_path / 'run'}"]
    if "runs/" in given.get("teacher", ""):
        flags += [f"--teacher={flag_file.stem}"]
    launch.train(*flags)
    trained = doap_tf.from_pretrained(tmp_path / "run").to_keras()
    shipped = doap_tf.from_pretrained(flag_file.stem).to_keras()
    assert trained.get_config() == shipped.get_config() | {"width": trained.width}


@pytest.mark.slow
def test_a_shipped_network_is_what_its_flag_file_trains(tmp_path):
    flag_file = launch.REPOSITORY / "flags" / "doap-st-256b.cfg"
    small = ("--sampler=groups", "--batch_size=48", "--steps=1", "--width=0.125")
    check_pretrained(flag_file, tmp_path, *small)


@pytest.mark.slow
@pytest.mark.parametrize("flag_file", PRETRAINED, ids=lambda file: file.stem)
def test_every_shipped_network_is_what_its_flag_file_trains(flag_file, tmp_path):
    check_pretrained(flag_file, tmp_path, "--sampler=groups", "--batch_size=48", "--steps=2")


@pytest.mark.parametrize("flag_file", PAPER, ids=lambda file: file.stem)
def test_the_paper_trains_on_all_the_data_in_float32(flag_file):
    given = flag_file.read_text().splitlines()
    assert "--validation_fraction=0" in given and "--precision=float32" in given
    assert ("--transformer_rate=0.01" in given) == ("--spatial_transformer" in given)


def test_all_are_there_and_say_how_to_run_them():
    wanted = {"quickstart", "photos", "rome", "rome_binary", *doap_tf.list_pretrained()}
    wanted |= {"colmap", "dense", "hpatches", "hpatches_plain", "hpatches_st", "keypoints"}
    wanted |= {"ubc", "ubc_binary", "ubc_st", "ubc_st_binary"}
    assert wanted == {file.stem for file in FLAG_FILES}
    for file in FLAG_FILES:
        comments = [line for line in file.read_text().splitlines() if line.startswith("# ")]
        assert any(
            command in line
            for line in comments
            for command in ("train_main.py", "train_keypoints", "train_dense", "make quickstart")
        )
