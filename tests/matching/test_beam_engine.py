import functools
import os
import pathlib

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import (
    DescriptorExtractor,
    Matcher,
    MatchStore,
    exhaustive_pairs,
    match_collection,
)
from doap_tf.matching.collection import match_by
from doap_tf.matching.shortlist import retrieval_pairs
from tests.features.pictures import photograph

pytest.importorskip("apache_beam")
beam_engine = pytest.importorskip("doap_tf.matching.beam_engine")

IN_PROCESS = "--runner=DirectRunner"
TWO_PROCESSES = f"{IN_PROCESS} --direct_num_workers=2 --direct_running_mode=multi_processing"
MAKE = functools.partial(DescriptorExtractor, "sift", "dog", max_keypoints=60)
MATCHER = Matcher(geometry="fundamental")


@pytest.fixture
def images(tmp_path):
    picture = photograph("astronaut")
    paths = {f"{left:03d}.png": tmp_path / f"{left:03d}.png" for left in range(0, 200, 40)}
    for name, path in paths.items():
        left = int(name[:3])
        cv2.imwrite(str(path), picture[:200, left : left + 200])
    return paths


def settings():
    return MAKE().settings(), MATCHER.settings()


def by_beam(images, folder, options=IN_PROCESS, pairs=None, make=MAKE):
    with MatchStore(folder / "finished.db", *settings()) as store:
        path = folder / "finished.db"
        engine = beam_engine.BeamEngine(make, settings()[0], MATCHER, path, store, options)
        if pairs is None:
            pairs = functools.partial(
                retrieval_pairs,
                store=store,
                neighbours=2,
                record=folder / "shortlist.json",
                sign=engine.make_signatures,
            )
        return match_by(engine, images, pairs)


def in_this_process(images, folder):
    with MatchStore(folder / "finished.db", *settings()) as store:
        record = folder / "shortlist.json"
        choose = functools.partial(retrieval_pairs, store=store, neighbours=2, record=record)
        return match_collection(images, choose, MAKE(), MATCHER, store)


def stored(folder, outcome):
    with MatchStore(folder / "finished.db", *settings()) as store:
        values = [vars(store.read_features(name)).values() for name in outcome.names]
        values += [store.read_pair(*pair) for pair in outcome.pairs]
    return values


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
    monkeypatch.setattr(beam_engine, "_SIGNATURES_PER_SHARD", 2)
    assert check(images, tmp_path, IN_PROCESS) == {os.getpid()}


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(images, tmp_path):
    workers = check(images, tmp_path, TWO_PROCESSES)
    assert len(workers) == 2 and os.getpid() not in workers


@pytest.mark.slow
def test_two_dask_workers_give_the_result_of_one_process(images, tmp_path):
    distributed = pytest.importorskip("distributed")
    runner = "--runner=apache_beam.runners.dask.dask_runner.DaskRunner --dask_partition_size=1"
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = f"--dask_client_address={cluster.scheduler_address}"
        workers = check(images, tmp_path, f"{runner} {address}")
        assert workers == {worker.process.pid for worker in cluster.workers.values()}


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
        gather, calls = beam_engine.BeamEngine._gather, []

        def gather_once(self):
            calls.append(self)
            return gather(self) if len(calls) == 1 else die(self)

        patch.setattr(beam_engine.BeamEngine, "_gather", gather_once)
        with pytest.raises(KeyboardInterrupt):
            by_beam(images, killed)
    assert len(list((killed / "shards").glob("*.db"))) == len(images)
    assert_same(killed, by_beam(images, killed, make=Refusing), whole, expected)


def test_a_pair_that_fails_is_reported(images, tmp_path, monkeypatch):
    pairs = exhaustive_pairs(list(images))

    def fail(features1, features2, matcher):
        raise cv2.error("two\n lines")

    monkeypatch.setattr(beam_engine, "match_stored", fail)
    outcome = by_beam(images, tmp_path, pairs=pairs)
    assert outcome.pairs == [] and list(outcome.failures) == [" ".join(pair) for pair in pairs]
    assert outcome.failures["000.png 040.png"] == "error: two lines"


@pytest.mark.parametrize("options", ["--runner=Nobody", "--direct_num_workers=many", "--runner='"])
def test_options_that_beam_does_not_take_are_one_line(tmp_path, options):
    with pytest.raises(InputError, match="Beam does not take the options") as raised:
        by_beam({}, pathlib.Path(tmp_path), options)
    assert "\n" not in str(raised.value)
