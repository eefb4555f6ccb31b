import functools
import os
import pathlib
import signal

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import (
    DescriptorExtractor,
    NearestNeighbours,
    Pipeline,
    Verifier,
    exhaustive_pairs,
    find_images,
)
from tests.features.pictures import photograph
from tests.matching.test_match_main import run

pytest.importorskip("apache_beam")
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

import doap_tf.beam
from doap_tf.matching import beam_pipeline

IN_PROCESS = "--runner=DirectRunner"
TWO_PROCESSES = f"{IN_PROCESS} --direct_num_workers=2 --direct_running_mode=multi_processing"
MAKE = functools.partial(DescriptorExtractor, "sift", "dog", max_keypoints=60)
STEPS = NearestNeighbours(), Verifier("fundamental")


@pytest.fixture
def images(tmp_path):
    picture = photograph("astronaut")
    paths = {f"{left:03d}.png": tmp_path / f"{left:03d}.png" for left in range(0, 200, 40)}
    for name, path in paths.items():
        left = int(name[:3])
        cv2.imwrite(str(path), picture[:200, left : left + 200])
    return paths


def by_beam(images, folder, options=IN_PROCESS, pairs=None, make=MAKE, shards=None):
    steps = MAKE(), *STEPS, make
    with beam_pipeline.BeamPipeline(folder, *steps, options, shards) as pipeline:
        chosen = functools.partial(pipeline.retrieval_pairs, neighbours=2)
        return pipeline.run(images, pairs or chosen)


def in_this_process(images, folder):
    with Pipeline(folder, MAKE(), *STEPS) as pipeline:
        return pipeline.run(images, functools.partial(pipeline.retrieval_pairs, neighbours=2))


def stored(folder, outcome):
    with Pipeline(folder, MAKE(), *STEPS) as pipeline:
        values = [vars(pipeline.store.read_features(name)).values() for name in outcome.names]
        return values + [pipeline.store.read_pair(*pair) for pair in outcome.pairs]


def assert_same(folder1, outcome1, folder2, outcome2):
    assert outcome1 == outcome2 and outcome1.pairs
    for first, second in zip(stored(folder1, outcome1), stored(folder2, outcome2), strict=True):
        for value, expected in zip(first, second, strict=True):
            np.testing.assert_array_equal(value, expected)
    assert (folder1 / "shortlist.json").read_bytes() == (folder2 / "shortlist.json").read_bytes()


def make_noting(folder):
    """Makes the extractor and leaves the number of the process that did."""
    (folder / f"{os.getpid()}.pid").touch(exist_ok=False)  # once in each process
    return MAKE()


def check(images, tmp_path, options):
    """Compares Beam with one process; returns the processes that described images for Beam."""
    images["080.png"].write_bytes(b"no picture")
    one, other = tmp_path / "one", tmp_path / "other"
    outcome = by_beam(images, other, options, make=functools.partial(make_noting, tmp_path))
    assert_same(one, in_this_process(images, one), other, outcome)
    assert list(outcome.failures) == ["080.png"]
    assert not list((other / "shards").iterdir())
    return {int(path.stem) for path in tmp_path.glob("*.pid")}


def test_the_result_is_that_of_one_process(images, tmp_path, monkeypatch):
    monkeypatch.setattr(beam_pipeline, "_SIGNATURES_PER_SHARD", 2)
    assert check(images, tmp_path, IN_PROCESS) == {os.getpid()}


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(images, tmp_path):
    workers = check(images, tmp_path, TWO_PROCESSES)
    assert len(workers) == 2 and os.getpid() not in workers


@pytest.fixture
def cluster():
    """A Dask cluster of two workers, which are started again if they die."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster


def on(cluster):
    runner = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner --dask_partition_size=1"
    return f"{runner} --dask_client_address={cluster.scheduler_address}"


def processes(cluster):
    return {worker.process.pid for worker in cluster.workers.values()}


@pytest.mark.slow
def test_two_dask_workers_give_the_result_of_one_process(images, tmp_path, cluster):
    assert check(images, tmp_path, on(cluster)) == processes(cluster)


class Dying:
    """The extractor in a worker that is killed at the second image which any worker describes."""

    def __init__(self, folder):
        self._extractor, self._folder = MAKE(), folder

    def extract(self, image):
        for event in ("first", "killed"):
            try:
                (self._folder / event).touch(exist_ok=False)
            except FileExistsError:
                continue
            if event == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            break
        return self._extractor.extract(image)


@pytest.mark.slow
def test_a_killed_dask_worker_loses_nothing(images, tmp_path, cluster):
    before = processes(cluster)
    one, other = tmp_path / "one", tmp_path / "other"
    outcome = by_beam(images, other, on(cluster), make=functools.partial(Dying, tmp_path))
    assert (tmp_path / "killed").exists() and len(before - processes(cluster)) == 1
    assert_same(one, in_this_process(images, one), other, outcome)
    assert not outcome.failures


class Shelf(LocalFileSystem):
    """A file system of its own, shelf:// before the paths of this machine."""

    @classmethod
    def scheme(cls):
        return "shelf"

    def _list(self, folder):
        for file in super()._list(here(folder)):
            yield FileMetadata(f"shelf://{file.path}", file.size_in_bytes)

    def _path_open(self, path, mode, *arguments):
        return super()._path_open(here(path), mode, *arguments)

    def create(self, path, *arguments):
        return self._path_open(path, "wb", *arguments)

    def mkdirs(self, path):
        super().mkdirs(here(path))

    def exists(self, path):
        return super().exists(here(path))

    def metadata(self, path):
        return FileMetadata(path, super().size(here(path)))

    def rename(self, sources, targets):
        super().rename([*map(here, sources)], [*map(here, targets)])

    def delete(self, paths):
        for path in paths:
            os.unlink(here(path))


def here(path):
    return path.removeprefix("shelf://")


def test_images_and_shards_lie_in_any_file_system_that_beam_knows(images, tmp_path):
    images["080.png"].write_bytes(b"no picture")
    expected = in_this_process(images, tmp_path / "one")
    found = doap_tf.beam.find_images(f"shelf://{tmp_path}/*.png")
    shards = tmp_path / "far away"
    shards.mkdir()
    (shards / "1.db.2.partial").touch()  # of a killed worker
    outcome = by_beam(found, tmp_path / "other", shards=f"shelf://{shards}/")
    assert "shelf://" in outcome.failures.pop("080.png") and expected.failures.pop("080.png")
    assert_same(tmp_path / "one", expected, tmp_path / "other", outcome)
    again = by_beam(found, tmp_path / "other", shards=f"shelf://{shards}", make=Refusing)
    assert again.pairs == outcome.pairs
    assert not list(shards.iterdir()) and not (tmp_path / "other" / "shards").exists()
    for name, path in images.items():
        assert pathlib.Path(found[name]).read_bytes() == path.read_bytes()


def test_images_of_other_file_systems_have_the_names_of_local_ones(tmp_path):
    for name in ("a/1.png", "a/b/2.JPG", "a/notes.txt", "c/3.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for patterns in ("/a", "/a/", "", "/a/*", "/a/1.png", "/a/**.JPG,{}/c", "/a/b,{}/a"):
        there, local = (
            f"{root}{patterns.format(root)}" for root in (f"shelf://{tmp_path}", tmp_path)
        )
        expected = find_images(local.replace("**.", "**/*."))
        found = doap_tf.beam.find_images(there)
        assert list(found) == list(expected)
        assert [str(path) for path in found.values()] == [
            f"shelf://{path}" for path in expected.values()
        ]
    for nothing in (f"shelf://{tmp_path}/d", "nowhere://a/b"):
        with pytest.raises(InputError, match=nothing):
            doap_tf.beam.find_images(nothing)


def test_the_command_takes_images_and_shards_of_other_file_systems(images, tmp_path):
    program = (
        "import tests.matching.test_beam_pipeline\nfrom doap_tf.commands import match; match.run()"
    )
    finished = run(
        tmp_path,
        *(f"--images=shelf://{tmp_path}", f"--shards=shelf://{tmp_path}/s", "--output=out"),
        *("--pairs=sequential", "--overlap=1", "--model=sift", "--detector=dog"),
        *("--max_keypoints=60", "--format=colmap", f"--beam_options={IN_PROCESS}"),
        program=["-c", program],
    )
    assert "5 of 5 images, 9 of 10 pairs matched" in finished.stdout, finished.stderr
    assert (tmp_path / "out/index.html").exists() and not list((tmp_path / "s").iterdir())


class Refusing:
    def extract(self, image):
        raise AssertionError("described again")


def test_finished_work_is_not_done_again_and_changed_images_are(images, tmp_path):
    first = by_beam(images, tmp_path)
    assert by_beam(images, tmp_path, make=Refusing) == first
    cv2.imwrite(str(images["000.png"]), photograph("astronaut")[9:209, 9:209])
    again = by_beam(images, tmp_path, make=Refusing)
    assert list(again.failures) == ["000.png"] and "described again" in again.failures["000.png"]


def test_shards_of_a_killed_run_are_taken_over(images, tmp_path, monkeypatch):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected = by_beam(images, whole)

    def die(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        gather, calls = beam_pipeline.BeamPipeline._gather, []

        def gather_once(self):
            calls.append(self)
            return gather(self) if len(calls) == 1 else die(self)

        patch.setattr(beam_pipeline.BeamPipeline, "_gather", gather_once)
        with pytest.raises(KeyboardInterrupt):
            by_beam(images, killed)
    assert len(list((killed / "shards").glob("*.db"))) == len(images)
    assert_same(killed, by_beam(images, killed, make=Refusing), whole, expected)


def fail(features1, features2, matcher, verifier):
    raise cv2.error("two\n lines")


def test_a_pair_that_fails_is_reported(images, tmp_path, monkeypatch):
    images = dict(zip(("a", "a b", "b c", "c", "d"), images.values(), strict=True))
    pairs = exhaustive_pairs(list(images))

    monkeypatch.setattr(beam_pipeline, "match_features", fail)
    outcome = by_beam(images, tmp_path, pairs=pairs)
    assert outcome.pairs == [] and list(outcome.failed_pairs) == pairs and not outcome.failures
    assert set(outcome.failed_pairs.values()) == {"error: two lines"}


@pytest.mark.parametrize("options", ["--runner=Nobody", "--direct_num_workers=many", "--runner='"])
def test_options_that_beam_does_not_take_are_one_line(tmp_path, options):
    with pytest.raises(InputError, match="Beam does not take the options") as raised:
        by_beam({}, pathlib.Path(tmp_path), options)
    assert "\n" not in str(raised.value)
