"""Files and folders appear whole or not at all, whoever else writes or is killed."""

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from doap_tf.files import write_atomically, write_directory_atomically

KILLED = """
import os, pathlib, signal, sys
from doap_tf import files
with getattr(files, sys.argv[1])(sys.argv[2]) as temporary:
    (temporary / "half" if temporary.is_dir() else temporary).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
WRITERS = pytest.mark.parametrize("writer", [write_atomically, write_directory_atomically])


def write(writer, path, text):
    with writer(path) as temporary:
        assert temporary.name == path.name  # formats are chosen by it
        file = temporary if writer is write_atomically else temporary / "text"
        file.write_text(text)


def read(writer, path):
    return (path if writer is write_atomically else path / "text").read_text()


@WRITERS
def test_a_new_one_replaces_the_old_one_and_leaves_nothing_beside_it(writer, tmp_path):
    path = tmp_path / "deep" / "one.txt"
    for text in ("old", "new"):
        write(writer, path, text)
        assert read(writer, path) == text
        assert os.listdir(path.parent) == ["one.txt"]


@WRITERS
def test_an_error_leaves_the_old_one(writer, tmp_path):
    path = tmp_path / "one.txt"
    write(writer, path, "old")
    with pytest.raises(FileNotFoundError, match="inside"), writer(path):
        raise FileNotFoundError("inside")
    assert read(writer, path) == "old"
    assert os.listdir(tmp_path) == ["one.txt"]


@WRITERS
def test_a_full_disk_names_the_target_and_not_the_temporary_file(writer, tmp_path):
    path = tmp_path / "one.txt"
    with pytest.raises(OSError, match=f"No space: '{path}'") as full, writer(path):
        raise OSError(errno.ENOSPC, "No space")
    assert full.value.filename == str(path)


def test_a_folder_that_cannot_take_its_place_puts_the_old_one_back(tmp_path, monkeypatch):
    path = tmp_path / "one.txt"
    write(write_directory_atomically, path, "old")
    replace = os.replace

    def refuse(source, target):
        if target == path and source.name == path.name:
            raise OSError("refused")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="refused"):
        write(write_directory_atomically, path, "new")
    assert read(write_directory_atomically, path) == "old"


@WRITERS
def test_what_a_killed_writer_left_is_removed_by_the_next_after_a_day(writer, tmp_path):
    path, other = tmp_path / "one[1].txt", tmp_path / "one[1].txt2"
    write(writer, path, "old")
    for target in (path, other):
        killed = subprocess.run([sys.executable, "-c", KILLED, writer.__name__, str(target)])
        assert killed.returncode == -signal.SIGKILL
    assert read(writer, path) == "old"
    left = sorted(set(os.listdir(tmp_path)) - {path.name})
    assert len(left) == 2
    write(writer, path, "new")
    assert sorted(os.listdir(tmp_path)) == [*left, path.name]  # they might still be at work
    for name in left:
        os.utime(tmp_path / name, (0, 0))
    write(writer, path, "newer")
    assert read(writer, path) == "newer"
    (leftover,) = set(os.listdir(tmp_path)) - {path.name}
    assert leftover.startswith(f".{other.name}.")  # only the next writer of that one removes it


@WRITERS
def test_several_writers_do_not_disturb_each_other(writer, tmp_path):
    path = tmp_path / "one.txt"
    with writer(path) as temporary:
        file = temporary if writer is write_atomically else temporary / "text"
        file.write_text("slow")
        write(writer, path, "quick")
        assert read(writer, path) == "quick"
    assert read(writer, path) == "slow"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write(writer, tmp_path / "two", str(number)), range(100)))
    assert sorted(os.listdir(tmp_path)) == ["one.txt", "two"]
