"""Pictures of patches: groups, nearest neighbours, and patches before and after alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import PIL.Image
import PIL.ImageDraw

from doap_tf import metrics
from doap_tf.errors import InputError

if TYPE_CHECKING:  # these bring TensorFlow
    from doap_tf.data import PatchGroups
    from doap_tf.descriptors import Descriptor, PatchDescriptor

_GAP = 2
_COMPARED = 400  # groups
_ALIGNED = 16  # patches
_LABEL_WIDTH = 150
_RIGHT, _WRONG = (60, 170, 40), (40, 50, 210)  # BGR
_FRAME = 3


def tile(rows: Sequence[np.ndarray], labels: Sequence[str] = (), zoom: int = 1) -> np.ndarray:
    """Draws rows of patches below each other on white.

    Args:
        rows: The patches of each row, uint8 [N, S, S] or BGR [N, S, S, 3].
        labels: Text to the left of each row; no column for them by default.
        zoom: Pixels of the picture, along each axis, per pixel of a patch.

    Returns:
        uint8 [H, W], or BGR [H, W, 3].
    """
    side = rows[0].shape[1] * zoom
    step = side + _GAP
    height = len(rows) * step + _GAP
    margin = _LABEL_WIDTH if labels else _GAP
    sheet = np.full(
        [height, margin + max(map(len, rows)) * step, *rows[0].shape[3:]], 255, np.uint8
    )
    if labels:
        column = PIL.Image.new("L", (margin, height), 255)
        draw = PIL.ImageDraw.Draw(column)
        for number, label in enumerate(labels):
            draw.text((_GAP, number * step + _GAP), label, fill=0, font_size=12)
        text = np.asarray(column)
        sheet[:, :margin] = text if sheet.ndim == 2 else text[..., np.newaxis]
    for top, row in zip(range(_GAP, height, step), rows, strict=False):
        for number, patch in enumerate(row):
            left = margin + number * step
            sheet[top : top + side, left : left + side] = patch.repeat(zoom, 0).repeat(zoom, 1)
    return sheet


def contact_sheet(
    groups: PatchGroups, chosen: Sequence[int] | np.ndarray, columns: int, zoom: int = 1
) -> np.ndarray:
    """Draws one row of patches per group, labelled with its number, size and sequence.

    Args:
        groups: Where the patches come from.
        chosen: Numbers of the groups to draw.
        columns: Maximum number of patches per group.
        zoom: Pixels of the sheet, along each axis, per pixel of a patch.

    Returns:
        uint8 [H, W].
    """
    rows, labels = [], []
    for group in chosen:
        sequence = groups.group_sequence[group]
        name = groups.sequence_names[sequence] if sequence >= 0 else ""
        labels.append(f"group {group} ({groups.group_sizes[group]})\n{name}")
        rows.append(groups.patches[groups.rows_of(group)[:columns]])
    return tile(rows, labels, zoom)


def draw_nearest(descriptor: PatchDescriptor, groups: PatchGroups, columns: int = 24) -> np.ndarray:
    """Draws first patches of groups above their nearest neighbours among the last ones.

    The last patch of a group is the hardest in HPatches' order. A green frame marks a neighbour of
    the same group, a red one any other. Three pairs of rows show neighbours from near to far.

    Args:
        descriptor: Compares the patches.
        groups: Up to 400 with two or more patches are compared.
        columns: Patches per row.

    Returns:
        BGR [H, W, 3].
    """
    rows = [groups.rows_of(g) for g in np.flatnonzero(groups.group_sizes >= 2)[:_COMPARED]]
    first, last = (groups.patches[[row[index] for row in rows]] for index in (0, -1))
    distances, right, nearest = metrics.match(
        descriptor.describe(first), descriptor.describe(last), descriptor.norm
    )
    order = np.argsort(distances, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(3 * columns, len(order))).astype(int)]
    lines = []
    for pairs in np.array_split(shown, 3):
        if len(pairs):
            queries, neighbours = (
                np.repeat(patches[..., np.newaxis], 3, axis=-1)
                for patches in (first[pairs], last[nearest[pairs]])
            )
            framed = np.empty_like(neighbours)
            framed[:] = np.where(right[pairs, np.newaxis], _RIGHT, _WRONG)[
                :, np.newaxis, np.newaxis
            ]
            inner = slice(_FRAME, -_FRAME)
            framed[:, inner, inner] = neighbours[:, inner, inner]
            lines += [queries, framed]
    return tile(lines)


def draw_alignment(descriptor: Descriptor, patches: np.ndarray, zoom: int = 2) -> np.ndarray:
    """Draws patches before and after the spatial transformer of a network.

    The third row shows the aligned patches with black beyond the edges of the original ones, which
    makes the affine maps visible.

    Args:
        descriptor: A network with a spatial transformer.
        patches: uint8 [N, S, S], S the descriptor's `input_size`; 16 at most are drawn.
        zoom: Pixels of the picture, along each axis, per pixel of a patch.

    Returns:
        uint8 [H, W].
    """
    network = descriptor.to_keras()
    if network.transformer is None:
        raise InputError("only a network with a spatial transformer aligns patches.")
    if not len(patches):
        raise InputError("there are no patches to draw.")
    import tensorflow as tf

    from doap_tf.networks import affine_sample

    patches = patches[:_ALIGNED]
    images = tf.cast(patches[..., np.newaxis], tf.float32)
    _, transforms = network.align(images)
    aligned, cut_off = (
        affine_sample(images, transforms, patches.shape[1], padding)[..., 0].numpy()
        for padding in (network.padding, "zeros")
    )
    rows = [patches, *(row.round().clip(0, 255).astype(np.uint8) for row in (aligned, cut_off))]
    return tile(rows, ["before", "after", "after, black outside"], zoom)
