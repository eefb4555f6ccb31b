"""The command as users call it: what it writes, and how it refuses."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from doap_tf import command_line
from doap_tf.commands import train
from tests import layouts
from tests.training import launch


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    return launch.make_groups().save(tmp_path_factory.mktemp("groups") / "groups").directory


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of a network with a transformer, in a process that has neither OpenCV nor TFDS."""
    folder = tmp_path_factory.mktemp("finished")
    groups = dataclasses.replace(launch.make_groups(size=42), magnification=7.0)
    groups = groups.save(folder / "groups").directory
    (folder / "blocked").mkdir()
    for name in ("cv2", "tensorflow_datasets"):
        (folder / "blocked" / f"{name}.py").write_text(f"raise ImportError('{name} is blocked')")
    output = launch.train(
        f"--groups={groups}",
        f"--train_dir={folder / 'run'}",
        *launch.TINY,
        "--steps=6",
        "--spatial_transformer",
        PYTHONPATH=str(folder / "blocked"),
    )
    return folder / "run", output


@pytest.mark.slow
def test_labels_are_mined_in_groups_that_were_prepared(tmp_path):
    groups = launch.make_groups()
    groups = dataclasses.replace(
        groups, sequence=(groups.group % 2).astype(np.int32), sequence_names=("one", "two")
    ).save(tmp_path / "groups")
    launch.train(
        f"--groups={groups.directory}",
        f"--validation_groups={groups.directory}",
        f"--train_dir={tmp_path / 'run'}",
        *launch.TINY,
        "--steps=1",
        "--sampler=sequence_pairs",
        "--label_mining",
    )
    record = json.loads((tmp_path / "run" / "train.json").read_text())
    assert record["config"]["same_sequence"] == "mined"
    assert list(groups.directory.glob("mined-*.npz"))


def test_scores_are_shown(finished):
    _, output = finished
    assert "untrained" in output and "trained (" in output
    assert "152 patches in 38 groups at magnification 7, validating on 8 patches" in output


def test_the_record_tells_all(finished):
    train_dir, _ = finished
    record = json.loads((train_dir / "train.json").read_text())
    assert record["config"]["spatial_transformer"] and record["config"]["steps"] == 6
    assert record["config"]["magnification"] == 7
    assert record["environment"]["packages"]["tensorflow"] == tf.__version__
    assert len(record["data"]["train"]["sha256"]) == 64
    assert record["lists"].startswith("GroupSampler(batch_size=")
    losses = [entry["loss"] for entry in record["history"] if "loss" in entry]
    assert len(losses) == 6
    assert {"matching_map", "fpr95"} <= record["history"][0]["validation"].keys()
    assert record["best"]["step"] in (0, 6)


def test_the_best_model_is_written_twice_and_the_same(finished):
    train_dir, _ = finished
    import doap_tf

    patches = np.random.default_rng(0).integers(0, 256, [5, 42, 42]).astype(np.uint8)
    descriptor = doap_tf.from_pretrained(train_dir)
    served = tf.saved_model.load(str(train_dir / "saved_model" / "1"))
    signature = served.signatures["serving_default"]
    (got,) = signature(tf.constant(patches[..., np.newaxis], tf.float32)).values()
    np.testing.assert_allclose(got, descriptor.describe(patches), atol=1e-5)


def test_tensorboard_gets_numbers_and_pictures(finished):
    train_dir, _ = finished
    values, pictures = {}, {}
    for file in (train_dir / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                content = tf.make_ndarray(value.tensor)
                kind = value.metadata.plugin_data.plugin_name
                if kind == "scalars":
                    values.setdefault(value.tag, []).append(float(content))
                else:
                    pictures[value.tag] = tf.io.decode_png(content[2]).numpy()
    assert len(values["loss"]) == len(values["learning_rate"]) == 6
    assert values["learning_rate"] == sorted(values["learning_rate"], reverse=True)
    assert len(values["validation/matching_map"]) == 2
    assert pictures.keys() == {"patch_groups", "aligned_patches", "distances"}
    assert all(picture.std() > 10 for picture in pictures.values())


def test_a_picture_of_matches_is_written(finished):
    train_dir, _ = finished
    picture = tf.io.decode_png((train_dir / "matches.png").read_bytes()).numpy()
    assert picture.shape[2] == 3
    assert picture.std() > 10


@pytest.fixture
def refusal(capfd):
    """Runs the command in this process and gives the one line with which it refuses."""

    def run(*arguments):
        with launch.flags_of(train), pytest.raises(SystemExit) as exit_:
            argv = command_line._parse(["train_main.py", *arguments])
            command_line._guarded(train.main, argv)
        assert exit_.value.code == 2
        error = capfd.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("error: ")
        return error

    return run


def test_other_settings_do_not_resume(finished, groups, refusal):
    train_dir, _ = finished
    error = refusal(f"--groups={groups}", f"--train_dir={train_dir}", *launch.TINY, "--steps=6")
    assert "cannot be resumed: spatial_transformer was True and is False" in error


def test_a_loss_that_is_not_finite_stops_the_run(groups, tmp_path, refusal):
    flags = (f"--groups={groups}", f"--train_dir={tmp_path}", *launch.TINY, "--steps=30")
    error = refusal(*flags, "--learning_rate=1e38", "--weight_decay=1e30")
    assert "at step " in error and "learning rate" in error and "groups of arrays" in error
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flagfile=flags/no_such.cfg"], "no_such.cfg"),
        (["--no_such_flag=1"], "no_such_flag"),
        (["--steps=5"], "give --recipe, such as --recipe=photos, or either --dataset or --groups"),
        (["--groups=/no/such", "--steps=5"], "no patch groups in /no/such"),
        (
            ["--dataset=imagenet", "--steps=5"],
            "unknown dataset 'imagenet'; known are colmap_patches",
        ),
        (["--dataset=rome_patches", "--steps=5", "--split=a"], "split is not an option"),
        (["--groups=GROUPS"], "give --steps or --epochs"),
        (["--groups=GROUPS", "--steps=5", "--batch_size=4096"], "batch_size 4096 is more than"),
        (["--groups=GROUPS", "--steps=5", "--batch_size=0"], "batch_size must be at least 1"),
        (["--groups=GROUPS", "--steps=5", "--bins=-1"], "bins"),
        (["--groups=GROUPS", "--steps=5", "--trunk=vgg"], "trunk must be one of l2net, fast"),
        (["--groups=GROUPS", "--steps=5", "--schedule=slow"], "schedule must be one of"),
        (["--groups=GROUPS", "--steps=5", "--loss=triplet"], "loss must be one of average_prec"),
        (["--groups=GROUPS", "--steps=5", "--warmup=1"], "warmup must be in [0, 1), not 1"),
        (["--groups=GROUPS", "--steps=5", "--distance=cosine"], "distance must be one of"),
        (
            ["--groups=GROUPS", "--steps=5", "--head=binary", "--distance=squared"],
            "distance 'squared' is for real heads",
        ),
        (["--groups=GROUPS", "--steps=5", "--strategy=tpu"], "strategy must be one of"),
        (["--groups=GROUPS", "--steps=5", "--source=photos"], "--source is for --dataset"),
        (
            ["--groups=GROUPS", "--steps=5", "--label_mining", "--same_sequence=ignored"],
            "--label_mining contradicts --same_sequence=ignored",
        ),
        (["--groups=GROUPS", "--steps=5", "--weights=a"], "--weights must be numbers above 0"),
        (["--groups=/no/such", "--steps=5", "--teacher=none"], "teacher: 'none' is neither a file"),
        (["--groups=/no/such", "--steps=5", "--initial=none"], "initial: 'none' is neither a file"),
        (["--groups=GROUPS", "--steps=5", "--precision=mixed_bfloat16"], "requires a GPU"),
        (
            ["--groups=GROUPS", "--steps=5", "--batch_size=16", "--spatial_transformer"],
            "takes patches of 42 pixels",
        ),
        (
            ["--groups=GROUPS", "--steps=5", "--batch_size=16", "--sequence_share=1"],
            "sequence_share requires the sampler same_sequence, not groups",
        ),
        (
            ["--groups=GROUPS", "--steps=5", "--batch_size=16", "--same_sequence=mined"],
            "has no mined labels",
        ),
        (
            ["--groups=MAGNIFIED", "--steps=5", "--batch_size=16", "--magnification=5"],
            "--magnification is 5, but the patches were cut at 7",
        ),
        (["--groups=GROUPS", "--steps=5", "--magnification=0"], "magnification must be above 0"),
        (
            ["--groups=GROUPS,MAGNIFIED,HALF", "--steps=5", "--batch_size=16"],
            "cut at 3.5 and 7: give --magnification",
        ),
        (
            ["--dataset=photo_patches", "--compare=sift", "--validation_fraction=0", "--steps=5"],
            "--compare requires --dataset and a --validation_fraction above 0",
        ),
        (
            ["--groups=GROUPS", "--steps=5", "--batch_size=16", "--validation_fraction=-1"],
            "fraction for validation must be in (0, 1), not -1",
        ),
        (
            ["--groups=GROUPS", "--steps=5", "--batch_size=16", "--sampler=same_sequence"],
            "has no sequences, which the sampler same_sequence requires: choose the sampler groups",
        ),
        (["--groups=GROUPS", "--epochs=inf"], "--epochs and --decay_epochs must be finite numbers"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments, message, groups, tmp_path, refusal
):
    train_dir = tmp_path / "run"
    folders = {"GROUPS": groups}
    for name, magnification in (("MAGNIFIED", 7.0), ("HALF", 3.5)):
        known = dataclasses.replace(launch.make_groups(), magnification=magnification)
        folders[name] = known.save(tmp_path / name).directory
    for name, folder in folders.items():
        arguments = [flag.replace(name, str(folder)) for flag in arguments]
    assert message in refusal(f"--train_dir={train_dir}", *arguments)
    assert not train_dir.exists()


def load(*arguments):
    with launch.flags_of(train):
        command_line._parse(["train_main.py", *arguments])
        parts, groups, validation = train._load_groups(32)
        return groups, validation, train._magnification(parts)


def test_what_is_trained_and_validated_on(groups, tmp_path):
    layouts.write_ubc(tmp_path / "liberty", groups=20)
    dataset = ("--dataset=ubc_phototour", f"--source={tmp_path / 'liberty'}")
    dataset += (f"--data_dir={tmp_path / 'data'}",)
    everything, nothing, magnification = load(*dataset, "--validation_fraction=0")
    assert everything.group_count == 20 and nothing is None and magnification == 6
    trained, validation, _ = load(*dataset, f"--validation_groups={groups}")
    assert trained.content_hash() == everything.content_hash()
    assert validation.directory == groups
    trained, held_out, _ = load(*dataset, "--validation_fraction=0.25")
    assert (trained.group_count, held_out.group_count) == (15, 5)
    everything, nothing, _ = load(f"--groups={groups}", "--validation_fraction=0")
    assert everything.group_count == 40 and nothing is None
    _, validation, _ = load(
        f"--groups={groups}", "--validation_fraction=0", f"--validation_groups={groups}"
    )
    assert validation.group_count == 40


def test_the_magnification_of_the_network(groups, tmp_path, caplog):
    folders = [str(groups)]
    for magnification in (14.0, 7.0):
        known = dataclasses.replace(launch.make_groups(), magnification=magnification)
        folders.append(str(known.save(tmp_path / str(magnification)).directory))
    assert load(f"--groups={folders[1]}")[-1] == 14
    assert load(f"--groups={','.join(folders)}", "--magnification=7")[-1] == 7
    assert load(f"--groups={','.join(folders)}", "--magnification=3")[-1] == 3
    assert "assumed" not in caplog.text
    assert load(f"--groups={folders[0]},{folders[2]}")[-1] == 7
    assert "some patches do not say what they were cut at: magnification 7 is" in caplog.text
    assert load(f"--groups={groups}", "--magnification=3")[-1] == 3
    assert load(f"--groups={groups}")[-1] == 14
    assert "magnification 14 is assumed" in caplog.text


def test_a_directory_that_cannot_be_written_is_named(groups, tmp_path, refusal):
    (tmp_path / "file").write_text("in the way")
    error = refusal(
        f"--groups={groups}", f"--train_dir={tmp_path / 'file'}", *launch.TINY, "--steps=2"
    )
    assert f"{tmp_path / 'file'} cannot be written" in error
