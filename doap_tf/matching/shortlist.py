"""Shortlisting the pairs of a collection that may overlap, by one signature an image (VLAD)."""

import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.files import write_file
from doap_tf.matching.image_features import Features, unit_rows
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.pair_selection import Pair
from doap_tf.metrics import NORM_L2, nearest

_WORDS = 256
_COMPONENTS = 32
_SAMPLED_IMAGES = 500
_SAMPLED_ROWS = 200  # of the strongest features of each
_ROWS_PER_WORD = 32  # or more; with fewer, words would be single descriptors
_ITERATIONS = 20
_SEARCHED_EXACTLY = 100_000  # images
_LINKS = 32  # of an image in the index
_CANDIDATES = 128  # at least, that a search in the index keeps


class Codebook(NamedTuple):
    """What signatures are made with.

    Attributes:
        components: Principal components of descriptors of unit length, float32 [D, C].
        words: Visual words in the space of the components, float32 [W, C].
    """

    components: np.ndarray
    words: np.ndarray


ReadFeatures = Callable[[str], Features]
MakeSignatures = Callable[[Sequence[str], ReadFeatures, Codebook], np.ndarray]


def retrieval_pairs(
    names: Sequence[str],
    store: MatchStore,
    neighbours: int,
    record: str | os.PathLike,
    make: MakeSignatures | None = None,
) -> list[Pair]:
    """Returns every image with those that look most like it, each pair once.

    Args:
        names: The images.
        store: Holds their features.
        neighbours: How many of the nearest each image is paired with.
        record: File that keeps the pairs; the same images get the same pairs from it.
        make: Makes the signatures; `make_signatures` by default.
    """
    check_shortlist(neighbours, len(names))
    contents = store.contents()
    images = [[name, contents[name]] for name in names]
    settings = [neighbours, _WORDS, _COMPONENTS, images]
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    record = pathlib.Path(record)
    if record.exists():
        known = json.loads(record.read_text("utf-8"))
        if known["key"] == key:
            return [(first, second) for first, second in known["pairs"]]
    codebook = learn_codebook(names, store.read_features)
    signatures = (make or make_signatures)(names, store.read_features, codebook)
    pairs = nearest_pairs(names, signatures, neighbours)
    write_file(record, json.dumps({"key": key, "pairs": pairs}))
    return pairs


def learn_codebook(names: Sequence[str], read: ReadFeatures) -> Codebook:
    """Learns components and words from a bounded sample of a collection's own descriptors.

    Args:
        names: The images.
        read: Gives the features of an image.

    Returns:
        The same for the same collection.
    """
    sample = _sample(names, read)
    components = _principal_components(sample)
    sample = sample @ components
    cv2.setRNGSeed(0)
    criteria = (cv2.TERM_CRITERIA_MAX_ITER + cv2.TERM_CRITERIA_EPS, _ITERATIONS, 1e-4)
    words = min(_WORDS, -(-len(sample) // _ROWS_PER_WORD))
    labels = np.empty((len(sample), 1), np.int32)  # filled
    centres = cv2.kmeans(sample, words, labels, criteria, 1, cv2.KMEANS_PP_CENTERS)[2]
    return Codebook(components, np.asarray(centres))


def make_signatures(names: Sequence[str], read: ReadFeatures, codebook: Codebook) -> np.ndarray:
    """Returns the signatures of images, float32 [N, W · C], of unit length.

    A signature is the VLAD of Jégou et al. with the later normalisations, of the principal
    components of descriptors: directions of the residuals summed for each word, each sum and then
    the whole brought to unit length. An image without features has zeros.

    Args:
        names: The images.
        read: Gives the features of an image.
        codebook: What `learn_codebook` returns.
    """
    components, words = codebook
    signatures = np.zeros((len(names), words.size), np.float32)
    for signature, name in zip(signatures, names, strict=True):
        features = read(name)
        if not len(features.descriptors):
            continue
        rows = unit_rows(features.descriptors, features.norm) @ components
        of_rows = nearest(rows, words, NORM_L2)[0][:, 0]
        sums = np.zeros_like(words)
        np.add.at(sums, of_rows, _unit(rows - words[of_rows]))
        signature[:] = _unit(_unit(sums).reshape(1, -1))
    return signatures


def nearest_pairs(names: Sequence[str], signatures: np.ndarray, neighbours: int) -> list[Pair]:
    """Returns every image with its nearest ones, each pair once, in the order of the names.

    Images without features are left out. Up to 100,000 images the search is exact, and its time
    grows with the square of their number; beyond, an index of Faiss finds most of the nearest.

    Args:
        names: The images.
        signatures: Their signatures, float32 [N, S].
        neighbours: How many of the nearest each image is paired with.
    """
    check_shortlist(neighbours, len(names))
    # Zeros would be nearer to every image than most others are.
    signed = np.flatnonzero(signatures.any(axis=1))
    rows = signatures[signed]
    count = min(neighbours + 1, len(rows))
    if len(names) > _SEARCHED_EXACTLY:
        nearest_rows = _nearest_by_index(rows, count)
    else:
        nearest_rows = nearest(rows, rows, NORM_L2, count)[0]
    pairs: set[tuple[int, int]] = set()
    for row, candidates in enumerate(nearest_rows.tolist()):
        others = [other for other in candidates if other not in (row, -1)][:neighbours]
        pairs.update((min(row, other), max(row, other)) for other in others)
    return [(names[signed[first]], names[signed[second]]) for first, second in sorted(pairs)]


def check_shortlist(neighbours: int, images: int) -> None:
    """Raises an InputError unless `nearest_pairs` takes this many of each."""
    if neighbours < 1:
        raise InputError(f"neighbours must be at least 1, not {neighbours}.")
    if images > _SEARCHED_EXACTLY:
        try:
            import faiss  # noqa: F401
        except ModuleNotFoundError as error:
            raise InputError(
                f"a shortlist of {images:,} images needs Faiss: install it with "
                "`pip install '.[faiss]'`."
            ) from error


def _sample(names: Sequence[str], read: ReadFeatures) -> np.ndarray:
    """Returns descriptors of unit length, float32 [M, D]."""
    chosen = np.unique(np.linspace(0, len(names) - 1, _SAMPLED_IMAGES).round().astype(int))
    rows = []
    for index in chosen:
        features = read(names[index])
        rows.append(unit_rows(features.descriptors[:_SAMPLED_ROWS], features.norm))
    sample = np.concatenate(rows)
    if not len(sample):
        raise InputError(f"none of {len(names)} images has a feature to compare it by.")
    return sample


def _principal_components(rows: np.ndarray) -> np.ndarray:
    """Returns the directions of most variance of rows [M, D], float32 [D, C], most first."""
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.eigh((centred.T @ centred).astype(np.float64))[1][:, ::-1]
    components = directions[:, : min(_COMPONENTS, len(rows))]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, np.arange(len(largest))])
    return np.ascontiguousarray(components * signs, np.float32)


def _nearest_by_index(rows: np.ndarray, count: int) -> np.ndarray:
    """Returns most of the nearest of each row [N, S], int64 [N, count]; -1 where none was found."""
    import faiss

    index = faiss.IndexHNSWFlat(rows.shape[1], _LINKS)
    index.hnsw.efSearch = max(_CANDIDATES, 2 * count)
    index.add(rows)
    return index.search(rows, count)[1]


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
