"""What the README promises."""

import pathlib
import re

import doap_tf

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_the_keras_example_raises_average_precision():
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    (code,) = (block for block in blocks if ".fit(" in block)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["after"] > names["before"] + 0.02


def test_every_file_it_names_is_there():
    root = pathlib.Path(__file__).parents[1]
    named = re.findall(r"\b(?:flags|benchmarks|examples|serving)/[\w./]+\.\w+", README)
    assert named
    for path in named:
        assert (root / path).exists(), path


def test_every_network_it_names_ships():
    shipped = doap_tf.list_pretrained()
    assert {"doap-128", "doap-mobile-256b"} <= set(shipped)
    assert set(re.findall(r"doap-(?:st-|mobile-)?\d+b?\b", README)) <= set(shipped)
