import configparser
import errno
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import pytest
from absl import app, flags
from absl.testing import flagsaver

import doap_tf
from doap_tf import command_line
from doap_tf.__main__ import COMMANDS
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


def test_all_flags_and_the_version_are_no_errors(capsys):
    app.define_help_flags()
    for flag, wanted in (("--helpfull", "--verbosity"), ("--version", doap_tf.__version__)):
        with pytest.raises(SystemExit) as end, flagsaver.flagsaver():
            command_line._parse(["x", flag])
        assert not end.value.code
        assert wanted in capsys.readouterr().out


def test_unknown_flags_and_arguments_are_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/doap-match"])
    line = said_by(lambda: command_line._parse(["x", "--versoin"]), capsys)
    assert "Did you mean: version" in line and "(doap-match --help lists the flags)" in line
    with flagsaver.flagsaver():
        flags.DEFINE_enum("fruit", "apple", ["apple", "pear"], "What to eat.")
        line = said_by(lambda: command_line._parse(["x", "--fruit=aple"]), capsys)
    assert line.startswith("error: --fruit must be one of apple, pear, not 'aple'. Did you mean ap")
    line = said_by(lambda: command_line._parse(["x", "a.jpg"]), capsys)
    assert "unexpected arguments: a.jpg" in line
    assert command_line._parse(["x", "a", "--version=0", "b"], True) == ["x", "a", "b"]


def test_the_package_runs_its_commands():
    def run(*arguments):
        command = [sys.executable, "-m", "doap_tf", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    listed = run().stdout
    assert all(f"  {name} " in listed for name in COMMANDS)
    assert "\nusage: python -m doap_tf match [IMAGE IMAGE" in run("match", "-h").stdout
    wrong = run("mach")
    assert wrong.returncode == 2 and wrong.stderr.endswith("Did you mean match?\n")


def test_only_a_command_silences_libraries():
    """Not the import of a module, which would speak for the whole program."""
    script = (
        "import os, sys; sys.argv.append('--verbosity=0'); before = dict(os.environ)\n"
        "from doap_tf import command_line\n"
        "sys.argv.pop()\n"
        "from absl import logging\n"
        "assert os.environ == before and logging.get_verbosity() == -1\n"
        "def main(argv):\n"
        "    assert os.environ['TF_CPP_MIN_LOG_LEVEL'] == '3'\n"
        "    logging.info('for developers')\n"
        "    logging.warning('for users')\n"
        "command_line.run(main)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0 and done.stderr == "WARNING: for users\n"


def test_tensorflow_is_quiet_though_a_command_imports_it_before_it_starts():
    script = (
        "import doap_tf.commands.train_dense, tensorflow as tf\n"
        "assert 'doap_tf.losses' in __import__('sys').modules\n"
        "tf.config.list_physical_devices('GPU'), tf.constant(1.0) + 1\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0 and not done.stderr


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
    named = re.sub(r"(?m)^(\s*|usage: )-c\b", rf"\1python {name}_main.py", installed.stdout)
    assert named == file.stdout


def test_commands_are_declared():
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg")
    scripts = declared["options.entry_points"]["console_scripts"].strip().split("\n")
    modules = {name: name.replace("-", "_") for name in COMMANDS}
    assert sorted(scripts) == sorted(
        f"doap-{name} = doap_tf.commands.{modules[name]}:run" for name in COMMANDS
    )
    assert all((ROOT / f"doap_tf/commands/{module}.py").exists() for module in modules.values())


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} train_main.py --help | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.count("\n") == 1 and not done.stderr
