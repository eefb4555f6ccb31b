"""How far a mean over few samples, such as image pairs, may be off."""

import numpy as np

_SAMPLES = 10_000
_SEED = 0


def mean_interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the bootstrap interval of a mean: percentiles over samples with replacement.

    Args:
        values: [N], one per pair. For two methods on the same pairs give the differences: if the
            interval contains 0, neither is shown to be better.
        confidence: Share of the samples' means that lie in the interval.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"values must have the shape [N], N ≥ 1, not {values.shape}.")
    rows = np.random.default_rng(_SEED).integers(0, len(values), (_SAMPLES, len(values)))
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values[rows].mean(axis=1), [tail, 100 - tail])
    return float(low), float(high)
