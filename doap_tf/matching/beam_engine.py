"""Describing and matching a collection with Apache Beam, on one machine or on a cluster.

Workers read images, the store and a folder of shards, which all of them must see under the same
paths. A worker writes each result as a shard, a small store that is whole or not there; this
process takes the shards over, so a killed worker or run loses only what it was working on.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import pickle
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.files import write_atomically
from doap_tf.matching.collection import (
    content_sha256,
    describe_file,
    failure_reason,
    features_reader,
    match_stored,
)
from doap_tf.matching.descriptor_extractor import DescriptorExtractor
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.pair_selection import Pair
from doap_tf.matching.shortlist import Read, make_signatures

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ModuleNotFoundError as error:
    raise InputError(
        "Apache Beam is not installed: install it with `pip install '.[beam]'`."
    ) from error

_SIGNATURES_PER_SHARD = 64
_LOG_LEVEL = "default_sdk_harness_log_level"
_of_thread = threading.local()


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
    """

    def __init__(
        self,
        make_extractor: Callable[[], DescriptorExtractor],
        settings: Mapping[str, Any],
        matcher: Matcher,
        path: str | os.PathLike,
        store: MatchStore,
        options: str,
    ):
        self._make_extractor = make_extractor
        self._settings = dict(settings)
        self._matcher = matcher
        self._path = pathlib.Path(path).absolute()
        self._store = store
        self._shards = self._path.with_name("shards")
        self._options = pipeline_options(options)
        self._shards.mkdir(parents=True, exist_ok=True)
        self._gather()  # what a killed run left; what failed then is tried again

    def describe(self, images: Mapping[str, str | os.PathLike]) -> dict[str, str]:
        """As for `Engine`."""
        known = self._store.contents()
        items = [(name, os.path.abspath(path), known.get(name)) for name, path in images.items()]
        work = _Describe(self._make_extractor, self._settings, self._shards)
        failures = self._run(work, items)
        return {name: failures[name] for name in images if name in failures}

    def make_signatures(self, names: Sequence[str], read: Read, codebook: np.ndarray) -> np.ndarray:
        """Does what `doap_tf.matching.shortlist.make_signatures` does; workers read the store."""
        del read
        starts = range(0, len(names), _SIGNATURES_PER_SHARD)
        items = [(start, list(names[start : start + _SIGNATURES_PER_SHARD])) for start in starts]
        self._run(_Sign(self._path, self._settings, self._shards, codebook), items)
        paths = [_signature_file(self._shards, start) for start in starts]
        signatures = np.concatenate([np.load(path) for path in paths])
        for path in paths:
            path.unlink()
        return signatures

    def match(self, pairs: Sequence[Pair]) -> dict[str, str]:
        """As for `Engine`."""
        others: dict[str, list[str]] = {}
        for name1, name2 in pairs:
            if not self._store.has_pair(name1, name2):
                others.setdefault(name1, []).append(name2)
        work = _Match(self._path, self._settings, self._shards, self._matcher)
        failures = self._run(work, others.items())
        keys = map(" ".join, pairs)
        return {key: failures[key] for key in keys if key in failures}

    def _run(self, work: beam.DoFn, items: Iterable[Any]) -> dict[str, str]:
        """Lets workers do `work` on every item; returns the reasons of what failed."""
        items = list(items)
        if items:
            try:
                pipeline = beam.Pipeline(options=self._options)
                _ = pipeline | beam.Create(items) | beam.ParDo(work)
                pipeline.run().wait_until_finish()
            except (RuntimeError, OSError) as error:
                raise InputError(
                    f"Beam's workers failed ({failure_reason(error)}); finished work is kept: run "
                    "the same command again."
                ) from error
        return self._gather()

    def _gather(self) -> dict[str, str]:
        """Takes over what workers have finished; returns the reasons of what failed."""
        for path in sorted(self._shards.glob("*.db")):
            self._store.absorb(path)
        failures: dict[str, str] = {}
        for path in self._shards.glob("*.json"):
            failures |= json.loads(path.read_text("utf-8"))
            path.unlink()
        return failures


class _Describe(beam.DoFn):
    """Describes images: items are a name, a path and the SHA-256 of what was described before."""

    def __init__(
        self,
        make_extractor: Callable[[], DescriptorExtractor],
        settings: dict[str, Any],
        shards: pathlib.Path,
    ):
        self._make_extractor = make_extractor
        self._settings = settings
        self._shards = shards

    def setup(self) -> None:
        self._extractor = _kept(self._make_extractor)

    def process(self, element: tuple[str, str, str | None]) -> None:
        name, path, known = element
        try:
            sha256 = content_sha256(path)
            shard = self._shards / f"{_digest(name, sha256)}.db"
            if sha256 == known or shard.exists():
                return
            features = describe_file(self._extractor, path)
        except Exception as error:
            _write_failures(self._shards, {name: failure_reason(error)})
            return
        with write_atomically(shard) as temporary, MatchStore(temporary, self._settings) as store:
            store.write_features(name, sha256, features)


class _Reading(beam.DoFn):
    """Reads the finished store, which no process writes meanwhile."""

    def __init__(self, path: pathlib.Path, settings: dict[str, Any], shards: pathlib.Path):
        self._path = path
        self._settings = settings
        self._shards = shards

    def setup(self) -> None:
        self._store = MatchStore(self._path, self._settings, read_only=True)
        self._read = features_reader(self._store)


class _Sign(_Reading):
    """Makes signatures: items are the number of the first image and names."""

    def __init__(
        self,
        path: pathlib.Path,
        settings: dict[str, Any],
        shards: pathlib.Path,
        codebook: np.ndarray,
    ):
        super().__init__(path, settings, shards)
        self._codebook = codebook

    def process(self, element: tuple[int, list[str]]) -> None:
        start, names = element
        signatures = make_signatures(names, self._store.read_features, self._codebook)
        with write_atomically(_signature_file(self._shards, start)) as temporary:
            np.save(temporary, signatures)


class _Match(_Reading):
    """Matches pairs: items are the name of an image and the names to match it with."""

    def __init__(
        self,
        path: pathlib.Path,
        settings: dict[str, Any],
        shards: pathlib.Path,
        matcher: Matcher,
    ):
        super().__init__(path, settings, shards)
        self._matcher = matcher

    def process(self, element: tuple[str, list[str]]) -> None:
        name1, others = element
        matching = self._matcher.settings()
        shard = self._shards / f"{_digest(name1, *others, json.dumps(matching))}.db"
        if shard.exists():
            return
        failures = {}
        with (
            write_atomically(shard) as temporary,
            MatchStore(temporary, self._settings, matching) as store,
        ):
            for name2 in others:
                try:
                    matches = match_stored(self._read(name1), self._read(name2), self._matcher)
                except Exception as error:
                    failures[f"{name1} {name2}"] = failure_reason(error)
                else:
                    store.write_pair(name1, name2, matches)
        if failures:
            _write_failures(self._shards, failures)


def pipeline_options(options: str) -> PipelineOptions:
    """Returns options as on a command line, or raises an InputError if Beam does not take them."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            quiet = {} if _LOG_LEVEL in options else {_LOG_LEVEL: "WARNING"}
            parsed = PipelineOptions(shlex.split(options), **quiet)
            parsed.get_all_options()
            beam.Pipeline(options=parsed)
    except (SystemExit, ValueError, ImportError, AttributeError) as error:
        reason = complaint.getvalue().strip().rpartition("\n")[2] or failure_reason(
            error if isinstance(error, Exception) else ValueError(str(error))
        )
        raise InputError(
            f"Beam does not take the options {options!r}: {reason.rstrip('.')}."
        ) from error
    return parsed


def _kept(make_extractor: Callable[[], DescriptorExtractor]) -> DescriptorExtractor:
    """Makes an extractor once in a thread, since some runners set up a `DoFn` for every task."""
    key = pickle.dumps(make_extractor)
    if getattr(_of_thread, "key", None) != key:
        _of_thread.extractor = make_extractor()
        _of_thread.key = key
    return _of_thread.extractor


def _write_failures(shards: pathlib.Path, failures: Mapping[str, str]) -> None:
    with write_atomically(shards / f"{_digest(*failures)}.json") as path:
        path.write_text(json.dumps(failures), "utf-8")


def _signature_file(shards: pathlib.Path, start: int) -> pathlib.Path:
    return shards / f"signatures-{start:09d}.npy"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
