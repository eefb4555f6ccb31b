"""Documentation: numbers are right, names exist, code runs."""

import ast
import importlib
import importlib.util
import inspect
import itertools
import json
import pathlib
import pkgutil
import re

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
import doap_tf.datasets
from doap_tf import metrics
from doap_tf.data import PatchGroups
from doap_tf.descriptors import load
from doap_tf.descriptors.weights_file import write_weights
from doap_tf.evaluation import Model, Result
from doap_tf.export.served_network import ServedNetwork
from doap_tf.losses import FORMS, histogram_average_precision, relations
from doap_tf.networks import DescriptorNetwork, KeypointNetwork
from doap_tf.training.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for pattern in (
        "README.md",
        "CONTRIBUTING.md",
        "docs/*.md",
        "docs/experiments/*.md",
        "datasets/*/README.md",
        "doap_tf/descriptors/weights/*.md",
        "serving/README.md",
    )
    for path in sorted(ROOT.glob(pattern))
}
EVERYTHING = "\n".join(PAGES.values())
BEAM = {"doap_tf.beam", "doap_tf.matching.beam_engine"}
NOT_INSTALLED = set() if importlib.util.find_spec("apache_beam") else BEAM
COMMANDS = {
    path.relative_to(ROOT).as_posix(): path
    for pattern in ("*_main.py", "benchmarks/*.py", "examples/*.py", "experiments/*.py")
    for path in ROOT.glob(pattern)
}


def section(page, title):
    """The text below a heading, up to the next one."""
    text = PAGES[f"docs/{page}"]
    return re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^##+ |\Z)", text, re.S | re.M)[1]


def run_block(page, title, number=0, **names):
    """Runs a Python block of a section; returns the names it defines."""
    code = re.findall(r"```python\n(.*?)```", section(page, title), re.S)[number]
    exec(compile(code, f"{page}, {title}", "exec"), names)
    return names


def table(page, title, first_column):
    """Rows, as lists of cells, of the table in a section whose first column has this name."""
    lines = iter(section(page, title).splitlines())
    for line in lines:
        if line.startswith(f"| {first_column} |"):
            next(lines)
            rows = itertools.takewhile(lambda line: line.startswith("|"), lines)
            return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    raise AssertionError(f"{page}, {title} has no table of {first_column}")


# The worked example


@pytest.fixture(scope="module")
def example():
    return run_block("method.md", "A worked example")


def as_numbers(text):
    return [float(number) for number in text.replace("−", "-").split()]


def histogram(coordinates, bins=4):
    """A soft histogram [bins + 1] by its definition."""
    centres = np.arange(bins + 1)
    return np.maximum(0, 1 - np.abs(np.asarray(coordinates)[:, np.newaxis] - centres)).sum(axis=0)


def tie_aware(distances, relation):
    """Average Precision of one query by its definition."""
    coordinates = distances / 2
    positives = histogram(coordinates[relation == 1])
    every = histogram(coordinates[relation != 0])
    found, seen = np.cumsum(positives), np.cumsum(every)
    ratios = (2 * found - positives + 1) / (2 * seen - every + 1)
    return (positives * ratios).sum() / found[-1]


def test_the_matrices_of_the_example(example):
    rows = re.findall(
        r"^([ab]\d)   ([01]{8})   (\d)        \1 +(.*?)        \1 +(.*)$",
        section("method.md", "A worked example"),
        re.M,
    )
    assert [row[1] for row in rows] == example["bits"]
    assert [int(row[2]) for row in rows] == example["groups"].tolist()
    distances = (8 - example["descriptors"] @ example["descriptors"].T) / 2
    assert [as_numbers(row[3]) for row in rows] == distances.tolist()
    assert [as_numbers(row[4]) for row in rows] == relations(example["groups"]).numpy().tolist()


def test_the_histograms_of_the_first_query():
    got = {
        row[0]: as_numbers(" ".join(row[1:]))
        for row in table("method.md", "A worked example", "a1")
    }
    positives, every = histogram([0.5, 1.5]), histogram([0.5, 1.5, 1, 2.5])
    assert got == {
        "h⁺": positives.tolist(),
        "h": every.tolist(),
        "H⁺": np.cumsum(positives).tolist(),
        "H": np.cumsum(every).tolist(),
    }


def test_the_precisions_of_all_queries(example):
    descriptors, groups = example["descriptors"], example["groups"]
    related = relations(groups).numpy()
    distances = (8 - descriptors @ descriptors.T) / 2
    precisions = {
        form: histogram_average_precision(
            descriptors, descriptors, related, distance="hamming", bins=4, form=form
        ).numpy()
        for form in FORMS
    }
    rows = table("method.md", "A worked example", "query")
    assert len(rows) == len(groups)
    for query, row in enumerate(rows):
        others = related[query] != 0
        assert (
            as_numbers(row[1])
            == np.cumsum(histogram(distances[query, related[query] == 1] / 2)).tolist()
        )
        assert as_numbers(row[2]) == np.cumsum(histogram(distances[query, others] / 2)).tolist()
        assert row[3:5] == [f"{precisions[form][query]:.4f}" for form in FORMS]
        # Ties keep their order in the list: the positives stand first in one, last in the other.
        places = np.flatnonzero(others)
        exact = [
            metrics.average_precision(
                distances[query, order], related[query, order] == 1, "mean_precision"
            )
            for order in (
                places[np.argsort(-related[query, places])],
                places[np.argsort(related[query, places])],
            )
        ]
        assert row[5] == f"{np.mean(exact):.4f}"
        np.testing.assert_allclose(
            precisions["tie_aware"][query], tie_aware(distances[query], related[query])
        )
    mean = precisions["tie_aware"].mean()
    for number in (mean, 1 - mean):
        assert f"{number:.4f}" in section("method.md", "A worked example")
    assert float(example["loss"]) == pytest.approx(1 - mean)


def test_the_gradient_of_the_first_query(example):
    descriptors = example["descriptors"]
    related = relations(example["groups"]).numpy()
    distances = (8 - descriptors[0] @ descriptors.T) / 2
    slopes = np.zeros(5)
    for patch, row in enumerate(table("method.md", "The gradient", "patch"), start=1):
        step = 1e-6  # to the right: on a centre the slope jumps
        moved = distances + step * (np.arange(5) == patch)
        slopes[patch] = (tie_aware(moved, related[0]) - tie_aware(distances, related[0])) / step
        coordinate = distances[patch] / 2
        assert as_numbers(" ".join(row[1:4])) == [distances[patch], coordinate, coordinate // 1]
        assert row[4].replace("−", "-") == f"{slopes[patch]:+.4f}"
    queries = tf.constant(descriptors)
    with tf.GradientTape() as tape:
        tape.watch(queries)
        first = histogram_average_precision(
            queries, tf.constant(descriptors), related, distance="hamming", bins=4
        )[0]
    np.testing.assert_allclose(
        tape.gradient(first, queries)[0], -0.5 * slopes @ descriptors, rtol=1e-4, atol=1e-7
    )


def test_the_two_kinds_of_average_precision():
    text = section("protocols.md", "Average Precision, in two ways")
    for method in ("mean_precision", "trapezoid"):
        value = metrics.average_precision_of_ranks(np.array([1, 3]), 2, method)
        assert re.search(rf"^{method} .*= {value:.4f}$", text, re.M), method


@pytest.mark.parametrize(("page", "least"), [("method.md", 7), ("protocols.md", 2)])
def test_sums_add_up(page, least):
    """Lines of text blocks such as `name   1/2 + 0.25 = 0.75`, to the digits that are printed."""
    checked = 0
    for line in "".join(re.findall(r"```text\n(.*?)```", PAGES[f"docs/{page}"], re.S)).splitlines():
        line = re.sub(r"^[a-z_]+( \d)?  +", "", line.replace("·", "*").replace("−", "-"))
        sides = [side.replace("½", "0.5") for side in line.split("=")]
        sides = [side for side in sides if re.fullmatch(r"[\d\s.()+*/-]+", side)]
        if len(sides) > 1:
            values = [eval(side.strip()) for side in sides]
            assert values == pytest.approx([values[-1]] * len(values), abs=1.1e-4), line
            checked += 1
    assert checked >= least


# What pages name


def flags_of(command):
    text = COMMANDS[command].read_text()
    for name in re.findall(r"^from doap_tf\.commands\.(\w+) import run$", text, re.M):
        text = (ROOT / f"doap_tf/commands/{name}.py").read_text()
    if "dataset_flags" in text:
        text += (ROOT / "doap_tf/commands/dataset_flags.py").read_text()
    if "measuring" in text:
        text += COMMANDS["benchmarks/measuring.py"].read_text()
    return set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', text)) | {"flagfile", "helpfull"}


def commands():
    for found in re.finditer(r"`(python [^`]+)`|^(python .*)$", EVERYTHING, re.M):
        yield (found[1] or found[2]).partition("  #")[0]


def test_commands_take_their_flags():
    lines = list(commands())
    assert len(lines) >= 40
    for line in lines:
        named = set(re.findall(r"--(\w+)", re.sub(r"--beam_options='.*?'", "--beam_options", line)))
        command = line.split()[1]
        assert named <= flags_of(command), (line, named - flags_of(command))


def test_flags_that_pages_name_exist():
    # Of tfds, TensorFlow Serving, COLMAP and pip (--no-deps).
    others = {"manual_dir", "ssl_config_file", "database_path", "image_path", "output_path", "no"}
    others |= {"runner", "direct_num_workers", "direct_running_mode"}  # Beam's
    others |= {"dask_client_address", "dask_partition_size"}
    others |= {"environment_type", "environment_config", "flink_master", "spark_master_url"}
    others |= {"project", "region", "temp_location", "staging_location", "sdk_container_image"}
    known = others.union(*map(flags_of, COMMANDS))
    for flag in set(re.findall(r"(?<![\w-])--([a-z]\w+)", EVERYTHING)):
        assert flag in known or flag.removeprefix("no") in known, f"--{flag}"


def test_files_that_pages_name_exist():
    # Without tables of contents and targets of links, which are relative to their page.
    text = re.sub(r"```{toctree}.*?```|\]\(.*?\)", "", EVERYTHING, flags=re.S)
    folders = "benchmarks|datasets|doap_tf|docs|examples|experiments|flags|serving|tests"
    named = set(re.findall(rf"(?<![\w./-])((?:{folders})/[\w./*-]*)", text))
    named |= set(re.findall(r"`((?!NAME)[\w-]+\.(?:md|cfg|toml))`", text))
    assert len(named) >= 40
    invented = re.compile("my_patches|NAME|MODEL_CARD|serving/models(/|$)")
    for path in (path.rstrip(".") for path in named if not invented.search(path)):
        assert list(ROOT.glob(path)), path


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


def test_targets_of_make_exist():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert set(re.findall(r"^make (\w+)", EVERYTHING, re.M)) <= set(targets)


def test_networks_ship():
    assert set(
        re.findall(r"doap-(?:st-|mobile-|fast-|tiny-)?\d+b?(?:-patch)?\b", EVERYTHING)
    ) <= set(doap_tf.list_pretrained())


# Architecture


def units():
    """Modules and packages of doap_tf with the files that belong to them."""
    for path in [*ROOT.glob("doap_tf/**/*.py"), *ROOT.glob("datasets/**/*.py")]:
        parts = path.relative_to(ROOT).parts
        if not path.name.endswith("_test.py"):
            yield "datasets" if parts[0] == "datasets" else parts[1].removesuffix(".py"), path


def test_modules_have_names_of_their_own():
    """Except for counterparts, whose docstrings name each other."""
    names = [path.stem for _, path in units() if path.name != "__init__.py"]
    shared = {name for name in names if names.count(name) > 1}
    assert shared <= {"average_precision", "distances"}


def test_the_library_names_no_flags():
    allowed = {"--always", "--dirty", "--abbrev"}  # git's
    for unit, path in units():
        if unit not in ("command_line", "commands"):  # which read the flags
            assert set(re.findall(r"--[a-z_]{3,}", path.read_text())) <= allowed, path


def imported_units(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "doap_tf":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("doap_tf."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("doap_tf."))


def test_nothing_imports_from_below():
    layers = {
        name: int(row[0])
        for row in table("architecture.md", "Layers", "layer")
        for name in re.findall(r"`(\w+)`", row[1])
    }
    for unit, path in units():
        if unit == "__init__":
            continue  # resolves its names on first use
        assert unit in layers, f"architecture.md gives {unit} no layer"
        for other in imported_units(path):
            assert other == unit or layers[other] < layers[unit], f"{path} imports {other}"


def test_files_of_patch_groups(groups):
    files = {path.name for path in (groups / "my_groups").iterdir()}
    rows = {
        row[0].strip("`"): row[1]
        for row in table("architecture.md", "Files and their contracts", "file")
    }
    assert files == {"patches.npy", "labels.npy", "groups.json"}
    assert files < rows.keys()
    for key in json.loads((groups / "my_groups/groups.json").read_text()):
        assert f"`{key}`" in rows["groups.json"], key


def test_files_of_weights_and_checkpoints(tmp_path):
    page = section("architecture.md", "Files and their contracts")
    network = DescriptorNetwork(8, width=0.1)
    network.build((None, 32, 32, 1))
    write_weights(network, tmp_path / "network.npz")
    with np.load(tmp_path / "network.npz") as members:
        assert members.files[:2] == ["config", "weight_0000"]
        assert {str(members[name].dtype) for name in members.files[1:]} == {"float16", "float32"}
    assert "`config`" in page and "`weight_0000`" in page
    Checkpoints(tmp_path).save(7, {"variable_0000": np.zeros(1)}, {})
    assert (tmp_path / "step-000000007.npz").is_file() and "step-NNNNNNNNN.npz" in page


def test_signatures():
    network = DescriptorNetwork(8, head="binary", width=0.1)
    network.build((None, 32, 32, 1))
    for name, signature in ServedNetwork(network, KeypointNetwork()).signatures().items():
        (row,) = re.findall(rf"^\| `{name}`.*$", PAGES["serving/README.md"], re.M)
        inputs = [spec.name for spec in signature.structured_input_signature[0]]
        assert inputs and signature.structured_outputs
        for tensor in [*inputs, *signature.structured_outputs]:
            assert f"`{tensor}`" in row, (name, tensor)


def test_fields_of_results():
    record = Result("b", "p", "s", 0, Model("sift", load("sift")), {}, {}).record()
    (line,) = re.findall(
        r"^.*`evaluate_main.py`.*`weights_sha256`.*$", PAGES["docs/architecture.md"], re.M
    )
    assert set(re.findall(r"`(\w+)`", line)) == set(record)


# The code of howto.md


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """The folder in which the first example has run."""
    folder = tmp_path_factory.mktemp("howto")
    generator = np.random.default_rng(0)
    places = generator.integers(0, 256, [24, 1, 8, 8]).repeat(2, 1)
    patches = np.kron(places, np.ones([4, 4])) + generator.normal(0, 20, [24, 2, 32, 32])
    arrays = {
        "patches": patches.clip(0, 255).astype(np.uint8).reshape(48, 32, 32),
        "group": np.repeat(np.arange(24), 2),
        "image": np.repeat(np.arange(3), 16),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
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
    code = re.findall(r"```python\n(.*?)```", section("howto.md", "Add a dataset"), re.S)[0]
    (folder / "my_patches_dataset_builder.py").write_text(code)
    (folder / "README.md").write_text("My patches.")
    for name in ("CITATIONS.bib", "TAGS.txt", "__init__.py"):
        (folder / name).touch()
    monkeypatch.setattr(
        doap_tf.datasets, "__path__", [*doap_tf.datasets.__path__, str(folder.parent)]
    )
    (tmp_path / "folder_of_my_patches").mkdir()
    patches = np.random.default_rng(0).integers(0, 256, [5, 8, 64, 64], np.uint8)
    np.save(tmp_path / "folder_of_my_patches/my_patches.npy", patches)
    monkeypatch.chdir(tmp_path)
    prepared = run_block("howto.md", "Add a dataset", 1)["groups"]
    assert prepared.patches.shape == (40, 32, 32) and prepared.group_count == 5
    assert prepared.sequence_names == ("walk 0", "walk 1", "walk 2")


def test_a_loss():
    loss_class = run_block("howto.md", "Add a loss")["ContrastiveLoss"]
    generator = np.random.default_rng(0)
    rows = generator.normal(size=[6, 4])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = np.array([0, 0, 0, 1, 1, 2])  # the last one has no positive
    wanted = []
    for query in range(5):
        others = np.arange(6) != query
        shares = np.exp(rows @ rows[query] / 0.2) / np.exp(rows[others] @ rows[query] / 0.2).sum()
        wanted.append(-np.log(shares[others & (groups == groups[query])]).mean())
    loss = loss_class.from_config(loss_class(temperature=0.2).get_config())
    descriptors = tf.constant(rows, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(descriptors)
        value = loss(groups, descriptors)
    assert float(value) == pytest.approx(np.mean(wanted), rel=1e-5)
    assert np.isfinite(tape.gradient(value, descriptors)).all()


def test_a_benchmark(groups, monkeypatch):
    monkeypatch.chdir(groups)
    names = run_block("howto.md", "Add a benchmark")
    run_block("howto.md", "Add a benchmark", 1, **names)
    report = groups / "reports/groups"
    assert {path.name for path in report.glob("*.json")} == {"rootsift.json", "doap-128.json"}
    record = json.loads((report / "rootsift.json").read_text())
    assert 0 < record["scores"]["map"] <= 1


def test_a_head(tmp_path):
    network = run_block("howto.md", "Add a network head")["RootNetwork"](8, width=0.1)
    patches = np.random.default_rng(0).integers(0, 256, [3, 32, 32], np.uint8)
    rows = doap_tf.Descriptor(network).describe(patches)
    plain = DescriptorNetwork.call(network, patches[..., np.newaxis]).numpy()
    np.testing.assert_allclose(
        rows,
        np.sign(plain) * np.sqrt(np.abs(plain) / np.abs(plain).sum(1, keepdims=True)),
        atol=1e-5,
    )
    network.save(tmp_path / "network.keras")
    loaded = doap_tf.from_pretrained(tmp_path / "network.keras")
    assert type(loaded.network) is type(network)
    np.testing.assert_array_equal(loaded.describe(patches), rows)


def test_fit_raises_average_precision():
    names = run_block("howto.md", "Train with Keras")
    assert names["after"] > names["before"] + 0.02


def test_an_extractor():
    image = np.kron(np.random.default_rng(0).integers(0, 256, [12, 12]), np.ones([16, 16]))
    names = run_block("howto.md", "Match images", image=image.astype(np.uint8))
    assert len(names["keypoints"]) == len(names["descriptors"]) > 0
    rows = names["descriptors"]
    assert len(names["matcher"].match(rows, rows)) == len(rows)


def test_the_cluster():
    text = re.search(r"TF_CONFIG='(.*?)'", section("howto.md", "Train on several machines"))[1]
    config = json.loads(text)
    workers = config["cluster"][config["task"]["type"]]
    assert re.fullmatch(r"\w+:\d+", workers[config["task"]["index"]])


# Docstrings


def test_everything_public_has_a_docstring():
    missing = []
    for info in itertools.chain(
        pkgutil.walk_packages(doap_tf.__path__, "doap_tf."),
        pkgutil.walk_packages(doap_tf.datasets.__path__, "doap_tf.datasets."),
    ):
        # Two commands cannot be imported together: both define some of the flags.
        left_out = info.name.startswith("doap_tf.commands.") or info.name in NOT_INSTALLED
        if not info.name.endswith("_test") and not left_out:
            module = importlib.import_module(info.name)
            named = {"": module, **dict(public_names(module))}
            missing += [f"{info.name} {name}" for name, thing in named.items() if not thing.__doc__]
    assert not missing


def public_names(module):
    """Functions, classes and their members that a module itself defines."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing) or inspect.isroutine(thing):
            yield name, thing
        if inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
            for member, value in vars(thing).items():
                described = inspect.isroutine(value) or isinstance(
                    value, property | classmethod | staticmethod
                )
                # What overrides a base's member, such as Keras' hooks, does what that one says.
                new = not any(member in vars(base) for base in thing.__mro__[1:])
                if described and new and not member.startswith("_"):
                    yield f"{name}.{member}", value
