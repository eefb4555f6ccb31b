"""The benchmark's optional normalisation of descriptors: ZCA whitening, then a power law."""

from collections.abc import Iterable

import numpy as np

# Eigenvalues below this quantile are raised to it, so that noise is not amplified.
_CLIPPED = 0.6


class Normalisation:
    """Whitens descriptors, takes signed square roots and scales rows to unit length.

    As in the HPatches benchmark, the whitening is learnt on the reference patches of the training
    sequences, but every set of descriptors is centred on its own mean.

    Args:
        training: Sets of descriptors [N, D] to learn from; one at a time is in memory.
    """

    def __init__(self, training: Iterable[np.ndarray]):
        count, total, products = 0, np.zeros(()), np.zeros(())
        for descriptors in training:
            exact = descriptors.astype(np.float64)
            count += len(exact)
            total = total + exact.sum(axis=0)
            products = products + exact.T @ exact
        mean = total / count
        variances, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
        variances = np.maximum(variances, variances[int(_CLIPPED * len(variances))])
        # Where even the clipped variance is zero there is nothing to whiten.
        scales = np.where(variances > 0, 1 / np.sqrt(np.where(variances > 0, variances, 1)), 0)
        self._whitening = (vectors * scales) @ vectors.T

    def __call__(self, descriptors: np.ndarray) -> np.ndarray:
        """Returns the normalised descriptors float32 [N, D] of [N, D]."""
        centred = descriptors.astype(np.float64)
        centred -= centred.mean(axis=0)
        whitened = centred @ self._whitening
        powered = np.sign(whitened) * np.sqrt(np.abs(whitened))
        lengths = np.linalg.norm(powered, axis=1, keepdims=True)
        return (powered / np.where(lengths > 0, lengths, 1)).astype(np.float32)
