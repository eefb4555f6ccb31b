"""Describing and matching many images, skipping what fails and what is already finished."""

import dataclasses
import functools
import glob
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from doap_tf.errors import InputError, error_line, is_out_of_memory
from doap_tf.features.detectors import Detections
from doap_tf.files import contents_sha256, printable
from doap_tf.matching.descriptor_extractor import DescriptorExtractor
from doap_tf.matching.image_features import Features, unit_rows
from doap_tf.matching.match_store import MatchStore, StoredMatches
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.pair_selection import Pair
from doap_tf.parallel import map_ahead
from doap_tf.progress import progress
from doap_tf.readers.images import IMAGE_SUFFIXES, as_grey, read_image

_FEATURES_IN_MEMORY = 32  # images; 80 MB at 5,000 features of 128 values


class Outcome(NamedTuple):
    """The outcome of matching a collection.

    Attributes:
        names: Images that have features.
        pairs: Pairs that have been matched, now or earlier.
        failures: The reason for every image that failed.
        failed_pairs: The reason for every pair that failed.
        left_out: Number of pairs left out because one of their images failed.
    """

    names: list[str]
    pairs: list[Pair]
    failures: dict[str, str]
    failed_pairs: dict[Pair, str]
    left_out: int


def find_images(patterns: str) -> dict[str, pathlib.Path]:
    """Finds image files.

    Args:
        patterns: One or more, separated by commas: folders, which are searched with all folders
            below them, or patterns as in a shell, with `**` for folders of any depth and `{a,b}`
            for alternatives.

    Returns:
        Paths by name, in order of name: the path below the folder that all of them share.
    """
    files: set[pathlib.Path] = set()
    roots = []
    exists = os.path.exists(os.path.expanduser(patterns))  # commas may be part of a name
    for pattern in map(os.path.expanduser, [patterns] if exists else _alternatives(patterns)):
        if os.path.isdir(pattern):
            below = pathlib.Path(pattern).rglob("*")
            paths = [path for path in below if path.suffix.lower() in IMAGE_SUFFIXES]
            roots.append(os.path.abspath(pattern))
        else:
            paths = [pathlib.Path(path) for path in glob.glob(pattern, recursive=True)]
            parts = pathlib.Path(pattern).parts
            magic = [index for index, part in enumerate(parts) if glob.has_magic(part)]
            fixed = parts[: magic[0] if magic else len(parts) - 1]
            roots.append(os.path.abspath(os.path.join("", *fixed)))
        found = [path for path in paths if path.is_file()]
        if not found:
            raise InputError(f"no image file matches {pattern!r}.")
        files.update(found)
    root = os.path.commonpath(roots)
    named = {pathlib.Path(os.path.relpath(path, root)).as_posix(): path for path in files}
    for name in named:
        if printable(name) != name:
            raise InputError(f"the name of {printable(name)} is not UTF-8: rename the file.")
    return dict(sorted(named.items()))


def _alternatives(patterns: str) -> list[str]:
    """Splits patterns at commas outside of braces, then expands the braces."""
    expanded: list[str] = []
    for pattern in re.split(r",(?![^{]*\})", patterns):
        if braces := re.search(r"\{([^{}]*)\}", pattern):
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            for choice in braces[1].split(","):
                expanded += _alternatives(before + choice + after)
        else:
            expanded.append(pattern)
    return expanded


class Engine(Protocol):
    """What describes and matches the images of a collection and stores the results."""

    def describe(self, images: Mapping[str, str | os.PathLike]) -> dict[str, str]:
        """Describes what is not finished; returns the reasons of images that failed."""

    def match(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """Matches what is not finished; returns the reasons of pairs that failed."""


@dataclasses.dataclass(frozen=True)
class InProcess:
    """The engine that works in this process.

    Args:
        extractor: Describes the images.
        matcher: Matches the pairs.
        store: Keeps every result as soon as it is there.
    """

    extractor: DescriptorExtractor
    matcher: Matcher
    store: MatchStore

    def describe(self, images: Mapping[str, str | os.PathLike]) -> dict[str, str]:
        """As for `Engine`."""
        return _describe(images, self.extractor, self.store)

    def match(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """As for `Engine`."""
        read = features_reader(self.store)
        failures = {}
        for name1, name2 in progress(pairs, "matching"):
            if self.store.has_pair(name1, name2):
                continue
            try:
                matches = match_stored(read(name1), read(name2), self.matcher)
            except Exception as error:
                failures[name1, name2] = failure_reason(error)
            else:
                self.store.write_pair(name1, name2, matches)
        return failures


def match_collection(
    images: Mapping[str, str | os.PathLike],
    pairs: Sequence[Pair] | Callable[[list[str]], Sequence[Pair]],
    extractor: DescriptorExtractor,
    matcher: Matcher,
    store: MatchStore,
) -> Outcome:
    """Describes images and matches pairs of them; every result is stored as soon as it is there.

    Args:
        images: Paths by name. Images are read without applying their EXIF orientation.
        pairs: Names of the images to match, or a function that chooses them among the names of the
            images that could be described.
        extractor: Describes the images.
        matcher: Matches the pairs.
        store: Keeps what is finished.
    """
    return match_by(InProcess(extractor, matcher, store), images, pairs)


def match_by(
    engine: Engine,
    images: Mapping[str, str | os.PathLike],
    pairs: Sequence[Pair] | Callable[[list[str]], Sequence[Pair]],
) -> Outcome:
    """Does what `match_collection` does with any engine."""
    failures = engine.describe(images)
    described = [name for name in images if name not in failures]
    if callable(pairs):
        pairs = pairs(described)
    possible = [pair for pair in pairs if not failures.keys() & set(pair)]
    failed = engine.match(possible)
    finished = [pair for pair in possible if pair not in failed]
    return Outcome(described, finished, failures, failed, len(pairs) - len(possible))


def features_reader(store: MatchStore) -> Callable[[str], Features]:
    """Returns `store.read_features` with a memory of the last images."""
    return functools.lru_cache(_FEATURES_IN_MEMORY)(store.read_features)


def _describe(
    images: Mapping[str, str | os.PathLike], extractor: DescriptorExtractor, store: MatchStore
) -> dict[str, str]:
    """Stores the features of images that have none yet; returns the reasons of those that failed.

    A thread reads images and detects keypoints ahead while this one describes and stores: both use
    all cores, but not all the time. More threads would take more memory, and a detector of the
    caller's own may not stand them.
    """
    failures: dict[str, str] = {}

    # An image that fails, for whatever reason, must not stop the others.
    def unfinished() -> Iterator[tuple[str, str]]:
        for name, path in images.items():
            try:
                sha256 = contents_sha256(path)
                finished = store.has_features(name, sha256)
            except Exception as error:
                failures[name] = failure_reason(error)
                finished = True
            if finished:
                bar.update()
            else:
                yield name, sha256

    def detect_ahead(item: tuple[str, str]) -> tuple[str, str, _Detected | Exception]:
        try:
            return *item, _detect(extractor, images[item[0]])
        except Exception as error:
            return *item, error

    with progress(title="describing", total=len(images), unit="image") as bar:
        for name, sha256, detected in map_ahead(detect_ahead, unfinished(), threads=1):
            try:
                features = _features(extractor, images[name], detected)
            except Exception as error:
                failures[name] = failure_reason(error)
            else:
                store.write_features(name, sha256, features)
            bar.update()
    return {name: failures[name] for name in images if name in failures}


class _Detected(NamedTuple):
    """A grey image, uint8 [H, W], and what was detected in it."""

    image: np.ndarray
    detections: Detections


def _detect(extractor: DescriptorExtractor, path: str | os.PathLike) -> _Detected:
    image = as_grey(read_image(path, upright=False))
    return _Detected(image, extractor.detect_frames(image))


def _features(
    extractor: DescriptorExtractor, path: str | os.PathLike, detected: _Detected | Exception
) -> Features:
    try:
        if isinstance(detected, Exception):
            raise detected
        return extractor.describe(detected.image, *detected.detections)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        # By now there may be more; if not, this says what to do.
        return describe_file(extractor, path)


def describe_file(extractor: DescriptorExtractor, path: str | os.PathLike) -> Features:
    """Detects and describes the features of an image file, as every engine does."""
    return extractor.extract(read_image(path, upright=False))


def collection_report(store: MatchStore, outcome: Outcome) -> dict[str, Any]:
    """Returns keypoints per image, matches, inliers and model per pair, and failures, for JSON."""
    pairs = []
    for name1, name2 in outcome.pairs:
        matches = store.read_pair(name1, name2)
        pairs.append(
            {
                "image1": name1,
                "image2": name2,
                "matches": len(matches.indices),
                "inliers": int(matches.inliers.sum()),
                "model": None if matches.model is None else matches.model.tolist(),
            }
        )
    failed_pairs = [
        {"image1": name1, "image2": name2, "reason": reason}
        for (name1, name2), reason in outcome.failed_pairs.items()
    ]
    return {
        "images": {name: len(store.read_features(name).frames) for name in outcome.names},
        "pairs": pairs,
        "failures": outcome.failures,
        "failed_pairs": failed_pairs,
    }


def match_stored(features1: Features, features2: Features, matcher: Matcher) -> StoredMatches:
    """Matches two images, for a store."""
    pair = matcher.match(features1, features2)
    rows1, rows2 = (
        unit_rows(features.descriptors[pair.indices[:, side]], features.norm)
        for side, features in enumerate((features1, features2))
    )
    scores = ((rows1 * rows2).sum(axis=1) + 1) / 2
    return StoredMatches(pair.indices, scores, pair.inliers, pair.model)


def failure_reason(error: Exception) -> str:
    """Returns one line for a report."""
    if isinstance(error, InputError):
        return str(error)
    return error_line(error)
