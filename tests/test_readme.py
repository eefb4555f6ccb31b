"""The README's first example; what it names is looked for in test_docs.py."""

import pathlib
import re

import cv2

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_the_first_example_matches_two_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    exec(compile(code, "README.md", "exec"), names)
    assert names["pair"].inliers.sum() > 500
    assert cv2.imread("matches.png") is not None
