import pytest

from doap_tf import runs
from doap_tf.errors import InputError


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = {"config": {"steps": 3}, "data": "Köln", "best": None}
    assert not runs.has_record(tmp_path / "run")
    runs.write_record(tmp_path / "run", record)
    assert runs.has_record(tmp_path / "run")
    assert runs.read_record(tmp_path / "run") == record


@pytest.mark.parametrize("content", [b"", b'{"config": {', b"[1, 2]", b"\xff\xfe", b"[" * 10**6])
def test_a_damaged_record_is_refused_in_one_line(tmp_path, content):
    (tmp_path / runs.RECORD).write_bytes(content)
    with pytest.raises(InputError, match=r"train\.json is damaged \(.*\): resume") as refusal:
        runs.read_record(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(InputError, match=r"train\.json cannot be read: No such file"):
        runs.read_record(tmp_path)


def test_a_model_is_found_in_the_folder_of_a_run_or_given_as_a_file(tmp_path):
    assert runs.model_file(tmp_path) == tmp_path / "model.keras"
    assert runs.model_file(str(tmp_path), runs.KEYPOINTS) == tmp_path / "keypoints.tflite"
    assert runs.model_file(tmp_path / "other.keras") == tmp_path / "other.keras"
