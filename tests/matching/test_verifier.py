import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.features.frames import transform_points
from doap_tf.matching import ESTIMATORS, GEOMETRIES, Verifier, geometry_estimation
from tests.matching.scene import HOMOGRAPHY, corner_error

INTRINSICS1 = np.array([[700.0, 0, 320], [0, 710, 240], [0, 0, 1]])
INTRINSICS2 = np.array([[500.0, 0, 300], [0, 500, 200], [0, 0, 1]])
WRONG = 0.6  # share of the matches


def planar_matches(count=300, noise=0.3):
    random = np.random.default_rng(0)
    points1 = random.uniform((0, 0), (400, 300), (count, 2))
    points2 = transform_points(points1, HOMOGRAPHY) + random.normal(0, noise, (count, 2))
    right = np.arange(count) >= WRONG * count
    points2[~right] = random.uniform((0, 0), (400, 300), (int((~right).sum()), 2))
    return points1, points2, right


def spatial_matches(count=400, noise=0.3, wrong=0.4):
    """Points in space seen by two cameras, with the true essential matrix."""
    random = np.random.default_rng(1)
    points = random.uniform((-3, -2, 4), (3, 2, 12), (count, 3))
    angle = 0.2
    rotation = np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
    x, y, z = translation = np.array([-1.0, 0.2, 0.3])
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    views = []
    for matrix, seen in ((INTRINSICS1, points), (INTRINSICS2, points @ rotation.T + translation)):
        projected = seen @ matrix.T
        views.append(projected[:, :2] / projected[:, 2:] + random.normal(0, noise, (count, 2)))
    right = np.arange(count) >= wrong * count
    views[1][~right] = random.uniform((0, 0), (640, 480), (int((~right).sum()), 2))
    return *views, right, cross @ rotation


def unit(matrix):
    matrix = matrix / np.linalg.norm(matrix)
    return matrix * np.sign(matrix.flat[np.abs(matrix).argmax()])


def verify(points1, points2, *settings, costs=None, **named):
    return Verifier(*settings, **named).verify_points(points1, points2, costs)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_homography_is_found_among_wrong_matches(estimator):
    points1, points2, right = planar_matches()
    verification = verify(points1, points2, "homography", threshold=2.0, estimator=estimator)
    # A sample of four determines plain RANSAC's model.
    assert corner_error(verification.model) < (1.0 if estimator == "ransac" else 0.5)
    assert verification.inliers[right].mean() > 0.98
    assert verification.inliers[~right].mean() < 0.02


def test_residuals_of_a_homography_are_distances_in_the_second_image():
    points1, points2, _ = planar_matches(60)
    _, model, inliers, residuals, _ = verify(points1, points2, "homography")
    for place in range(60):
        x, y, w = model @ (*points1[place], 1)
        expected = np.hypot(x / w - points2[place, 0], y / w - points2[place, 1])
        assert residuals[place] == pytest.approx(expected)
    np.testing.assert_array_equal(inliers, residuals <= 3.0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fundamental_matrix_is_found_among_wrong_matches(estimator):
    points1, points2, right, _ = spatial_matches()
    _, model, inliers, residuals, _ = verify(
        points1, points2, "fundamental", threshold=1.5, estimator=estimator
    )
    # How far true points lie from the epipolar lines of the model says more than its numbers.
    exact1, exact2, _, _ = spatial_matches(noise=0)
    ones = np.ones((len(exact1), 1))
    lines = np.hstack([exact1, ones]) @ model.T
    distances = np.abs((np.hstack([exact2, ones]) * lines).sum(axis=1))
    distances /= np.linalg.norm(lines[:, :2], axis=1)
    assert np.median(distances[right]) < 0.5
    assert abs(np.linalg.det(unit(model))) < 1e-9
    assert inliers[right].mean() > 0.95 and inliers[~right].mean() < 0.1
    place = int(np.flatnonzero(right)[0])
    line1, line2 = model.T @ (*points2[place], 1), model @ (*points1[place], 1)
    algebraic = (*points2[place], 1) @ line2
    gradient = np.sqrt((line1[:2] ** 2).sum() + (line2[:2] ** 2).sum())
    assert residuals[place] == pytest.approx(abs(algebraic) / gradient)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_essential_matrix_is_found_with_two_cameras(estimator):
    points1, points2, right, essential = spatial_matches()
    _, model, inliers, _, _ = verify(
        points1, points2, "essential", 1.5, INTRINSICS1, INTRINSICS2, estimator=estimator
    )
    assert np.abs(unit(model) - unit(essential)).max() < 0.02
    assert inliers[right].mean() > 0.95 and inliers[~right].mean() < 0.1


def test_prosac_draws_from_the_nearest_matches_first():
    points1, points2, right = planar_matches()
    distances = np.random.default_rng(2).uniform(size=len(right)) + ~right
    order = np.argsort(distances)
    options = {"geometry": "homography", "estimator": "prosac"}
    sorted_before = verify(points1[order], points2[order], **options)
    by_distance = verify(points1, points2, **options, costs=distances)
    np.testing.assert_array_equal(by_distance.model, sorted_before.model)
    np.testing.assert_array_equal(by_distance.inliers[order], sorted_before.inliers)
    assert (verify(points1, points2, **options).model != by_distance.model).any()


@pytest.mark.parametrize("geometry", ["fundamental", "essential"])
def test_cameras_are_found_where_one_match_in_six_is_right(geometry):
    points1, points2, right, _ = spatial_matches(600, wrong=5 / 6)
    distances = np.random.default_rng(3).normal(size=len(right)) + ~right
    options = {"threshold": 1.5, "intrinsics1": INTRINSICS1, "intrinsics2": INTRINSICS2}
    nearest_first = verify(points1, points2, geometry, costs=distances, **options)
    assert nearest_first.inliers[right].mean() > 0.9
    # Samples for an essential matrix are drawn from all matches alike.
    order = np.argsort(distances) if geometry == "fundamental" else np.arange(len(right))
    sorted_before = verify(points1[order], points2[order], geometry, **options)
    np.testing.assert_array_equal(nearest_first.model, sorted_before.model)


def test_settings_tell_other_samples_apart(monkeypatch):
    before = Verifier().settings()
    assert before["samples"].keys() == {"homography", "fundamental"}
    monkeypatch.setitem(geometry_estimation._GUIDED, "maxIterations", 20)
    assert Verifier().settings() != before


def test_one_camera_serves_both_images_if_only_one_is_given():
    points1, points2, _, _ = spatial_matches()
    alone = verify(points1, points2, "essential", intrinsics1=INTRINSICS1)
    twice = verify(points1, points2, "essential", intrinsics1=INTRINSICS1, intrinsics2=INTRINSICS1)
    np.testing.assert_array_equal(alone.model, twice.model)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_seed_decides_the_result(geometry, estimator):
    points1, points2, _, _ = spatial_matches(60, noise=2.0)
    models = [
        verify(points1, points2, geometry, 2.0, INTRINSICS1, None, seed, estimator).model
        for seed in (5, 5, 6, 7, 8)
    ]
    np.testing.assert_array_equal(models[0], models[1])
    assert any((model != models[0]).any() for model in models[2:])


@pytest.mark.parametrize("geometry", ["auto", *GEOMETRIES])
@pytest.mark.parametrize(
    "points",
    [
        np.zeros((0, 2)),
        np.zeros((1, 2)),
        np.random.default_rng(0).uniform(0, 99, (3, 2)),
        np.full((30, 2), 7.0),
        np.linspace(0, 99, 30)[:, None] * (1, 2),
    ],
    ids=["none", "one", "three", "all the same", "on a line"],
)
def test_what_determines_nothing_is_no_error(geometry, points):
    _, model, inliers, residuals, confidence = verify(
        points, points, geometry, intrinsics1=INTRINSICS1
    )
    assert inliers.shape == residuals.shape == (len(points),) and confidence < 0.5
    if len(points) < 4:
        assert model is None and not inliers.any() and np.isinf(residuals).all()


def test_a_plane_and_a_turning_camera_have_a_homography():
    points1, points2, right = planar_matches()
    verification = verify(points1, points2)
    assert verification.geometry == "homography" and verification.confidence > 0.9
    assert verification.inliers[right].mean() > 0.98
    angle = 0.2
    rotation = np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
    turn = INTRINSICS1 @ rotation @ np.linalg.inv(INTRINSICS1)
    points1, _, right, _ = spatial_matches()
    turned = transform_points(points1, turn) + np.random.default_rng(2).normal(0, 0.3, (400, 2))
    turned[~right] = spatial_matches()[1][~right]
    assert verify(points1, turned).geometry == "homography"


@pytest.mark.parametrize(
    ("intrinsics", "geometry"), [(None, "fundamental"), (INTRINSICS1, "essential")]
)
def test_parallax_has_the_geometry_of_two_cameras(intrinsics, geometry):
    points1, points2, right, _ = spatial_matches()
    verification = verify(points1, points2, intrinsics1=intrinsics, intrinsics2=INTRINSICS2)
    assert verification.geometry == geometry and verification.confidence > 0.9
    assert verification.inliers[right].mean() > 0.95


def test_parallax_is_seen_beside_a_plane_that_most_matches_lie_on():
    points1, points2, right = planar_matches(600, noise=0.2)
    homography = verify(points1, points2, "homography").model
    moved = np.flatnonzero(right)[::3]
    depths = np.random.default_rng(4).uniform(10, 40, len(moved))[:, None]
    points2[moved] += depths * (0.96, 0.28)
    assert verify(points1, points2).geometry == "fundamental"
    by_plane = verify(points1, points2, "homography")
    assert corner_error(by_plane.model) < 1 and corner_error(homography) < 1


def test_wrong_matches_are_not_reliable():
    random = np.random.default_rng(5)
    for count in (20, 100, 1000):
        points1, points2 = random.uniform((0, 0), (640, 480), (2, count, 2))
        assert verify(points1, points2).confidence < 0.5


def test_bad_arguments_are_named():
    points = np.zeros((9, 2))
    for kwargs, message in (
        ({"geometry": "affine"}, "geometry.*affine"),
        ({"geometry": "none"}, "geometry.*Did you mean None"),
        ({"geometry": None}, "choose another geometry"),
        ({"threshold": 0}, "threshold"),
        ({"estimator": "lmeds"}, "estimator.*magsac.*lmeds"),
        ({"geometry": "essential"}, "intrinsics"),
        ({"geometry": "essential", "intrinsics1": np.zeros((3, 3))}, "intrinsics1"),
        ({"points2": np.zeros((8, 2))}, "9.*8"),
        ({"costs": np.ones(3)}, r"costs must be \[9\].*\[3\]"),
        ({"points1": np.zeros((9, 3)), "points2": np.zeros((9, 3))}, "points"),
    ):
        with pytest.raises(InputError, match=message):
            verify(**{"points1": points, "points2": points, **kwargs})
