"""The README's example; what it names is looked for in test_docs.py."""

import pathlib
import re

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_the_keras_example_raises_average_precision():
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    (code,) = (block for block in blocks if ".fit(" in block)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["after"] > names["before"] + 0.02
