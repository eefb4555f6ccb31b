"""Matching two images, or their features: match, then verify."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.catalogue import DEFAULT_DESCRIPTOR, DEFAULT_FOR_PAIRS, registered
from doap_tf.errors import InputError, check_choice
from doap_tf.features.detectors import Detector
from doap_tf.matching.descriptor_extractor import MAX_KEYPOINTS, DescriptorExtractor
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.matcher import Matcher
from doap_tf.matching.nearest_neighbours import NearestNeighbours
from doap_tf.matching.opencv_extractor import OpenCVExtractor
from doap_tf.matching.verifier import AUTO, PairMatches, Verifier
from doap_tf.readers.images import ImageLike, as_grey, orientation_map

#: Whether `match_images` turns images that do not match.
ROTATIONS = ("none", "auto")
_ORIENTATIONS = {1: 8, 2: 3, 3: 6}  # of EXIF data, by quarter turns to the left


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
    pair: PairMatches, image2: ImageLike, extractor: Extractor, matcher: Matcher, verifier: Verifier
) -> PairMatches:
    """Matches a pair that is not reliable again, with the second image turned by quarters.

    Returns:
        The most confident result, of several that with the most inliers; positions are in pixels
        of the image as given. As it is a pair that is reliable or was not verified, or whose
        extractor says that its descriptors follow turns (`upright` is False).
    """
    if pair.reliable is not False or not getattr(extractor, "upright", True):
        return pair
    grey = as_grey(image2)
    results = [pair]
    for quarters, orientation in _ORIENTATIONS.items():
        turned = np.ascontiguousarray(np.rot90(grey, quarters))
        to_given = orientation_map(orientation, grey.shape[::-1])
        features2 = extractor.extract(turned).moved(to_given)
        result = match_features(pair.features1, features2, matcher, verifier)
        results.append(dataclasses.replace(result, turn=90 * quarters))
    return max(results, key=lambda result: (result.confidence, result.inliers.sum()))


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
            describe keypoints of their own. By default `"doap-dense-128"`, which does so too, or
            `"doap-fast-128"` where a detector or a magnification is given.
        detector, max_keypoints, magnification: As for `DescriptorExtractor`.
        method: One of `METHODS`, a `Matcher`, or the name of one that is registered.
        ratio: Lowe's ratio, for the methods that use it.
        geometry, threshold, intrinsics1, intrinsics2, seed, estimator: As for `Verifier`.
        rotations: `"auto"`: where descriptors stand upright, as those of networks of whole images
            do, and there is no reliable match, the second image is turned by quarters, too, and the
            best result returned; see `PairMatches.turn`. `"none"`: never.

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
        detector = "learned" if detector is None else detector
        extractor = DescriptorExtractor(descriptor, detector, max_keypoints, magnification)
    elif not own_keypoints:
        raise InputError(
            f"{extractor.name} describes keypoints of its own: give neither a detector nor a "
            "magnification."
        )
    pair = match_features(extractor.extract(image1), extractor.extract(image2), matcher, verifier)
    if rotations == "auto":
        pair = match_turned(pair, image2, extractor, matcher, verifier)
    return dataclasses.replace(pair, images=(image1, image2))
