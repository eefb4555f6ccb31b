"""HPatches' tasks on patches cut from photographs."""

import cv2
import numpy as np

from doap_tf.evaluation import photo_sequences
from tests import layouts


def test_cut_once_for_the_same_images(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for name in ("one.png", "two.png"):
        cv2.imwrite(str(tmp_path / "images" / name), layouts.texture(rng, 160, 200))
    sequences = photo_sequences(tmp_path / "images", tmp_path / "cache")
    assert sequences.name == "photos" and set(sequences.lengths) == {"v_one", "v_two"}
    assert min(sequences.lengths.values()) > 3
    monkeypatch.setattr("doap_tf.evaluation.hpatches.photos.write_strips", None)
    assert photo_sequences(tmp_path / "images", tmp_path / "cache").lengths == sequences.lengths
    monkeypatch.undo()
    cv2.imwrite(str(tmp_path / "images" / "two.png"), layouts.texture(rng, 160, 200))
    changed = photo_sequences(tmp_path / "images", tmp_path / "cache")
    assert changed.content("v_one", "ref") == sequences.content("v_one", "ref")
    assert changed.content("v_two", "ref") != sequences.content("v_two", "ref")
