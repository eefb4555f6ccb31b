"""ZCA and power law against the benchmark's steps, written out on all data at once."""

import numpy as np

from doap_tf.evaluation.hpatches.normalisation import Normalisation


def test_steps():
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((10, 10))
    training = [rng.standard_normal((count, 10)) @ mixing + 3 for count in (50, 80)]
    descriptors = rng.standard_normal((20, 10)) @ mixing - 1
    found = Normalisation(rows.astype(np.float32) for rows in training)(descriptors)

    centred = np.concatenate(training) - np.concatenate(training).mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / 130)
    values[values <= np.sort(values)[6]] = np.sort(values)[6]
    whitened = (descriptors - descriptors.mean(axis=0)) @ (
        vectors @ np.diag(values**-0.5) @ vectors.T
    )
    powered = np.sign(whitened) * np.abs(whitened) ** 0.5
    expected = powered / np.linalg.norm(powered, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_constant_descriptors_stay_finite():
    constant = np.ones((30, 4), np.float32)
    assert (Normalisation([constant])(constant) == 0).all()
