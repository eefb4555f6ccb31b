import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf import tflite_metadata
from doap_tf.networks import DescriptorNetwork, KeypointNetwork
from doap_tf.patch_generation import GroupSettings, sample_groups

ROOT = pathlib.Path(__file__).parents[2]


def _run(*flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "export_main.py", *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_exports_and_measures_a_training_directory(groups, tmp_path):
    run = tmp_path / "my-run"
    run.mkdir()
    tf.keras.utils.set_random_seed(0)
    network = DescriptorNetwork(16, width=0.1)
    network.build((None, 32, 32, 1))
    network.save(run / "model.keras")
    (run / "train.json").write_text('{"seed": 11}')
    groups.save(tmp_path / "groups")
    done = _run(
        f"--model={run}",
        f"--export_dir={tmp_path / 'exports'}",
        f"--groups={tmp_path / 'groups'}",
        "--precisions=int8",
        "--batch_sizes=4",
        "--benchmark",
    )
    assert done.returncode == 0, done.stderr
    written = {
        "my-run",
        "my-run-int8.tflite",
        "my-run-int8-batch4.tflite",
        "my-run-benchmark.json",
    }
    assert {entry.name for entry in (tmp_path / "exports").iterdir()} == written
    card = (tmp_path / "exports" / "my-run" / "1" / "assets.extra" / "MODEL_CARD.md").read_text()
    assert '"seed": 11' in card
    record = json.loads((tmp_path / "exports" / "my-run-benchmark.json").read_text())
    assert record["weights_sha256"] == doap_tf.Descriptor(network).weights_sha256
    models = ["keras", "int8", "int8-batch4", "saved_model"]
    assert list(record["scores"]) == models
    for model, scores in record["scores"].items():
        assert f"| {model} |" in done.stdout
        assert scores["cosine_mean"] > 0.99
        assert min(scores["ms_1"], scores["ms_100"], scores["ms_1000"]) > 0
    size = (tmp_path / "exports" / "my-run-int8.tflite").stat().st_size
    assert record["scores"]["int8"]["bytes"] == size


# A program of another package, with a format of its own.
OTHER_FORMAT = """
from doap_tf.commands import export

def write_sizes(network, name, directory, groups):
    path = directory / f"{name}.txt"
    path.write_text(f"{network.input_size}\\n{export._training_record(name)}", "utf-8")
    return {"sizes": path}

export.FORMATS["sizes"] = write_sizes
export.run()
"""


def test_a_format_from_outside_the_package_and_the_card_of_a_network_that_ships(tmp_path):
    flags = ["--model=doap-tiny-256b", f"--export_dir={tmp_path}", "--formats=sizes"]
    command = [sys.executable, "-c", OTHER_FORMAT, *flags]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    size, *record = (tmp_path / "doap-tiny-256b.txt").read_text("utf-8").splitlines()
    assert size == "32"
    assert str(tmp_path / "doap-tiny-256b.txt") in done.stdout
    shipped = (ROOT / "doap_tf/weights/doap-tiny-256b.md").read_text("utf-8")
    (training,) = (line for line in shipped.splitlines() if line.startswith("- **Training**"))
    assert training in record


@pytest.mark.slow
def test_a_network_that_ships_needs_no_groups(tmp_path):
    done = _run(
        *("--model=doap-tiny-256b", f"--export_dir={tmp_path}", "--formats=tflite"),
        *("--precisions=int8", "--batch_sizes="),
    )
    assert done.returncode == 0, done.stderr
    assert "sample photographs" in done.stdout
    exported = doap_tf.from_pretrained(tmp_path / "doap-tiny-256b-int8.tflite")
    patches = sample_groups(GroupSettings(32)).reshape(-1, 32, 32)[:200]
    expected = doap_tf.from_pretrained("doap-tiny-256b").describe(patches)
    differing = np.bitwise_count(expected ^ exported.describe(patches)).sum(axis=1)
    assert differing.mean() < 0.05 * exported.dimension


@pytest.mark.slow
def test_a_keypoint_network_becomes_files_for_any_and_for_fixed_sizes(tmp_path):
    run = tmp_path / "corners"
    run.mkdir()
    network = KeypointNetwork(filters=(4,))
    network.build((None, None, None, 1))
    network.save(run / "model.keras")
    flags = (f"--model={run}", f"--export_dir={tmp_path / 'out'}")
    done = _run(*flags, "--formats=tflite", "--image_sizes=32x48")
    assert done.returncode == 0, done.stderr
    sizes = {
        path.name: tflite_metadata.read(path.read_bytes())["image_size"]
        for path in (tmp_path / "out").iterdir()
    }
    assert sizes == {"corners.tflite": None, "corners-32x48.tflite": [32, 48]}
    refused = _run(*flags, "--formats=saved_model,tflite")
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "--formats=tflite" in refused.stderr
    (tmp_path / "file").touch()
    refused = _run(*flags, f"--export_dir={tmp_path / 'file'}", "--formats=tflite")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"error: {tmp_path / 'file'} cannot be written (")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--export_dir=out"], "give --model"),
        (["--model=m"], "give --export_dir"),
        (["--model=m", "--export_dir=out", "--formats=saved_model,coreml"], "coreml"),
        (["--model=m", "--export_dir=out", "--precisions=int4"], "int4"),
        (["--model=m", "--export_dir=out", "--batch_sizes=0"], "--batch_sizes"),
        (["--model=m", "--export_dir=out", "--image_sizes=480"], "480x640"),
        (["--model=m", "--export_dir=out", "--formats=saved_model", "--name=a/b"], "a/b"),
        (["--model=m", "--export_dir=out", "--formats=saved_model", "--name=.."], "'..'"),
        (["--model=m", "--export_dir=out", f"--batch_sizes={10**20}"], "--batch_sizes"),
    ],
)
def test_bad_flags_end_in_one_line(flags, message):
    done = _run(*flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert not (ROOT / "out").exists()
