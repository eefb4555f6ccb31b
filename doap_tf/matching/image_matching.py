"""Matching two images, or their features: match, then verify."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.catalogue import DEFAULT_DESCRIPTOR, DEFAULT_DETECTOR, DEFAULT_FOR_PAIRS, registered
from doap_tf.errors import InputError, check_choice
from doap_tf.features.detectors import Detector
from doap_tf.features.frames import compose
from doap_tf.matching.descriptor_extractor import MAX_KEYPOINTS, DescriptorExtractor
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.nearest_neighbours import NearestNeighbours
from doap_tf.matching.opencv_extractor import OpenCVExtractor
from doap_tf.matching.verifier import AUTO, PairMatches, Verifier
from doap_tf.readers.images import ImageLike, as_grey

#: Whether `match_images` turns images that do not match.
ROTATIONS = ("none", "auto")
_QUARTERS = (90, 180, 270)
_LEAST_TURN = 15  # degrees by which images are turned against each other to be matched again


def match_features(
    features1: Features,
    features2: Features,
    matcher: Matcher | None = None,
    verifier: Verifier | None = None,
) -> PairMatches:
    """Matches and verifies; by default mutual nearest neighbours, and the better geometry."""
    matches = (matcher or NearestNeighbours()).match(features1, features2)
    return (verifier or Verifier()).verify(features1, features2, matches)


def match_turned(
    pair: PairMatches,
    image1: ImageLike,
    image2: ImageLike,
    extractor: Extractor,
    matcher: Matcher,
    verifier: Verifier,
) -> PairMatches:
    """Matches a pair again whose images are turned against each other, or may be.

    Without a reliable match the second image is turned by quarters; patches are turned to their
    dominant gradients instead. Then it is turned by the angle between the images that the inliers
    show.

    Returns:
        The most confident result, of several that with the most inliers; positions are in pixels
        of the images as given. As it is a pair that was not verified, or whose extractor says that
        its descriptors follow turns (`upright` is False).
    """
    if pair.reliable is None or not getattr(extractor, "upright", True):
        return pair
    grey = as_grey(image2)

    def turned(degrees: int) -> PairMatches:
        features2 = _extract_turned(extractor, grey, degrees)
        result = match_features(pair.features1, features2, matcher, verifier)
        return dataclasses.replace(result, turn=degrees)

    results = [pair]
    following = getattr(extractor, "following", None)
    if not pair.reliable and following is not None:
        first, second = (following().extract(image) for image in (image1, grey))
        results.append(match_features(first, second, matcher, verifier))
    elif not pair.reliable:
        results.extend(map(turned, _QUARTERS))
    best = _best(results)
    if best.reliable:
        degrees = _turn_between(best.points1[best.inliers], best.points2[best.inliers])
        left = abs((degrees - best.turn + 180) % 360 - 180)
        if left >= _LEAST_TURN or best.features1 is not pair.features1:
            best = _best([best, turned(degrees)])
    return best


def _best(results: list[PairMatches]) -> PairMatches:
    """Returns the reliable result of most inliers, or else the likeliest."""

    def rank(result: PairMatches) -> tuple:
        return result.reliable or result.confidence, result.inliers.sum()

    return max(results, key=rank)


def _turn_between(points1: np.ndarray, points2: np.ndarray) -> int:
    """Whole degrees by which the second of two images is to be turned to the left, 0 to 359."""
    first, second = (
        (points - points.mean(axis=0)) @ np.array([1, 1j]) for points in (points1, points2)
    )
    return round(np.degrees(np.angle(np.vdot(first, second)))) % 360


def _extract_turned(extractor: Extractor, grey: np.ndarray, degrees: int) -> Features:
    """Features of an image turned to the left, at their places in the image as it is."""
    height, width = grey.shape
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[cosine, sine, 0], [-sine, cosine, 0]])
    corners = [[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]] @ turn[:, :2].T
    turn[:, 2] = -corners.min(axis=0)
    size = np.ceil(np.ptp(corners, axis=0) - 1e-6).astype(int) + 1
    turned, mask = (
        cv2.warpAffine(image, turn, size, flags=flag, borderMode=border)
        for image, flag, border in (
            (grey, cv2.INTER_LINEAR, cv2.BORDER_REPLICATE),
            (np.ones_like(grey), cv2.INTER_NEAREST, cv2.BORDER_CONSTANT),
        )
    )
    features = extractor.extract(turned, mask if degrees % 90 else None)
    frames = compose(cv2.invertAffineTransform(turn), features.frames)
    return dataclasses.replace(features, frames=frames, image_size=(width, height))


def match_images(
    image1: ImageLike,
    image2: ImageLike,
    descriptor: Any = None,
    detector: str | os.PathLike | Detector | None = None,
    max_keypoints: int | None = MAX_KEYPOINTS,
    magnification: float | Sequence[float] | None = None,
    method: str | Matcher = "mutual",
    ratio: float = 0.8,
    geometry: str | None = AUTO,
    threshold: float = 3.0,
    intrinsics1: np.ndarray | None = None,
    intrinsics2: np.ndarray | None = None,
    seed: int = 0,
    estimator: str = "magsac",
    rotations: str = "auto",
) -> PairMatches:
    """Detects, describes, matches and verifies.

    To use an image more than once, make an extractor and call `match_features`.

    Args:
        image1, image2: Paths, or arrays that `doap_tf.readers.images.as_grey` takes; colours in
            OpenCV's order.
        descriptor: As for `DescriptorExtractor`: a name such as `"doap-128"` or `"rootsift"`, a
            path, or a descriptor; or an `Extractor`, or a `cv2.Feature2D` such as AKAZE, which
            describe keypoints of their own. By default `"doap-dense-128+doap-fast-128"`, which
            does so too (`"doap-dense-128"` alone is faster), or `"doap-fast-128"` where a detector
            or a magnification is given.
        detector, max_keypoints, magnification: As for `DescriptorExtractor`.
        method: One of `METHODS`, a `Matcher`, or the name of one that is registered.
        ratio: Lowe's ratio, for the methods that use it.
        geometry, threshold, intrinsics1, intrinsics2, seed, estimator: As for `Verifier`.
        rotations: `"auto"`: descriptors stand upright. Where there is no reliable match, patches
            follow the dominant gradient, and for networks of whole images the second image is
            turned by quarters; where the images turn out to be turned against each other, it is
            turned by their angle. The best result is returned; see `PairMatches.turn`. `"none"`:
            the images are matched once, with patches that follow the dominant gradient.

    Returns:
        Keypoints with their descriptors, matches, inliers, residuals, the estimated model, and
        whether the match is reliable.

    Example:
        >>> pair = doap_tf.match_images("a.jpg", "b.jpg")
        >>> pair.reliable, pair.geometry, pair.points1[pair.inliers], pair.points2[pair.inliers]
        >>> pair.draw("matches.png")
    """
    check_choice("rotations", rotations, ROTATIONS)
    matcher = registered(method, "matcher")
    if isinstance(matcher, str):
        matcher = NearestNeighbours(matcher, ratio)
    verifier = Verifier(geometry, threshold, intrinsics1, intrinsics2, seed, estimator)
    own_keypoints = detector is None and magnification is None
    if descriptor is None:
        descriptor = DEFAULT_FOR_PAIRS if own_keypoints else DEFAULT_DESCRIPTOR
    extractor = descriptor = registered(descriptor, "extractor")
    if isinstance(descriptor, cv2.Feature2D):
        extractor = OpenCVExtractor(descriptor, max_keypoints)
    if not hasattr(extractor, "extract"):
        detector = DEFAULT_DETECTOR if detector is None else detector
        follows = rotations == "none" or geometry is None
        extractor = DescriptorExtractor(descriptor, detector, max_keypoints, magnification, follows)
    elif not own_keypoints:
        raise InputError(
            f"{extractor.name} describes keypoints of its own: give neither a detector nor a "
            "magnification."
        )
    pair = match_features(extractor.extract(image1), extractor.extract(image2), matcher, verifier)
    if rotations == "auto":
        pair = match_turned(pair, image1, image2, extractor, matcher, verifier)
    return dataclasses.replace(pair, images=(image1, image2))
