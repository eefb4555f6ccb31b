"""Documentation: commands parse, links resolve, names exist, layers hold, examples run."""

import ast
import functools
import importlib.util
import json
import pathlib
import pkgutil
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
import doap_tf.datasets
from doap_tf.data import PatchGroups
from doap_tf.losses import FORMS, histogram_average_precision, relations
from doap_tf.networks import DescriptorNetwork

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/*.md",
        "docs/experiments/*.md",
        "datasets/*/README.md",
        "doap_tf/**/weights/*.md",
        "serving/README.md",
    )
    for path in sorted(ROOT.glob(pattern))
}
# Without commands of an earlier revision.
EVERYTHING = re.sub(r"(?ms)^```\ngit checkout .*?^```$", "", "\n".join(PAGES.values()))
BEAM = {"doap_tf.beam", "doap_tf.matching.beam_pipeline"}
NOT_INSTALLED = set() if importlib.util.find_spec("apache_beam") else BEAM


def section(page, title):
    """The text below a heading, up to the next one."""
    text = PAGES[f"docs/{page}"]
    return re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^##+ |\Z)", text, re.S | re.M)[1]


def code_block(page, title, number=0):
    """A Python block of a section."""
    return re.findall(r"```python\n(.*?)```", section(page, title), re.S)[number]


def run_block(page, title, number=0, **names):
    """Runs a Python block of a section; returns the names it defines."""
    exec(compile(code_block(page, title, number), f"{page}, {title}", "exec"), names)
    return names


# What pages name


@functools.cache
def flags_of(command):
    """The flags of a command by its own help, of a script by its source."""
    if command.endswith("_main.py") or command.startswith("doap_tf."):
        program = [command] if command.endswith(".py") else ["-m", command]
        asked = [sys.executable, *program, "--helpfull"]
        text = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout
        return {name.removeprefix("[no]") for name in re.findall(r"^  --([][\w]+)", text, re.M)}
    text = (ROOT / command).read_text() + (ROOT / "benchmarks/measuring.py").read_text()
    return set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', text))


def test_commands_take_their_flags():
    program = "(?:python|doap-(?:evaluate|export|match|prepare|train)) "
    commands = re.findall(rf"`({program}[^`]+)`|^({program}.*)$", EVERYTHING, re.M)
    assert len(commands) >= 40
    for command in map("".join, commands):
        installed = re.sub(r"^doap-(\w+)", r"python \1_main.py", command)
        _, script, *arguments = shlex.split(installed.replace(" -m ", " "), comments=True)
        for argument in arguments:
            if argument.startswith("--"):
                flag = argument[2:].partition("=")[0]
                known = flags_of(script)
                assert flag in known or flag.removeprefix("no") in known, (command, flag)


def test_files_exist():
    # Without tables of contents and targets of links, which are relative to their page.
    text = re.sub(r"```{toctree}.*?```|\]\(.*?\)", "", EVERYTHING, flags=re.S)
    folders = "benchmarks|datasets|doap_tf|docs|examples|experiments|flags|serving|tests"
    named = set(re.findall(rf"(?<![\w./-])((?:{folders})/[\w./*-]*\w)", text))
    assert len(named) >= 40
    invented = re.compile("my_patches|NAME|serving/models")
    for path in named:
        assert invented.search(path) or list(ROOT.glob(path)), path


def anchors(path):
    for title in re.findall(r"^#+ (.*)$", path.read_text(), re.M):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        for link in re.findall(r"\]\((?!https?:)(.*?)\)", text):
            path, _, anchor = link.partition("#")
            target = (ROOT / page).parent / path if path else ROOT / page
            assert target.exists(), (page, link)
            assert not anchor or anchor in anchors(target), (page, link)


def test_modules_and_names_exist():
    pages = EVERYTHING + "".join(page.read_text() for page in (ROOT / "docs/api").glob("*.md"))
    named = set(re.findall(r"(?<![\w/.])doap_tf(?:\.[A-Za-z_]\w*)+", pages))
    assert len(named) >= 40
    for name in named - {"doap_tf.json", "doap_tf.md"} - NOT_INSTALLED:
        assert pkgutil.resolve_name(name) is not None, name


def test_networks_ship():
    named = re.findall(r"doap-(?:st-|mobile-|fast-|tiny-)?\d+b?(?:-patch)?\b", EVERYTHING)
    assert set(named) <= set(doap_tf.list_pretrained())


# Architecture


def units():
    """Modules and packages of doap_tf with the files that belong to them."""
    for path in [*ROOT.glob("doap_tf/**/*.py"), *ROOT.glob("datasets/**/*.py")]:
        parts = path.relative_to(ROOT).parts
        if not path.name.endswith("_test.py"):
            yield "datasets" if parts[0] == "datasets" else parts[1].removesuffix(".py"), path


def imported_units(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "doap_tf":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("doap_tf."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("doap_tf."))


def test_layers_import_from_above_only():
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", section("architecture.md", "Layers"), re.M)
    layers = {name: int(layer) for layer, names in rows for name in re.findall(r"`(\w+)`", names)}
    files = [(unit, path) for unit, path in units() if unit != "__init__"]
    assert layers.keys() == {unit for unit, _ in files}
    for unit, path in files:
        for other in imported_units(path):
            assert other == unit or layers[other] < layers[unit], f"{path} imports {other}"


def test_the_library_names_no_flags():
    allowed = {"--always", "--dirty", "--abbrev"}  # git's
    for unit, path in units():
        if unit not in ("command_line", "commands", "__main__"):  # which read the flags
            assert set(re.findall(r"--[a-z_]{3,}", path.read_text())) <= allowed, path


def test_everything_public_has_a_docstring():
    for unit, path in units():
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree) or not tree.body, path
        for node in tree.body if unit != "commands" else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path}: {node.name}"


# The code of the pages


def test_the_worked_example():
    names = run_block("method.md", "A worked example")
    descriptors, related = names["descriptors"], relations(names["groups"])
    text = section("method.md", "A worked example")
    for form in FORMS:
        precisions = histogram_average_precision(
            descriptors, descriptors, related, distance="hamming", bins=4, form=form
        ).numpy()
        for precision in precisions:
            assert f"| {precision:.4f} |" in text
    assert f"loss {float(names['loss']):.4f}" in text


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """The folder in which the first example has run."""
    folder = tmp_path_factory.mktemp("howto")
    generator = np.random.default_rng(0)
    places = generator.integers(0, 256, [24, 1, 8, 8]).repeat(2, 1)
    patches = np.kron(places, np.ones([4, 4])) + generator.normal(0, 20, [24, 2, 32, 32])
    np.save(folder / "patches.npy", patches.clip(0, 255).astype(np.uint8).reshape(48, 32, 32))
    np.save(folder / "group.npy", np.repeat(np.arange(24), 2))
    np.save(folder / "image.npy", np.repeat(np.arange(3), 16))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run_block("howto.md", "Use your own patches")
    return folder


def test_own_patches(groups):
    loaded = PatchGroups.load(groups / "my_groups")
    assert loaded.group_count == 24 and loaded.sequence_names == ("image 0", "image 1", "image 2")


def test_a_dataset(tmp_path, monkeypatch):
    folder = tmp_path / "builders/my_patches"
    folder.mkdir(parents=True)
    builder = folder / "my_patches_dataset_builder.py"
    builder.write_text(code_block("howto.md", "Add a dataset"))
    (folder / "README.md").write_text("My patches.")
    for name in ("CITATIONS.bib", "TAGS.txt", "__init__.py"):
        (folder / name).touch()
    builders = [*doap_tf.datasets.__path__, str(folder.parent)]
    monkeypatch.setattr(doap_tf.datasets, "__path__", builders)
    (tmp_path / "folder_of_my_patches").mkdir()
    patches = np.random.default_rng(0).integers(0, 256, [5, 8, 64, 64], np.uint8)
    np.save(tmp_path / "folder_of_my_patches/my_patches.npy", patches)
    monkeypatch.chdir(tmp_path)
    prepared = run_block("howto.md", "Add a dataset", 1)["groups"]
    assert prepared.patches.shape == (40, 32, 32) and prepared.group_count == 5
    assert prepared.sequence_names == ("walk 0", "walk 1", "walk 2")


def test_a_loss():
    loss_class = run_block("howto.md", "Add a loss")["ContrastiveLoss"]
    loss = loss_class.from_config(loss_class(temperature=0.2).get_config())
    labels = np.array([0, 0, 0, 1, 1, 2])  # the last one has no positive
    rows = tf.math.l2_normalize(np.random.default_rng(0).normal(size=[6, 4]), axis=1)
    similar = np.exp(rows @ tf.transpose(rows) / 0.2) * (1 - np.eye(6))
    shares = similar / similar.sum(axis=1, keepdims=True)
    positive = (labels == labels[:, np.newaxis]) & ~np.eye(6, dtype=bool)
    wanted = [-np.log(shares[query, positive[query]]).mean() for query in range(5)]
    assert float(loss(labels, tf.cast(rows, tf.float32))) == pytest.approx(np.mean(wanted), 1e-5)


def test_a_benchmark(groups, monkeypatch):
    monkeypatch.chdir(groups)
    names = run_block("howto.md", "Add a benchmark")
    run_block("howto.md", "Add a benchmark", 1, **names)
    record = json.loads((groups / "reports/groups-my_patches/rootsift.json").read_text())
    assert 0 < record["scores"]["map"] <= 1


def test_a_head(tmp_path):
    network = run_block("howto.md", "Add a network head")["RootNetwork"](8, width=0.1)
    patches = np.random.default_rng(0).integers(0, 256, [3, 32, 32], np.uint8)
    rows = doap_tf.Descriptor(network).describe(patches)
    plain = DescriptorNetwork.call(network, patches[..., np.newaxis]).numpy()
    roots = np.sign(plain) * np.sqrt(np.abs(plain) / np.abs(plain).sum(1, keepdims=True))
    np.testing.assert_allclose(rows, roots, atol=1e-5)
    network.save(tmp_path / "network.keras")
    loaded = doap_tf.from_pretrained(tmp_path / "network.keras")
    np.testing.assert_array_equal(loaded.describe(patches), rows)


def test_effects_are_set():
    assert run_block("appearance.md", "Set the effects")["view"].dtype == np.uint8
    assert run_block("appearance.md", "Set the effects", 1)["views"].shape == (8, 64, 64)


def test_fit_raises_average_precision():
    names = run_block("howto.md", "Train with Keras")
    assert names["after"] > names["before"] + 0.02


def test_an_extractor():
    image = np.kron(np.random.default_rng(0).integers(0, 256, [12, 12]), np.ones([16, 16]))
    names = run_block("howto.md", "Match images", image=image.astype(np.uint8))
    rows = names["descriptors"]
    assert len(names["keypoints"]) == len(rows) > 0
    # Keypoints with equal rows have no mutual match.
    assert len(names["matcher"].match(rows, rows)) > 0.99 * len(rows)


def test_the_steps_of_a_collection(tmp_path, monkeypatch):
    cv2 = pytest.importorskip("cv2")
    (tmp_path / "photos").mkdir()
    values = np.random.default_rng(0).integers(0, 256, [12, 12], np.uint8)
    for name, turned in (("a.png", values), ("b.png", values[::-1])):
        image = np.kron(turned, np.ones([16, 16], np.uint8))
        cv2.imwrite(str(tmp_path / "photos" / name), image)
    monkeypatch.chdir(tmp_path)
    names = run_block("howto.md", "Match images", 1)
    assert names["pairs"] == [("a.png", "b.png")] and (tmp_path / "matches/database.db").exists()
