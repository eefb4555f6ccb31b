"""Matching two images in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.matching.descriptor_extractor import DescriptorExtractor
from doap_tf.matching.matcher import Matcher, PairMatches


def match_images(
    image1: np.ndarray,
    image2: np.ndarray,
    descriptor: Any,
    detector: str = "dog",
    max_keypoints: int | None = None,
    magnification: float | Sequence[float] | None = None,
    method: str = "mutual",
    ratio: float = 0.8,
    geometry: str | None = "homography",
    threshold: float = 3.0,
    intrinsics1: np.ndarray | None = None,
    intrinsics2: np.ndarray | None = None,
    seed: int = 0,
) -> PairMatches:
    """Detects, describes, matches and verifies.

    Make a `DescriptorExtractor` and a `Matcher` where an image is used more than once.

    Args:
        image1, image2: Anything that `doap_tf.matching.as_grey` takes; colour as OpenCV has it.
        descriptor: As for `DescriptorExtractor`: a name such as `"doap-128"` or `"rootsift"`, a
            path, or a descriptor.
        detector, max_keypoints, magnification: As for `DescriptorExtractor`.
        method, ratio, geometry, threshold, intrinsics1, intrinsics2, seed: As for `Matcher`.

    Returns:
        Keypoints with their descriptors, matches, inliers, residuals and the estimated model.

    Example:
        >>> pair = doap_tf.match_images(cv2.imread("a.jpg"), cv2.imread("b.jpg"), "doap-128")
        >>> pair.model, pair.points1[pair.inliers], pair.points2[pair.inliers]
    """
    matcher = Matcher(method, ratio, geometry, threshold, intrinsics1, intrinsics2, seed)
    extractor = DescriptorExtractor(descriptor, detector, max_keypoints, magnification)
    return matcher.match(extractor.extract(image1), extractor.extract(image2))
