import numpy as np
import pytest
from scipy.spatial.distance import cdist

from doap_tf.losses import HardestInBatchLoss, HardNetLoss
from tests.losses import reference


def hardnet(anchors, positives, margin):
    """The paper's loss, of a matrix of distances between anchors and positives."""
    table = cdist(anchors, positives)
    others = table + 10 * np.eye(len(table))
    negatives = np.minimum(others.min(axis=0), others.min(axis=1))
    return np.maximum(0, margin + np.diag(table) - negatives).mean()


@pytest.mark.parametrize("margin", [0.5, 1.0])
@pytest.mark.parametrize("order", [np.arange(24), np.arange(24).reshape(12, 2).T.ravel()])
def test_pairs_have_the_papers_loss(margin, order):
    rows = reference.unit_rows(np.random.default_rng(0), 24, 6)
    groups = np.arange(24) // 2
    loss = HardNetLoss(margin)(groups[order], rows[order])
    np.testing.assert_allclose(loss, hardnet(rows[::2], rows[1::2], margin), atol=1e-5)


def test_an_anchor_close_to_an_anchor_costs_nothing():
    """Anchors at 0° and 10°, positives at 90° and 190°: each is far from the other's positive."""
    angles = np.radians([0, 90, 10, 190])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    groups = [0, 0, 1, 1]
    np.testing.assert_allclose(
        HardNetLoss()(groups, rows), hardnet(rows[::2], rows[1::2], 1.0), atol=1e-5
    )
    assert HardNetLoss()(groups, rows) < HardestInBatchLoss()(groups, rows)


def test_larger_groups_average_over_the_positives_of_their_anchor():
    rows = reference.unit_rows(np.random.default_rng(1), 7, 4)
    groups = [0, 0, 0, 1, 1, 2, 2]
    anchors = np.array([0, 3, 5])
    table = cdist(rows, rows)
    losses = []
    for query, group in enumerate(groups):
        partners = [other for other in range(7) if groups[other] == group and other != query]
        hinges = []
        for partner in partners if query in anchors else [anchors[group]]:
            anchor, positive = sorted((query, partner))
            negatives = [
                table[anchor, n] for n in range(7) if groups[n] != group and n not in anchors
            ]
            negatives += [table[positive, n] for n in anchors if groups[n] != group]
            hinges.append(max(0, 1 + table[anchor, positive] - min(negatives)))
        losses.append(np.mean(hinges))
    np.testing.assert_allclose(HardNetLoss()(groups, rows), np.mean(losses), atol=1e-5)
