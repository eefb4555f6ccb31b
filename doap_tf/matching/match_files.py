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
      model), geometry, model and settings.
    - `.npz`: the same as arrays `keypoints1`, `keypoints2`, `indices`, `scores`, `distances`,
      `inliers`, `residuals` and `model` (if there is one).
    - `.csv`: one line per match.
    """
    path = pathlib.Path(path)
    suffix = path.suffix.lower()
    if suffix not in MATCH_FILE_SUFFIXES:
        raise InputError(f"{path} must end in one of {', '.join(MATCH_FILE_SUFFIXES)}.")
    arrays = {
        "keypoints1": _keypoints(pair.features1),
        "keypoints2": _keypoints(pair.features2),
        "indices": pair.indices,
        "scores": pair.scores,
        "distances": np.full(len(pair.indices), -1.0) if pair.distances is None else pair.distances,
        "inliers": pair.inliers,
        # JSON has no infinity, which residuals have where no model was found.
        "residuals": np.nan_to_num(pair.residuals, posinf=-1.0),
    }
    with write_atomically(path) as temporary:
        if suffix == ".npz":
            model = {} if pair.model is None else {"model": pair.model}
            np.savez_compressed(temporary, **arrays, **model)  # type: ignore[arg-type]
        elif suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(_COLUMNS)
                columns = [*pair.indices.T, *pair.points1.T, *pair.points2.T, arrays["distances"]]
                columns += [pair.inliers.astype(int), pair.residuals, pair.scores]
                writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        else:
            record = {
                "format": 1,
                "image_size1": pair.features1.image_size,
                "image_size2": pair.features2.image_size,
                "geometry": pair.geometry,
                "model": None if pair.model is None else pair.model.tolist(),
                "settings": settings or {},
                **{name: array.tolist() for name, array in arrays.items()},
            }
            temporary.write_text(json.dumps(record) + "\n", "utf-8")


def _keypoints(features: Features) -> np.ndarray:
    """Keypoints float64 [N, 5]: x, y, size (twice the radius), angle in degrees, response."""
    degrees = np.degrees(features.angles) % 360
    return np.column_stack([features.points, 2 * features.scales, degrees, features.responses])
