"""Describing and matching a collection with Apache Beam, on one machine or on a cluster.

Workers read images and the store, and write each result to a folder of shards, as a small store
that is whole or not there; this process takes the shards over, so a killed worker or run loses only
what it was working on. Images and shards lie in file systems that Beam knows and all workers reach.
"""

import functools
import glob
import hashlib
import io
import json
import os
import pathlib
import pickle
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from doap_tf.beam import (
    BeamPath,
    FileSystems,
    LocalCopy,
    beam,
    delete,
    find,
    pipeline_options,
    read_bytes,
    run,
    write_whole,
)
from doap_tf.files import contents_sha256
from doap_tf.matching.collection import (
    describe_file,
    failure_reason,
    features_reader,
    match_stored,
)
from doap_tf.matching.descriptor_extractor import DescriptorExtractor
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.pair_selection import Pair
from doap_tf.matching.shortlist import Codebook, Read, make_signatures

_SIGNATURES_PER_SHARD = 64
_of_thread = threading.local()

_Failures = dict[tuple[str, ...], str]  # the reasons, by the names of an image or a pair


class BeamEngine:
    """An engine, see `doap_tf.matching.collection.Engine`, whose work is done by Beam's workers.

    Args:
        make_extractor: Makes what describes the images, once in each thread of a
            worker; can be pickled.
        settings: What features depend on: those of the extractor.
        matcher: Matches the pairs.
        path: File of the finished store, which only this process writes.
        store: The store in that file.
        options: Beam's options as on a command line.
        shards: Folder for what workers finish, and for a copy of the store that they read. By
            default it is beside the store, which they then read in its place.
    """

    def __init__(
        self,
        make_extractor: Callable[[], DescriptorExtractor],
        settings: Mapping[str, Any],
        matcher: Matcher,
        path: str | os.PathLike,
        store: MatchStore,
        options: str,
        shards: str | None = None,
    ):
        self._make_extractor = make_extractor
        self._settings = dict(settings)
        self._matcher = matcher
        self._path = pathlib.Path(path).absolute()
        self._store = store
        self._copies = shards is not None
        self._copy: str | None = None
        self._shards = (shards or str(self._path.with_name("shards"))).rstrip("/")
        if FileSystems.get_scheme(self._shards) is None:
            self._shards = os.path.abspath(self._shards)
        self._options = pipeline_options(options)
        if not FileSystems.exists(self._shards):
            FileSystems.mkdirs(self._shards)
        self._gather()  # what a killed run left; what failed then is tried again

    def describe(self, images: Mapping[str, str | os.PathLike]) -> dict[str, str]:
        """As for `Engine`."""
        known = self._store.contents()
        items = [(name, _absolute(path), known.get(name)) for name, path in images.items()]
        work = _Describe(self._make_extractor, self._settings, self._shards)
        failures = self._run(work, items)
        return {name: failures[name,] for name in images if (name,) in failures}

    def make_signatures(self, names: Sequence[str], read: Read, codebook: Codebook) -> np.ndarray:
        """Does what `doap_tf.matching.shortlist.make_signatures` does; workers read the store."""
        del read
        starts = range(0, len(names), _SIGNATURES_PER_SHARD)
        items = [(start, list(names[start : start + _SIGNATURES_PER_SHARD])) for start in starts]
        self._run(_Sign(self._readable_store(), self._settings, self._shards, codebook), items)
        paths = [_signature_file(self._shards, start) for start in starts]
        signatures = np.concatenate([np.load(io.BytesIO(read_bytes(path))) for path in paths])
        for path in paths:
            delete(path)
        return signatures

    def match(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """As for `Engine`."""
        others: dict[str, list[str]] = {}
        for name1, name2 in pairs:
            if not self._store.has_pair(name1, name2):
                others.setdefault(name1, []).append(name2)
        failures: _Failures = {}
        if others:
            work = _Match(self._readable_store(), self._settings, self._shards, self._matcher)
            failures = self._run(work, others.items())
        for path in [*self._find(".store"), *self._find(".partial")]:
            delete(path)
        self._copy = None
        return {pair: failures[pair] for pair in pairs if pair in failures}

    def _readable_store(self) -> str:
        """Returns the path at which workers read the store, after all images are described."""
        if not self._copies:
            return str(self._path)
        if self._copy is None:
            self._copy = f"{self._shards}/{uuid.uuid4().hex}.store"
            with self._path.open("rb") as store, FileSystems.create(self._copy) as copy:
                shutil.copyfileobj(store, copy)
        return self._copy

    def _run(self, work: beam.DoFn, items: Iterable[Any]) -> _Failures:
        """Lets workers do `work` on every item; returns the reasons of what failed."""
        run(work, items, self._options)
        return self._gather()

    def _gather(self) -> _Failures:
        """Takes over what workers have finished; returns the reasons of what failed."""
        for path in self._find(".db"):
            copy = LocalCopy(path)
            self._store.absorb(copy.path)
            delete(path)
        failures: _Failures = {}
        for path in self._find(".json"):
            failures |= {tuple(names): reason for names, reason in json.loads(read_bytes(path))}
            delete(path)
        return failures

    def _find(self, suffix: str) -> list[str]:
        return find(f"{glob.escape(self._shards)}/*{suffix}")


class _Describe(beam.DoFn):
    """Describes images: items are a name, a path and the SHA-256 of what was described before."""

    def __init__(
        self,
        make_extractor: Callable[[], DescriptorExtractor],
        settings: dict[str, Any],
        shards: str,
    ):
        self._make_extractor = make_extractor
        self._settings = settings
        self._shards = shards

    def setup(self) -> None:
        self._extractor = _kept(self._make_extractor)

    def process(self, element: tuple[str, str | BeamPath, str | None]) -> None:
        name, path, known = element
        try:
            sha256 = contents_sha256(path)
            shard = f"{self._shards}/{_digest(name, sha256)}.db"
            if sha256 == known or FileSystems.exists(shard):
                return
            features = describe_file(self._extractor, path)
        except Exception as error:
            _write_failures(self._shards, {(name,): failure_reason(error)})
            return
        with write_whole(shard) as temporary, MatchStore(temporary, self._settings) as store:
            store.write_features(name, sha256, features)


class _Reading(beam.DoFn):
    """Reads the finished store, which no process writes meanwhile."""

    def __init__(self, path: str, settings: dict[str, Any], shards: str):
        self._path = path
        self._settings = settings
        self._shards = shards

    def setup(self) -> None:
        self._copy = None if FileSystems.get_scheme(self._path) is None else _copied(self._path)
        path = self._copy.path if self._copy else self._path
        self._store = MatchStore(path, self._settings, read_only=True)
        self._read = features_reader(self._store)


class _Sign(_Reading):
    """Makes signatures: items are the number of the first image and names."""

    def __init__(
        self,
        path: str,
        settings: dict[str, Any],
        shards: str,
        codebook: Codebook,
    ):
        super().__init__(path, settings, shards)
        self._codebook = codebook

    def process(self, element: tuple[int, list[str]]) -> None:
        start, names = element
        signatures = make_signatures(names, self._store.read_features, self._codebook)
        with write_whole(_signature_file(self._shards, start)) as path, path.open("wb") as file:
            np.save(file, signatures)


class _Match(_Reading):
    """Matches pairs: items are the name of an image and the names to match it with."""

    def __init__(
        self,
        path: str,
        settings: dict[str, Any],
        shards: str,
        matcher: Matcher,
    ):
        super().__init__(path, settings, shards)
        self._matcher = matcher

    def process(self, element: tuple[str, list[str]]) -> None:
        name1, others = element
        matching = self._matcher.settings()
        shard = f"{self._shards}/{_digest(name1, *others, json.dumps(matching))}.db"
        if FileSystems.exists(shard):
            return
        failures: _Failures = {}
        with (
            write_whole(shard) as temporary,
            MatchStore(temporary, self._settings, matching) as store,
        ):
            for name2 in others:
                try:
                    matches = match_stored(self._read(name1), self._read(name2), self._matcher)
                except Exception as error:
                    failures[name1, name2] = failure_reason(error)
                else:
                    store.write_pair(name1, name2, matches)
        if failures:
            _write_failures(self._shards, failures)


def _kept(make_extractor: Callable[[], DescriptorExtractor]) -> DescriptorExtractor:
    """Makes an extractor once in a thread, since some runners set up a `DoFn` for every task."""
    key = pickle.dumps(make_extractor)
    if getattr(_of_thread, "key", None) != key:
        _of_thread.extractor = make_extractor()
        _of_thread.key = key
    return _of_thread.extractor


@functools.lru_cache(1)
def _copied(path: str) -> LocalCopy:
    """Copies the store once for a process: a copy has a name of its own."""
    return LocalCopy(path)


def _absolute(path: str | os.PathLike) -> str | BeamPath:
    return path if isinstance(path, BeamPath) else os.path.abspath(path)


def _write_failures(shards: str, failures: _Failures) -> None:
    text = json.dumps(list(failures.items()))
    with write_whole(f"{shards}/{_digest(text)}.json") as path:
        path.write_text(text, "utf-8")


def _signature_file(shards: str, start: int) -> str:
    return f"{shards}/signatures-{start:09d}.npy"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
