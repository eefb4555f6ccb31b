"""Pictures of a run: patch groups, aligned patches, distances, matches found."""

import io

import numpy as np
import tensorflow as tf

from doap_tf import metrics
from doap_tf.data import PatchGroups
from doap_tf.networks import DescriptorNetwork, affine_sample, standardize

_GAP = 2
_RIGHT = (40, 170, 60)
_WRONG = (210, 50, 40)


def tile(rows: list[np.ndarray]) -> np.ndarray:
    """Puts rows of patches, each uint8 [n, S, S] or [n, S, S, 3], below each other."""
    size = rows[0].shape[1]
    columns = max(len(row) for row in rows)
    step = size + _GAP
    sheet = np.full([len(rows) * step + _GAP, columns * step + _GAP, 3], 255, np.uint8)
    for r, row in enumerate(rows):
        for c, patch in enumerate(row):
            top, left = _GAP + r * step, _GAP + c * step
            color = patch if patch.ndim == 3 else patch[..., np.newaxis]
            sheet[top : top + size, left : left + size] = color
    return sheet


def patch_groups(groups: PatchGroups, count: int = 12, columns: int = 16) -> np.ndarray:
    """The first groups, a row each."""
    return tile(
        [groups.patches[groups.rows_of(group)[:columns]] for group in range(count)][
            : groups.group_count
        ]
    )


def aligned_patches(network: DescriptorNetwork, patches: np.ndarray) -> np.ndarray:
    """Three rows as in the paper: patches, aligned ones, and aligned ones with zero padding.

    Args:
        network: One with a spatial transformer.
        patches: uint8 [N, S, S] of the network's input size.
    """
    inputs = patches[..., np.newaxis]
    aligned, transforms = network.align(inputs)
    size = aligned.shape[1]
    zeros = affine_sample(standardize(inputs), transforms, size, "zeros")
    originals = tf.image.resize(inputs, [size, size], antialias=True)
    # The same grey for the same value in all rows, so that borders can be compared.
    mean = inputs.mean(axis=(1, 2, 3), keepdims=True)
    deviation = inputs.std(axis=(1, 2, 3), keepdims=True)
    rows = [originals, aligned * deviation + mean, zeros * deviation + mean]
    return tile([np.clip(row, 0, 255).astype(np.uint8)[..., 0] for row in map(np.asarray, rows)])


def distance_histogram(matching: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Histograms of distances of matching and of other pairs, uint8 [H, W, 3]."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), dpi=100, layout="constrained")
    axes = figure.subplots()
    bins = np.linspace(0, max(matching.max(), other.max(), 1e-6), 60).tolist()
    axes.hist(matching, bins, density=True, alpha=0.6, color="tab:green", label="matching")
    axes.hist(other, bins, density=True, alpha=0.6, color="tab:red", label="not matching")
    axes.set_xlabel("distance")
    axes.set_yticks([])
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return tf.io.decode_png(buffer.getvalue(), channels=3).numpy()


def matches_found(
    references: np.ndarray,
    targets: np.ndarray,
    described: tuple[np.ndarray, np.ndarray],
    norm: int,
    columns: int = 24,
) -> np.ndarray:
    """References above what was found for each; framed green where it is right, red where not.

    Args:
        references: uint8 [N, S, S].
        targets: uint8 [N, S, S]; target i matches reference i.
        described: Descriptors of both.
        norm: How to compare them.
        columns: Pairs in a row; three rows are shown, spread over all pairs by distance.
    """
    distances, right, found = metrics.match(*described, norm)
    order = np.argsort(distances, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(3 * columns, len(order))).astype(int)]
    rows = []
    for part in np.array_split(shown, 3):
        if len(part):
            rows.append(np.repeat(references[part, ..., np.newaxis], 3, axis=-1))
            rows.append(
                np.stack([_framed(targets[found[i]], _RIGHT if right[i] else _WRONG) for i in part])
            )
    return tile(rows)


def _framed(patch: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    framed = np.empty([*patch.shape, 3], np.uint8)
    framed[:] = color
    framed[3:-3, 3:-3] = patch[3:-3, 3:-3, np.newaxis]
    return framed
