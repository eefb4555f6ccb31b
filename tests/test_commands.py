import errno

import pytest
from absl import flags

from doap_tf import commands
from doap_tf.errors import InputError


@pytest.fixture(autouse=True)
def parsed_flags():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


def said_by(action, capsys):
    with pytest.raises(SystemExit) as end:
        action()
    assert end.value.code == commands.EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line


def raising(error):
    def main(argv):
        raise error

    return lambda: commands._guarded(main, [])


def test_bad_input_is_one_line(capsys):
    assert said_by(raising(InputError("two\n  lines")), capsys) == "error: two lines"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_refuses_is_no_bug(number, capsys):
    line = said_by(raising(OSError(number, "long\ntext", "some/file")), capsys)
    assert line.startswith("error: some/file cannot be written (")


def test_other_errors_of_the_system_are_bugs():
    with pytest.raises(FileNotFoundError):
        raising(FileNotFoundError(errno.ENOENT, "none"))()


@pytest.mark.parametrize("content", [b"--count=\xff\xfe", b"--flagfile=\0"])
def test_flag_files_that_are_no_text_are_refused(content, tmp_path, capsys):
    (tmp_path / "flags.cfg").write_bytes(content)
    line = said_by(lambda: commands._parse(["x", f"--flagfile={tmp_path / 'flags.cfg'}"]), capsys)
    assert line.startswith("error: a flag file cannot be read")
