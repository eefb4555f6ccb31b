import numpy as np
import pytest

from doap_tf.drawing.plots import (
    Bar,
    Curve,
    draw_bars,
    draw_curves,
    draw_distances,
    draw_over_batch_size,
)


def test_thinned_curves_keep_their_ends():
    x = np.sort(np.random.default_rng(0).random(10_000) ** 4)
    curve = Curve.thinned(x, x**2)
    assert len(curve.x) <= 501 and (np.diff(curve.x) > 0).all()
    assert (curve.x[0], curve.x[-1]) == (x[0], x[-1])
    np.testing.assert_array_equal(curve.y, curve.x**2)


def test_longer_bars_cover_more():
    def grey(value):
        picture = draw_bars({"t": {"a": Bar(value, {("easy", "mean"): value})}})
        return (picture == (0xDF, 0xD3, 0xC9)).all(axis=2).sum()

    assert grey(0.8) == pytest.approx(2 * grey(0.4), rel=0.05)


@pytest.mark.parametrize(
    ("matching", "others"),
    [
        (np.array([0.1, 0.2]), np.array([0.7])),
        (np.array([], np.float32), np.array([0.5, 0.6], np.float32)),
        (np.array([3, 4], np.uint16), np.array([90, 120], np.uint16)),
        (np.zeros(3), np.zeros(3)),
    ],
    ids=["floats", "nothing matches", "bits", "all equal"],
)
def test_histograms_of_any_distances(matching, others):
    picture = draw_distances({"one": (matching, others), "two": (matching, others)})
    reddish = picture[..., 2].astype(int) - picture[..., 1] > 40
    assert reddish.sum() > 20


def test_curves_are_drawn_where_they_run():
    x = np.linspace(0, 1, 50)
    low, high = (
        draw_curves({"m": {"panel": Curve(x, np.full(50, y))}}, "x", "y") for y in (0.2, 0.8)
    )
    rows = [np.argmax(np.ptp(p[:, 150:400].astype(int), axis=2).sum(axis=1)) for p in (low, high)]
    assert rows[0] - rows[1] > 100


def test_points_over_the_batch_size_may_come_in_any_order():
    points = [(512, 3.0, "a"), (1024, 2.0, "b"), (256, 4.0, "c")]
    np.testing.assert_array_equal(
        draw_over_batch_size(points, "rate"), draw_over_batch_size(sorted(points), "rate")
    )
