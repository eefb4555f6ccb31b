"""Folders in HPatches' layout whose patches carry known descriptors."""

import cv2
import numpy as np
import pytest

from doap_tf.readers import STRIPS
from tests.evaluation.descriptors import WIDTH

SEQUENCES = {"i_lamp": 9, "v_tree": 11, "v_wall": 14}
NOISE = {"r": 0, "e": 8, "h": 60, "t": 200}


def write_sequence(folder, strips):
    """Writes strips uint8 [N, 32] of numbers as patches on a textured ground."""
    folder.mkdir(parents=True)
    ground = np.random.default_rng(0).integers(0, 256, (65, 65), np.uint8)
    for name, numbers in strips.items():
        patches = np.tile(ground, (len(numbers), 1, 1))
        patches[:, 0, :WIDTH] = numbers
        assert cv2.imwrite(str(folder / f"{name}.png"), patches.reshape(-1, 65))


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """A folder of three sequences, and the numbers written into it by (sequence, strip)."""
    folder = tmp_path_factory.mktemp("hpatches")
    rng = np.random.default_rng(7)
    numbers = {}
    for sequence, length in SEQUENCES.items():
        reference = rng.integers(0, 256, (length, WIDTH))
        for strip in STRIPS:
            noise = NOISE[strip[0]] * rng.standard_normal(reference.shape)
            numbers[sequence, strip] = np.clip(reference + noise, 0, 255).astype(np.uint8)
        write_sequence(folder / sequence, {strip: numbers[sequence, strip] for strip in STRIPS})
    return folder, numbers
