"""Pictures for tests: photographs that come with scikit-image, and shapes of known size."""

import numpy as np

from doap_tf.patch_generation.scenes import default_scenes
from doap_tf.readers.images import read_grey


def photograph(name="astronaut"):
    """One of scikit-image's photographs: uint8 [H, W]."""
    scenes = [scene for part in default_scenes() for scene in part]
    return read_grey(next(s.files[0] for s in scenes if s.name.startswith(name)))


def blob(sigmas, angle=0.0, centre=(64.3, 60.6), side=128):
    """A bright Gaussian of standard deviations `sigmas` along axes turned by `angle`."""
    y, x = np.mgrid[:side, :side]
    x, y = x - centre[0], y - centre[1]
    along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    picture = 30 + 180 * np.exp(-((along / sigmas[0]) ** 2 + (across / sigmas[1]) ** 2) / 2)
    return np.rint(picture).astype(np.uint8)
