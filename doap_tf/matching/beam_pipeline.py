"""Describing and matching a collection with Apache Beam, on one machine or on a cluster.

Workers read images and the store, and write each result to a folder of shards, as a small store
that is whole or not there; this process takes the shards over, so a killed worker or run loses only
what it was working on. Images and shards lie in file systems that Beam knows and all workers reach.
"""

import functools
import glob
import hashlib
import itertools
import json
import os
import pickle
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from doap_tf.beam import (
    BeamPath,
    FileSystems,
    LocalCopy,
    beam_map,
    delete,
    find,
    pipeline_options,
    read_bytes,
    run,
    write_whole,
)
from doap_tf.files import contents_sha256
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_matching import match_features
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.pair_selection import Pair, cluster_pairs
from doap_tf.matching.pipeline import (
    Images,
    Pipeline,
    extract_file,
    failure_reason,
    features_reader,
    images_in_memory,
)
from doap_tf.matching.shortlist import Codebook, ReadFeatures, make_signatures
from doap_tf.matching.verifier import PairMatches, Verifier

_SIGNATURES_PER_SHARD = 64
_PAIRS_PER_SHARD = 16
_thread_cache = threading.local()

_MakeExtractor = Callable[[], Extractor]
_Failures = dict[tuple[str, ...], str]  # the reasons, by the names of an image or a pair


class _Signatures(NamedTuple):
    rows: np.ndarray


class _FinishedStore:
    """Features of a store that no process writes meanwhile; a worker opens its copy of this."""

    def __init__(self, path: str, settings: dict[str, Any]):
        self._path = path
        self._settings = settings

    @functools.cached_property
    def read(self) -> ReadFeatures:
        self._copy = None if FileSystems.get_scheme(self._path) is None else _copied(self._path)
        path = self._copy.path if self._copy else self._path
        return features_reader(MatchStore(path, self._settings, read_only=True))


class BeamPipeline(Pipeline):
    """A `Pipeline` whose work is done by Beam's workers.

    Args:
        folder, extractor, matcher, verifier: As for `Pipeline`; all but the extractor can be
            pickled.
        make_extractor: Makes the extractor, once in each thread of a worker; can be pickled.
        options: Beam's options as on a command line.
        shards: Folder for what workers finish, and for a copy of the store that they read. By
            default it is beside the store, which they then read in its place.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        extractor: Extractor,
        matcher: Matcher,
        verifier: Verifier,
        make_extractor: _MakeExtractor,
        options: str,
        shards: str | None = None,
    ):
        pipeline_options(options)  # checks them before anything is written
        self._options = options
        super().__init__(folder, extractor, matcher, verifier)
        self._make_extractor = make_extractor
        self._copies = shards is not None
        self._copy: str | None = None
        self._shards = (shards or str(self.folder / "shards")).rstrip("/")
        if FileSystems.get_scheme(self._shards) is None:
            self._shards = os.path.abspath(self._shards)
        if not FileSystems.exists(self._shards):
            FileSystems.mkdirs(self._shards)
        self._gather()  # what a killed run left; what failed then is tried again

    def extract(self, images: Images) -> dict[str, str]:
        """As for `Pipeline`."""
        known = self.store.contents()
        items = [(name, _absolute(path), known.get(name)) for name, path in images.items()]
        settings = self.store.settings
        work = functools.partial(_extract, self._make_extractor, settings, self._shards)
        failures = self._run(work, items)
        return {name: failures[name,] for name in images if (name,) in failures}

    def _make_signatures(
        self, names: Sequence[str], read: ReadFeatures, codebook: Codebook
    ) -> np.ndarray:
        """Does what `make_signatures` does; workers read the store."""
        starts = range(0, len(names), _SIGNATURES_PER_SHARD)
        items = [names[start : start + _SIGNATURES_PER_SHARD] for start in starts]
        work = functools.partial(_signatures, self._features(), codebook)
        try:
            results = beam_map(work, items, _Signatures, self._options, self._shards)
            return np.concatenate([result.rows for result in results])
        finally:
            self._delete(".npz")  # another codebook makes others

    def match(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """As for `Pipeline`."""
        missing = [pair for pair in pairs if not self.store.has_pair(*pair)]
        clustered = cluster_pairs(missing, images_in_memory(self.store))
        failures: _Failures = {}
        if missing:
            match = functools.partial(match_features, matcher=self.matcher, verifier=self.verifier)
            settings = self.store.settings, self.store.matching
            work = functools.partial(_match, self._features(), match, settings, self._shards)
            starts = range(0, len(clustered), _PAIRS_PER_SHARD)
            shards = [clustered[start : start + _PAIRS_PER_SHARD] for start in starts]
            failures = self._run(work, shards)
        self._delete(".store", ".partial")
        self._copy = None
        return {pair: failures[pair] for pair in pairs if pair in failures}

    def _features(self) -> _FinishedStore:
        """Returns what workers read features with, after all images are described."""
        if self._copies and self._copy is None:
            self._copy = f"{self._shards}/{uuid.uuid4().hex}.store"
            with self.store.path.open("rb") as store, FileSystems.create(self._copy) as copy:
                shutil.copyfileobj(store, copy)
        return _FinishedStore(self._copy or str(self.store.path.absolute()), self.store.settings)

    def _run(self, work: Callable[[Any], None], items: Iterable[Any]) -> _Failures:
        """Lets workers do `work` on every item; returns the reasons of what failed."""
        run(work, items, pipeline_options(self._options))
        return self._gather()

    def _gather(self) -> _Failures:
        """Takes over what workers have finished; returns the reasons of what failed."""
        for path in self._find(".db"):
            copy = LocalCopy(path)
            self.store.absorb(copy.path)
            delete(path)
        failures: _Failures = {}
        for path in self._find(".json"):
            failures |= {tuple(names): reason for names, reason in json.loads(read_bytes(path))}
        self._delete(".json", ".npz")
        return failures

    def _find(self, suffix: str) -> list[str]:
        return find(f"{glob.escape(self._shards)}/*{suffix}")

    def _delete(self, *suffixes: str) -> None:
        for path in itertools.chain.from_iterable(map(self._find, suffixes)):
            delete(path)


def _extract(
    make_extractor: _MakeExtractor,
    settings: dict[str, Any],
    shards: str,
    item: tuple[str, str | BeamPath, str | None],
) -> None:
    """Extracts features: an item is a name, a path and the SHA-256 of what was described before."""
    name, path, known = item
    extractor = _cached_extractor(make_extractor)
    try:
        sha256 = contents_sha256(path)
        shard = f"{shards}/{_digest(name, sha256)}.db"
        if sha256 == known or FileSystems.exists(shard):
            return
        features = extract_file(extractor, path)
    except Exception as error:
        _write_failures(shards, {(name,): failure_reason(error)})
        return
    with write_whole(shard) as temporary, MatchStore(temporary, settings) as store:
        store.write_features(name, sha256, features)


def _signatures(features: _FinishedStore, codebook: Codebook, names: list[str]) -> _Signatures:
    return _Signatures(make_signatures(names, features.read, codebook))


def _match(
    features: _FinishedStore,
    match: Callable[..., PairMatches],
    settings: tuple[dict[str, Any], dict[str, Any]],
    shards: str,
    pairs: list[Pair],
) -> None:
    """Matches pairs, which become one shard."""
    shard = f"{shards}/{_digest(json.dumps(pairs), json.dumps(settings[1]))}.db"
    if FileSystems.exists(shard):
        return
    failures: _Failures = {}
    with write_whole(shard) as temporary, MatchStore(temporary, *settings) as store:
        for name1, name2 in pairs:
            try:
                matches = match(features.read(name1), features.read(name2))
            except Exception as error:
                failures[name1, name2] = failure_reason(error)
            else:
                store.write_pair(name1, name2, matches)
    if failures:
        _write_failures(shards, failures)


def _cached_extractor(make_extractor: _MakeExtractor) -> Extractor:
    """Makes an extractor once in a thread, since some runners set up a `DoFn` for every task."""
    key = pickle.dumps(make_extractor)
    if getattr(_thread_cache, "key", None) != key:
        _thread_cache.extractor = make_extractor()
        _thread_cache.key = key
    return _thread_cache.extractor


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


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
