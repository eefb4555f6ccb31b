"""Tiles of patches, sheets of groups, neighbours and alignment, pixel by pixel."""

import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups
from doap_tf.drawing.patches import contact_sheet, draw_alignment, draw_nearest, tile
from doap_tf.errors import InputError
from doap_tf.metrics import NORM_L2
from doap_tf.networks import DescriptorNetwork

LABELS = 150  # width of the column of labels


def groups_of(sizes, sequences, side=16):
    patches = np.random.default_rng(0).integers(0, 200, [sum(sizes), side, side], np.uint8)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    return PatchGroups.from_arrays(
        patches, rows, np.asarray(sequences)[rows], sequence_names=("s0", "s1")
    )


def test_rows_of_a_sheet_are_groups():
    groups = groups_of([5, 2, 3], [0, 0, 1])
    sheet = contact_sheet(groups, [2, 0], columns=4, zoom=2)
    step = 2 * 16 + 2
    assert sheet.shape == (2 * step + 2, LABELS + 4 * step)
    for i, group in enumerate([2, 0]):
        rows = groups.rows_of(group)[:4]
        for j in range(4):
            square = sheet[i * step + 2 :, LABELS + j * step :][:32, :32]
            if j < len(rows):
                assert np.array_equal(square[::2, ::2], groups.patches[rows[j]])
                assert np.array_equal(square[1::2, 1::2], groups.patches[rows[j]])
            else:
                assert (square == 255).all()
        assert (sheet[i * step + 2 : (i + 1) * step, :LABELS] < 128).any()


def test_tiles_keep_colours():
    rows = [np.full([2, 4, 4, 3], colour, np.uint8) for colour in ((1, 2, 3), (4, 5, 6))]
    sheet = tile(rows)
    assert sheet.shape == (2 * 6 + 2, 2 * 6 + 2, 3)
    assert sheet[2, 2].tolist() == [1, 2, 3] and sheet[8, 8].tolist() == [4, 5, 6]
    assert (sheet[:, 6:8] == 255).all()


@dataclasses.dataclass
class Pixels:
    """Compares patches by two pixels of the middle."""

    norm: int = NORM_L2

    def describe(self, patches):
        return patches[:, 8, 7:9].astype(np.float32)


def test_neighbours_are_framed_by_correctness():
    """Of three groups, the last patches of two are swapped."""
    patches = np.zeros([6, 16, 16], np.uint8)
    patches[:, 8, 7] = [10, 11, 100, 201, 200, 102]
    groups = PatchGroups.from_arrays(patches, np.repeat(np.arange(3), 2))
    picture = draw_nearest(Pixels(), groups, columns=1)
    assert picture.shape == (6 * 18 + 2, 18 + 2, 3)
    queries, frames = picture[2 + 8 :: 36, 2 + 7], picture[20::36, 2]
    assert queries[:, 0].tolist() == [10, 200, 100]
    assert [np.argmax(frame) for frame in frames] == [1, 2, 2]  # green, red, red in BGR
    assert picture[20 + 8 :: 36, 2 + 7, 0].tolist() == [11, 201, 102]


def test_alignment_shows_patches_before_and_after():
    patches = np.random.default_rng(0).integers(0, 256, (3, 6, 6), np.uint8)
    patches = np.kron(patches, np.ones((7, 7), np.uint8))
    network = DescriptorNetwork(width=0.25, spatial_transformer=True)
    network.build((None, 42, 42, 1))
    descriptor = doap_tf.Descriptor(network)

    def rows():
        picture = draw_alignment(descriptor, patches, zoom=1)
        return [picture[top : top + 42, LABELS : LABELS + 42].astype(int) for top in (2, 46, 90)]

    before, after, _ = rows()
    np.testing.assert_array_equal(before, patches[0])
    assert np.abs(after - before).max() <= 1  # the map starts as the identity
    network.transformer.prediction.bias.assign([-1, 0, 0, 0, 1, 0])
    assert np.abs(rows()[1] - before[:, ::-1]).max() <= 1
    network.transformer.prediction.bias.assign([1, 0, 1, 0, 1, 0])  # half a patch to the right
    _, after, cut_off = rows()
    assert (cut_off[:, 22:] == 0).all() and np.array_equal(cut_off[:, :20], after[:, :20])
    assert np.array_equal(after[:, -1], after[:, 22])

    with pytest.raises(InputError, match="spatial transformer"):
        draw_alignment(doap_tf.Descriptor(DescriptorNetwork(width=0.25)), patches)
    with pytest.raises(InputError, match="no patches"):
        draw_alignment(descriptor, patches[:0])


def test_drawing_for_training_needs_no_opencv():
    code = (
        "import sys; sys.modules.update(cv2=None, tensorflow_datasets=None);"
        "from doap_tf.drawing import patches, pictures, plots, tables"
    )
    root = pathlib.Path(doap_tf.__file__).parents[1]
    finished = subprocess.run([sys.executable, "-c", code], cwd=root)
    assert finished.returncode == 0
