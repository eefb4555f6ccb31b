"""Matching a collection in steps: extract, choose pairs, match and verify, write.

Every step skips what fails, and what the store has already: each result is stored as soon as it is
there.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from doap_tf.counts import count
from doap_tf.errors import InputError, error_line, is_out_of_memory
from doap_tf.files import contents_sha256, write_file
from doap_tf.matching.cameras import Cameras
from doap_tf.matching.colmap_database import write_colmap
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.match_store import MatchStore, StoredMatches
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.nearest_neighbours import NearestNeighbours
from doap_tf.matching.pair_selection import Pair, cluster_pairs, sequential_pairs
from doap_tf.matching.shortlist import ReadFeatures, make_signatures, retrieval_pairs
from doap_tf.matching.verdict import is_reliable
from doap_tf.matching.verifier import PairMatches, Verifier
from doap_tf.parallel import map_ahead
from doap_tf.progress import progress
from doap_tf.readers.images import as_grey, read_upright
from doap_tf.stopwatch import Stopwatch

#: Each format of a collection with its files.
FORMATS = {"h5": ("features.h5", "matches.h5", "pairs.txt"), "colmap": ("database.db",)}
_STORE = "finished.db"
_LOOPS = 5  # images besides its neighbours that each image of a sequence is matched with, at least
_FEATURES_MB = 256  # of features that stay in memory: 100 images of 5,000 with 128 values

Images = Mapping[str, str | os.PathLike]  # paths by name


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

    def __repr__(self) -> str:
        failures = len(self.failures) + len(self.failed_pairs)
        return (
            f"Outcome({count(len(self.names), 'image')}, {count(len(self.pairs), 'pair')}, "
            f"{count(failures, 'failure')})"
        )


class Pipeline:
    """The steps by which a collection is matched, in this process; a context manager.

    Args:
        folder: For the store of finished work, and for what `write` writes.
        extractor: Describes the images.
        matcher: Matches pairs of them.
        verifier: Verifies the matches.

    Example:
        >>> with Pipeline("matches", extractor, NearestNeighbours(), Verifier()) as pipeline:
        ...     outcome = pipeline.run(find_images("photos"), exhaustive_pairs)
        ...     pipeline.write(images, outcome, "colmap")
    """

    _make_signatures: Callable = staticmethod(make_signatures)

    def __init__(
        self, folder: str | os.PathLike, extractor: Extractor, matcher: Matcher, verifier: Verifier
    ):
        self.folder = pathlib.Path(folder)
        self.extractor, self.matcher, self.verifier = extractor, matcher, verifier
        self._stopwatch = Stopwatch()
        for name in (name for names in FORMATS.values() for name in names):
            if (self.folder / name).exists() and not (self.folder / _STORE).exists():
                raise InputError(
                    f"{self.folder / name} is not of this program: choose another output folder."
                )
        self.store = MatchStore(
            self.folder / _STORE,
            {"descriptor": extractor.name, **extractor.settings()},
            {"matcher": _matcher_settings(matcher), "verifier": verifier.settings()},
        )

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None:
        self.store.__exit__()

    def run(
        self, images: Images, pairs: Sequence[Pair] | Callable[[list[str]], Sequence[Pair]]
    ) -> Outcome:
        """Describes images and matches pairs of them.

        Args:
            images: Paths by name. Images are described upright; keypoints are in pixels of the
                files as they are stored, for COLMAP and hloc ignore EXIF orientations.
            pairs: Names of the images to match, or a function that chooses them among the names of
                the images that could be described, such as `exhaustive_pairs`.
        """
        failures = self.extract(images)
        names = [name for name in images if name not in failures]
        if callable(pairs):
            pairs = pairs(names)
        possible = [pair for pair in pairs if not failures.keys() & set(pair)]
        failed = self.match(possible)
        matched = [pair for pair in possible if pair not in failed]
        return Outcome(names, matched, failures, failed, len(pairs) - len(possible))

    def extract(self, images: Images) -> dict[str, str]:
        """Stores features of images that have none yet; returns the reasons of those that failed.

        A thread reads images ahead, and detects in them if the extractor can do that alone, while
        this one describes and stores: both use all cores, but not all the time. More threads would
        take more memory, and extractors need not be safe for them.
        """
        failures: dict[str, str] = {}

        # An image that fails, for whatever reason, must not stop the others.
        def unfinished() -> Iterator[tuple[str, str]]:
            for name, path in images.items():
                try:
                    sha256 = contents_sha256(path)
                    finished = self.store.has_features(name, sha256)
                except Exception as error:
                    failures[name] = failure_reason(error)
                    finished = True
                if finished:
                    bar.update()
                else:
                    yield name, sha256

        def begin(item: tuple[str, str]) -> tuple[str, str, Callable[[], Features] | Exception]:
            try:
                return *item, self._begin(images[item[0]])
            except Exception as error:
                return *item, error

        with progress(title="describing", total=len(images), unit="image") as bar:
            for name, sha256, rest in map_ahead(begin, unfinished(), threads=1):
                try:
                    features = self._finish(rest, images[name])
                except Exception as error:
                    failures[name] = failure_reason(error)
                else:
                    self.store.write_features(name, sha256, features)
                bar.update()
        return {name: failures[name] for name in images if name in failures}

    def _begin(self, path: str | os.PathLike) -> Callable[[], Features]:
        """Reads an image, detects in it if the extractor can do that alone; returns the rest."""
        with self._stopwatch.measure("read"):
            image, to_file = read_upright(path)
        detect_frames = getattr(self.extractor, "detect_frames", None)
        if detect_frames is None:
            return lambda: self.extractor.extract(image).moved(to_file)
        grey = as_grey(image)
        with self._stopwatch.measure("detect"):
            frames, responses = detect_frames(grey)
        return lambda: self.extractor.describe(grey, frames, responses).moved(to_file)

    def _finish(
        self, rest: Callable[[], Features] | Exception, path: str | os.PathLike
    ) -> Features:
        try:
            if isinstance(rest, Exception):
                raise rest
            with self._stopwatch.measure("describe"):
                return rest()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            # By now there may be more; if not, this says what to do.
            return extract_file(self.extractor, path)

    def retrieval_pairs(self, names: Sequence[str], neighbours: int) -> list[Pair]:
        """Returns every image with those that look most like it; `shortlist.json` keeps them."""
        record = self.folder / "shortlist.json"
        with self._stopwatch.measure("shortlist"):
            return retrieval_pairs(names, self.store, neighbours, record, self._make_signatures)

    def sequential_pairs(self, names: Sequence[str], overlap: int) -> list[Pair]:
        """Returns every image with the `overlap` that follow it, and with some that look like it.

        The latter close loops: a walk that returns to where it was matches what it saw there.
        """
        pairs = sequential_pairs(names, overlap)
        if len(names) <= overlap + 1:
            return pairs
        # Of those that look most like an image, twice the overlap may be its own neighbours.
        loops = self.retrieval_pairs(names, 2 * overlap + _LOOPS)
        return list(dict.fromkeys([*pairs, *loops]))

    def match(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """Matches and verifies pairs that are not stored; returns the reasons of failures.

        Threads match several pairs at a time; other matchers than `NearestNeighbours`, which need
        not be safe for that, see one thread. This one reads and writes the store.
        """
        read = features_reader(self.store)
        failures: dict[Pair, str] = {}

        def unfinished() -> Iterator[tuple[Pair, Features, Features]]:
            for pair in cluster_pairs(pairs, images_in_memory(self.store)):
                if self.store.has_pair(*pair):
                    bar.update()
                    continue
                try:
                    features = read(pair[0]), read(pair[1])
                except Exception as error:
                    failures[pair] = failure_reason(error)
                    bar.update()
                else:
                    yield pair, *features

        def match(item: tuple[Pair, Features, Features]) -> tuple[Pair, PairMatches | Exception]:
            pair, features1, features2 = item
            try:
                with self._stopwatch.measure("match"):
                    matches = self.matcher.match(features1, features2)
                with self._stopwatch.measure("verify"):
                    return pair, self.verifier.verify(features1, features2, matches)
            except Exception as error:
                return pair, error

        threads = None if isinstance(self.matcher, NearestNeighbours) else 1
        with progress(title="matching", total=len(pairs), unit="pair") as bar:
            for pair, matches in map_ahead(match, unfinished(), threads):
                if isinstance(matches, Exception):
                    failures[pair] = failure_reason(matches)
                else:
                    self.store.write_pair(*pair, matches)
                bar.update()
        return {pair: failures[pair] for pair in pairs if pair in failures}

    def write(
        self,
        images: Images,
        outcome: Outcome,
        output_format: str | Sequence[str] = "colmap",
        cameras: Cameras | None = None,
    ) -> tuple[dict[str, Any], list[str]]:
        """Writes files for COLMAP or hloc, `report.json`, and `index.html` with pictures.

        The report's `seconds` are those of each stage since this object was made, added up over
        threads: reading and detecting run beside describing, and pairs beside each other.

        Args:
            images: Paths by name.
            outcome: What `run` returned.
            output_format: One of `FORMATS`, or several.
            cameras: For COLMAP's database.

        Returns:
            The report, and the names of the files without the page.
        """
        from doap_tf.matching.collection_page import write_collection_page  # brings Matplotlib

        names, pairs = outcome.names, outcome.pairs
        if not pairs:
            wanted = outcome.left_out + len(outcome.failed_pairs)
            raise InputError(f"none of {wanted} pairs could be matched.")
        formats = [output_format] if isinstance(output_format, str) else output_format
        with self._stopwatch.measure("write"):
            if "h5" in formats:
                from doap_tf.matching.hloc_files import write_hloc  # brings h5py

                write_hloc(self.store, names, pairs, self.folder)
            if "colmap" in formats:
                path = self.folder / FORMATS["colmap"][0]
                write_colmap(self.store, names, pairs, path, cameras)
        settings = all_settings(self.extractor, self.matcher, self.verifier)
        report = collection_report(self.store, outcome, settings)
        written = [*(file for name in formats for file in FORMATS[name]), "report.json"]
        with self._stopwatch.measure("draw"):
            write_collection_page(self.folder / "index.html", self.store, images, report, written)
        report["seconds"] = self._stopwatch.seconds()
        write_file(self.folder / "report.json", json.dumps(report, indent=1) + "\n")
        return report, written


def collection_report(
    store: MatchStore, outcome: Outcome, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns keypoints per image, matches per pair, failures and settings, for JSON."""
    pairs = [pair_record(*pair, store.read_pair(*pair)) for pair in outcome.pairs]
    failed_pairs = [
        {"image1": name1, "image2": name2, "reason": reason}
        for (name1, name2), reason in outcome.failed_pairs.items()
    ]
    return {
        "images": {name: len(store.read_features(name).frames) for name in outcome.names},
        "pairs": pairs,
        "failures": outcome.failures,
        "failed_pairs": failed_pairs,
        "settings": dict(settings),
    }


def pair_record(name1: str, name2: str, matches: StoredMatches | PairMatches) -> dict[str, Any]:
    """Returns counts, geometry and verdict, for JSON; only matches if they were not verified."""
    record: dict[str, Any] = {"image1": name1, "image2": name2, "matches": len(matches.indices)}
    if matches.geometry is not None:
        record |= {
            "inliers": int(matches.inliers.sum()),
            "geometry": matches.geometry,
            "model": None if matches.model is None else matches.model.tolist(),
            "reliable": is_reliable(matches.confidence),
            "confidence": matches.confidence,
        }
    return record


def all_settings(extractor: Extractor, matcher: Matcher, verifier: Verifier) -> dict[str, Any]:
    """Returns the settings of all steps, for records."""
    features = {"descriptor": extractor.name, **extractor.settings()}
    return features | _matcher_settings(matcher) | verifier.settings()


def _matcher_settings(matcher: Matcher) -> dict[str, Any]:
    return {"method": type(matcher).__name__, **matcher.settings()}


def extract_file(extractor: Extractor, path: str | os.PathLike) -> Features:
    """Returns the features of an image file, as `Pipeline.extract` makes them."""
    image, to_file = read_upright(path)
    return extractor.extract(image).moved(to_file)


def features_reader(store: MatchStore) -> ReadFeatures:
    """Returns `store.read_features` with a memory of the last images."""
    return functools.lru_cache(images_in_memory(store))(store.read_features)


def images_in_memory(store: MatchStore) -> int:
    """The number of images whose features may be in memory, at least both of a pair."""
    return max(2, int(_FEATURES_MB * 2**20 / max(1, store.mean_feature_bytes())))


def failure_reason(error: Exception) -> str:
    """Returns one line for a report."""
    return str(error) if isinstance(error, InputError) else error_line(error)
