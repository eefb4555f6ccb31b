import json
import pathlib
import re
import subprocess
import sys

import cv2

ROOT = pathlib.Path(__file__).parents[1]


def test_comparison_with_sift(tmp_path):
    picture = tmp_path / "matches.jpg"
    done = subprocess.run(
        [sys.executable, "examples/compare_with_sift.py", f"--output={picture}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"([\w-]+): (\d+) of (\d+) matches right", done.stdout)
    (_, right1, all1), (_, right2, all2) = counts
    assert [name for name, *_ in counts] == ["rootsift", "doap-128"]
    assert int(right2) > int(right1) > 100
    assert int(right2) / int(all2) > int(right1) / int(all1) + 0.05
    assert cv2.imread(str(picture)).shape[1] > 1000


def test_the_sheet_of_changes_of_appearance(tmp_path):
    picture = tmp_path / "appearance.jpg"
    command = [sys.executable, "examples/draw_appearance.py", f"--output={picture}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        cv2.imread(str(picture)).shape
        == cv2.imread(str(ROOT / "docs/pictures/appearance.jpg")).shape
    )


def test_the_tour_is_stored_as_it_runs():
    """`make notebook` runs it; what is stored has every result and small pictures."""
    path = ROOT / "examples/tour.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "stream"}
    assert sum("image/jpeg" in output.get("data", {}) for output in outputs) >= 4
    assert path.stat().st_size < 1_000_000
