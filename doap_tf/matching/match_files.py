"""Writing the matches of a pair as JSON, NumPy arrays or a table."""

import csv
import json
import os
import pathlib
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.files import write_atomically
from doap_tf.matching.image_features import Features
from doap_tf.matching.verifier import PairMatches

MATCH_FILE_SUFFIXES = (".json", ".npz", ".csv")
_COLUMNS = ("index1", "index2", "x1", "y1", "x2", "y2", "distance", "inlier", "residual", "score")


def write_matches(
    path: str | os.PathLike, pair: PairMatches, settings: dict[str, Any] | None = None
) -> None:
    """Writes matches in the format that the suffix of `path` names.

    - `.json`: keypoints of both images (x, y, size, angle in degrees, response), indices of the
      matches, scores, distances (−1 of a matcher that has none), inliers, residuals (−1 without a
      model), geometry, model, reliable, confidence, turn (if it is not 0) and settings. What
      verification gives is null without it.
    - `.npz`: the same as arrays `keypoints1`, `keypoints2`, `indices`, `scores`, `distances`,
      `inliers`, `residuals` and `model` (if there is one).
    - `.csv`: one line per match; inlier and residual are empty without verification.
    """
    path = pathlib.Path(path)
    suffix = path.suffix.lower()
    if suffix not in MATCH_FILE_SUFFIXES:
        raise InputError(f"{path} must end in one of {', '.join(MATCH_FILE_SUFFIXES)}.")
    verified = pair.geometry is not None
    arrays = {
        "keypoints1": _keypoints(pair.features1),
        "keypoints2": _keypoints(pair.features2),
        "indices": pair.indices,
        "scores": pair.scores,
        "distances": np.full(len(pair.indices), -1.0) if pair.distances is None else pair.distances,
        # JSON has no infinity, which residuals have where no model was found.
        "inliers": pair.inliers if verified else None,
        "residuals": np.nan_to_num(pair.residuals, posinf=-1.0) if verified else None,
        "model": pair.model,
    }
    with write_atomically(path) as temporary:
        if suffix == ".npz":
            known = {name: array for name, array in arrays.items() if array is not None}
            np.savez_compressed(temporary, **known)  # type: ignore[arg-type]
        elif suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(_COLUMNS)
                columns = [*pair.indices.T, *pair.points1.T, *pair.points2.T, arrays["distances"]]
                if verified:
                    columns += [pair.inliers.astype(int), pair.residuals]
                else:
                    columns += [np.full(len(pair.indices), "")] * 2
                columns.append(pair.scores)
                writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        else:
            record = {
                "format": 1,
                "image_size1": pair.features1.image_size,
                "image_size2": pair.features2.image_size,
                "geometry": pair.geometry,
                "reliable": pair.reliable,
                "confidence": pair.confidence,
                **({"turn": pair.turn} if pair.turn else {}),
                "settings": settings or {},
                **{
                    name: None if array is None else array.tolist()
                    for name, array in arrays.items()
                },
            }
            temporary.write_text(json.dumps(record) + "\n", "utf-8")


def _keypoints(features: Features) -> np.ndarray:
    """Keypoints float64 [N, 5]: x, y, size (twice the radius), angle in degrees, response."""
    degrees = np.degrees(features.angles) % 360
    return np.column_stack([features.points, 2 * features.scales, degrees, features.responses])
