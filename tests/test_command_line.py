import errno
import importlib.metadata
import logging as python_logging
import pathlib
import subprocess
import sys

import pytest
from absl import app, flags, logging

from doap_tf import command_line
from doap_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def parsed_flags():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def said_by(action, capsys):
    with pytest.raises(SystemExit) as end:
        action()
    assert end.value.code == command_line.EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line


def raising(error):
    def main(argv):
        raise error

    return lambda: command_line._guarded(main, [])


def test_bad_input_is_one_line(capsys):
    assert said_by(raising(InputError("two\n  lines")), capsys) == "error: two lines"


def test_ctrl_c_is_one_line(capsys):
    with pytest.raises(SystemExit) as end:
        raising(KeyboardInterrupt())()
    assert end.value.code == 130
    assert (
        capsys.readouterr().err == "error: stopped by Ctrl-C; files that were complete are kept.\n"
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EISDIR])
def test_a_full_disk_is_not_a_bug(number, capsys):
    line = said_by(raising(OSError(number, "long\ntext", "some/file")), capsys)
    assert line.startswith("error: some/file cannot be written (")


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 9 GiB\nfor an array"), RuntimeError("std::bad_alloc")]
)
def test_too_little_memory_is_not_a_bug(error, capsys):
    line = said_by(raising(error), capsys)
    assert line.startswith(f"error: out of memory ({str(error).splitlines()[0]}): ")


def test_other_errors_of_the_system_are_bugs():
    with pytest.raises(FileNotFoundError):
        raising(FileNotFoundError(errno.ENOENT, "none"))()


@pytest.mark.parametrize("content", [b"--count=\xff\xfe", b"--flagfile=\0"])
def test_binary_flag_files_are_refused(content, tmp_path, capsys):
    (tmp_path / "flags.cfg").write_bytes(content)
    line = said_by(
        lambda: command_line._parse(["x", f"--flagfile={tmp_path / 'flags.cfg'}"]), capsys
    )
    assert line.startswith("error: a flag file cannot be read")


@pytest.mark.parametrize("flag", ["--help", "--helpshort", "--helpfull"])
def test_help_is_not_an_error(flag, capsys):
    app.define_help_flags()
    with pytest.raises(SystemExit) as end:
        command_line._parse(["x", flag])
    assert not end.value.code
    assert capsys.readouterr().out


def test_warnings_are_shown_unless_they_are_those_of_libraries():
    command_line._silence_libraries()

    def shown(path):
        record = python_logging.LogRecord("absl", logging.WARNING, path, 1, "text", (), None)
        return logging.get_absl_handler().filter(record)

    assert shown("/home/me/tensorflow/doap_tf/datasets/rome_patches.py")
    assert shown("/venv/lib/python3.11/site-packages/doap_tf/data/samplers.py")
    assert not shown("/venv/lib/python3.11/site-packages/tensorflow_datasets/core/builder.py")


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("", "ours\n"), ("--verbosity=0", "imported\nours\n")],
)
def test_tensorflow_is_imported_quietly(flag, expected, tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os; os.write(2, b'imported\\n')")
    script = tmp_path / "main.py"
    script.write_text(
        f"import sys; sys.path.insert(1, {str(ROOT)!r})\n"
        "from doap_tf import command_line\n"
        "def main(argv):\n"
        "    import tensorflow\n"
        "    sys.stderr.write('ours\\n')\n"
        "command_line.run(main)\n"
    )
    done = subprocess.run(
        [sys.executable, script, *filter(None, [flag])], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == expected


@pytest.mark.parametrize("name", ["evaluate", "export", "match", "prepare", "train"])
def test_installed_commands_and_files_are_the_same(name):
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=f"doap-{name}")
    assert entry.value == f"doap_tf.commands.{name}:run"
    arguments = [sys.executable, "-c", f"from doap_tf.commands.{name} import run; run()", "--help"]
    installed = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    file = subprocess.run(
        [sys.executable, f"{name}_main.py", "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert installed.returncode == file.returncode == 0
    assert "  --model" in file.stdout or "  --dataset" in file.stdout
    assert installed.stdout.replace("\n-c:", f"\n{name}_main.py:") == file.stdout


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} train_main.py --help | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.count("\n") == 1 and not done.stderr
