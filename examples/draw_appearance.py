"""Draws every change of appearance by name on a photograph, weak and at full strength.

python examples/draw_appearance.py --output=appearance.jpg
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import numpy as np
import skimage.data
from absl import flags

from doap_tf import command_line
from doap_tf.appearance import PRESETS, Appearance, Effect
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.appearance.settings import CAMERA_EFFECTS, SCENE_EFFECTS
from doap_tf.drawing.patches import tile
from doap_tf.drawing.pictures import encode_jpeg
from doap_tf.files import write_atomically
from doap_tf.readers.images import read_grey

FLAGS = flags.FLAGS
flags.DEFINE_string("photo", None, "A photograph; one of scikit-image by default.")
flags.DEFINE_string("output", None, "The picture to write, a JPEG file.", required=True)

_SIDE = 100
_STRENGTHS = (0.4, 0.4, 1.0, 1.0)


def main(argv: Sequence[str]) -> None:
    del argv
    photo = read_grey(pathlib.Path(FLAGS.photo)) if FLAGS.photo else skimage.data.camera()
    side = min(photo.shape)
    top, left = ((length - side) // 2 for length in photo.shape)
    view = cv2.resize(
        photo[top : top + side, left : left + side], (_SIDE, _SIDE), interpolation=cv2.INTER_AREA
    )
    rows = {name: _row(view, name) for name in (*SCENE_EFFECTS, *CAMERA_EFFECTS)}
    for name, settings in PRESETS.items():
        rows[f"preset {name}"] = _changed(view, [settings] * len(_STRENGTHS))
    with write_atomically(pathlib.Path(FLAGS.output)) as temporary:
        temporary.write_bytes(encode_jpeg(tile(list(rows.values()), list(rows))))


def _row(view: np.ndarray, name: str) -> np.ndarray:
    effects = [Effect(1.0, strength) for strength in _STRENGTHS]
    return _changed(view, [Appearance.only(**{name: effect}) for effect in effects])


def _changed(view: np.ndarray, settings: Sequence[Appearance]) -> np.ndarray:
    """Returns the view, and after it one change for each of the settings, uint8 [N, S, S]."""
    changes = [
        change_appearance(view, appearance, np.random.default_rng(seed))
        for seed, appearance in enumerate(settings, 4)
    ]
    return np.stack([view, *changes])


if __name__ == "__main__":
    command_line.run(main)
