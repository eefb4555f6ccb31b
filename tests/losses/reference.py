"""Slow float64 versions of what the losses compute, written independently of them."""

import numpy as np


def distances(queries, database, distance):
    products = queries.astype(np.float64) @ database.astype(np.float64).T
    if distance == "euclidean":
        return np.sqrt(np.clip(2 - 2 * products, 0, 4))
    if distance == "squared":
        return 2 - 2 * products
    return (queries.shape[1] - products) / 2


def average_precision(queries, database, relations, distance, bins, form):
    """AP [Q] by loops over queries, bins and patches, from the definition in docs/method.md."""
    largest = {"euclidean": 2.0, "squared": 4.0, "hamming": queries.shape[1]}[distance]
    width = largest / bins
    result = []
    for row, related in zip(distances(queries, database, distance), relations, strict=True):
        found = np.zeros(bins + 1)
        seen = np.zeros(bins + 1)
        for k in range(bins + 1):
            for value, relation in zip(row, related, strict=True):
                weight = max(0.0, 1 - abs(value - k * width) / width)
                found[k] += weight * (relation == 1)
                seen[k] += weight * (relation != 0)
        count = (related == 1).sum()
        total = 0.0
        for k in range(bins + 1):
            found_before, seen_before = found[:k].sum(), seen[:k].sum()
            found_now, seen_now = found[: k + 1].sum(), seen[: k + 1].sum()
            if form == "tie_aware":
                total += found[k] * (found_before + found_now + 1) / (seen_before + seen_now + 1)
            elif seen_now > 0:
                total += found[k] * found_now / seen_now
        result.append(total / count if count else 0.0)
    return np.array(result)


def hardest_in_batch(descriptors, relations, distance="euclidean", margin=1.0):
    """Mean hinge over the positives of each row [M]; 0 for rows without positives."""
    table = distances(descriptors, descriptors, distance)
    table *= {"euclidean": 1.0, "squared": 0.5, "hamming": 2 / descriptors.shape[1]}[distance]
    result = []
    for q, related in enumerate(relations):
        hinges = []
        for p in np.flatnonzero(related == 1):
            rivals = [table[q, n] for n in np.flatnonzero(relations[q] == -1)]
            rivals += [table[p, n] for n in np.flatnonzero(relations[p] == -1)]
            hinges.append(max(0.0, margin + table[q, p] - min(rivals)) if rivals else 0.0)
        result.append(np.mean(hinges) if hinges else 0.0)
    return np.array(result)


def unit_rows(generator, *shape):
    rows = generator.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
