import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.training.checkpoints import Checkpoints


def save(checkpoints, step):
    arrays = {"weights": np.full([3, 4], step, np.float32), "count": np.array(step)}
    checkpoints.save(step, arrays, {"step": step, "name": "x"})


def test_comes_back_as_it_was(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.newest() is None
    save(checkpoints, 7)
    arrays, state = checkpoints.newest()
    assert state == {"step": 7, "name": "x"}
    np.testing.assert_array_equal(arrays["weights"], np.full([3, 4], 7))
    assert arrays["weights"].dtype == np.float32 and arrays["count"].shape == ()


def test_keeps_the_newest(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 10, 9):
        save(checkpoints, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000000009.npz",
        "step-000000010.npz",
    ]
    assert checkpoints.newest().state["step"] == 10


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_one_falls_back_to_the_one_before(tmp_path, damage, caplog):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)
    save(checkpoints, 2)
    newest = tmp_path / "step-000000002.npz"
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[content.index(np.full(3, 2, np.float32).tobytes()) + 2] ^= 0xFF
    else:
        content = b""
    newest.write_bytes(content)
    assert checkpoints.newest().state["step"] == 1
    assert "step-000000002.npz cannot be read" in caplog.text


def test_all_damaged_is_an_error(tmp_path):
    (tmp_path / "step-000000001.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="none of the checkpoints"):
        Checkpoints(tmp_path).newest()


def test_a_failed_write_leaves_the_old_one(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 1)

    def no_room(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", no_room)
    with pytest.raises(InputError, match=r"step-000000002\.npz cannot be written \(No space left"):
        save(checkpoints, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.npz"]
    assert checkpoints.newest().state["step"] == 1
