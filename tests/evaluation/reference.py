"""The HPatches benchmark written out plainly: one pair, one list at a time, in float64."""

import itertools

import numpy as np

LEVELS = {"easy": "e", "hard": "h", "tough": "t"}


def distance(first, second):
    if first.dtype == np.uint8:
        return int(np.unpackbits(first ^ second).sum())
    return float(np.sqrt(np.square(first.astype(np.float64) - second).sum()))


def trapezoid(distances, labels, positives=None):
    """Area under precision over recall, from the point (0, 1) on."""
    positives = sum(labels) if positives is None else positives
    order = sorted(range(len(distances)), key=lambda place: distances[place])
    points, found = [(0.0, 1.0)], 0
    for rank, place in enumerate(order, start=1):
        found += labels[place]
        points.append((found / positives, found / rank))
    return sum((x1 - x0) * (y1 + y0) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(points))


def matching(descriptors, sequences):
    """Mean over targets and sequences of a kind, then over kinds, by level."""
    scores = {}
    for level, prefix in LEVELS.items():
        values = {}
        for sequence in sequences:
            reference = descriptors[sequence, "ref"]
            for target in range(1, 6):
                others = descriptors[sequence, f"{prefix}{target}"]
                distances, labels = [], []
                for place, row in enumerate(reference):
                    found = [distance(row, other) for other in others]
                    distances.append(min(found))
                    labels.append(found.index(min(found)) == place)
                found = values.setdefault(sequence[0], [])
                found.append(trapezoid(distances, labels, len(reference)))
        scores[level] = float(np.mean([np.mean(found) for found in values.values()]))
    return scores


def retrieval(descriptors, queries, distractors, pools):
    """Mean over queries, by level and pool; patches are (sequence, index)."""
    scores = {}
    for level, prefix in LEVELS.items():
        for pool in pools:
            values = []
            for sequence, index in queries:
                query = descriptors[sequence, "ref"][index]
                rows = [descriptors[sequence, f"{prefix}{target}"][index] for target in range(1, 6)]
                rows += [descriptors[s, "ref"][i] for s, i in distractors if s != sequence]
                distances = [distance(query, row) for row in rows][:pool]
                labels = [place < 5 for place in range(len(distances))]
                values.append(trapezoid(distances, labels))
            scores[level, pool] = float(np.mean(values))
    return scores


def pair_distances(descriptors, pairs, prefix):
    """Of pairs ((sequence, image, index), (sequence, image, index)) at a level."""
    return [
        distance(
            *(
                descriptors[sequence, "ref" if image == 0 else f"{prefix}{image}"][index]
                for sequence, image, index in pair
            )
        )
        for pair in pairs
    ]
