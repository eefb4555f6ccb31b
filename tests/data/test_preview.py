import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.data.preview import contact_sheet


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "doap_tf.data.preview", *arguments],
        cwd=pathlib.Path(doap_tf.__file__).parents[1],
        capture_output=True,
        text=True,
    )


def test_rows_are_groups(make_groups):
    groups = make_groups([5, 2, 3], [0, 0, 1], side=16)
    sheet = contact_sheet(groups, [2, 0], columns=4, zoom=2)
    step = 2 * 16 + 2
    assert sheet.shape == (2 * step + 2, 150 + 4 * step)
    for i, group in enumerate([2, 0]):
        rows = groups.rows_of(group)[:4]
        for j in range(4):
            square = sheet[i * step + 2 :, 150 + j * step :][:32, :32]
            if j < len(rows):
                assert np.array_equal(square[::2, ::2], groups.patches[rows[j]])
                assert np.array_equal(square[1::2, 1::2], groups.patches[rows[j]])
            else:
                assert (square == 255).all()
        assert (sheet[i * step + 2 : (i + 1) * step, :150] < 128).any()  # the label


def test_the_command_writes_a_picture(make_groups, tmp_path):
    make_groups([3] * 9).save(tmp_path / "groups")
    output = tmp_path / "pictures" / "sheet.png"
    done = run(f"--groups={tmp_path / 'groups'}", f"--output={output}", "--rows=4", "--columns=5")
    assert done.returncode == 0, done.stderr
    assert "4 of 9 groups, 27 patches" in done.stdout
    assert cv2.imread(str(output), cv2.IMREAD_GRAYSCALE).shape == (4 * 10 + 2, 150 + 3 * 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--groups=/nowhere/groups", "--output=a.png"], "no patch groups in /nowhere/groups"),
        (["--output=a.png"], "give either --groups=FOLDER or --dataset=NAME"),
        (["--groups=g", "--output=a.jpg"], "--output=a.jpg must end in .png"),
        (["--groups=g"], "--output"),
    ],
)
def test_bad_input(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
