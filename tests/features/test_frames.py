import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.features import frames as f

HOMOGRAPHY = np.array([[0.9, -0.2, 30.0], [0.1, 1.1, -5.0], [4e-4, -2e-4, 1.0]])


def random_frames(count, rng):
    linear = rng.normal(0, 5, (count, 2, 2)) + 12 * np.eye(2)
    return np.concatenate([linear, rng.uniform(0, 500, (count, 2, 1))], axis=2)


def apply(frames, points):
    return np.einsum("nij,pj->npi", frames[:, :, :2], points) + frames[:, None, :, 2]


def test_similarity_frames_turn_x_towards_y():
    (frame,) = f.similarity_frames(10, 20, 3, np.radians(90))
    np.testing.assert_allclose(frame @ [1, 0, 1], [10, 23], atol=1e-12)
    np.testing.assert_allclose(frame @ [0, 1, 1], [7, 20], atol=1e-12)


def test_keypoints_survive_the_way_to_frames_and_back():
    keypoints = [cv2.KeyPoint(10.5, 20.25, 8, 30.0), cv2.KeyPoint(1, 2, 3, 359.0)]
    frames = f.frames_from_keypoints(keypoints)
    np.testing.assert_allclose(f.radii(frames), [4, 1.5])
    back = f.keypoints_from_frames(frames, [0.5, 0.25])
    for keypoint, again, response in zip(keypoints, back, (0.5, 0.25), strict=True):
        assert again.pt == pytest.approx(keypoint.pt, abs=1e-4)
        assert again.size == pytest.approx(keypoint.size)
        assert again.angle == pytest.approx(keypoint.angle, abs=1e-3)
        assert again.response == response


def test_a_keypoint_without_angle_stands_upright():
    (frame,) = f.frames_from_keypoints([cv2.KeyPoint(3, 4, 10, -1)])
    np.testing.assert_array_equal(frame, [[5, 0, 3], [0, 5, 4]])


def test_no_keypoints_give_no_frames():
    assert f.frames_from_keypoints([]).shape == (0, 2, 3)
    assert f.keypoints_from_frames(np.zeros((0, 2, 3))) == []


def test_semi_axes_radii_and_angles_agree_with_a_decomposition():
    frames = random_frames(50, np.random.default_rng(0))
    left, values, right = np.linalg.svd(frames[:, :, :2])
    np.testing.assert_allclose(f.semi_axes(frames), values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(f.radii(frames), np.sqrt(values.prod(axis=1)))
    proper = np.linalg.det(frames[:, :, :2]) > 0
    rotation = (left @ right)[proper]
    np.testing.assert_allclose(
        f.angles(frames[proper]), np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
    )


def test_compose_applies_the_inner_map_first():
    rng = np.random.default_rng(1)
    outer, inner, points = random_frames(4, rng), random_frames(4, rng), rng.normal(0, 1, (7, 2))
    expected = np.stack(
        [apply(o[None], apply(i[None], points)[0])[0] for o, i in zip(outer, inner, strict=True)]
    )
    np.testing.assert_allclose(apply(f.compose(outer, inner), points), expected)


def test_scale_frames_keeps_centres():
    frames = random_frames(3, np.random.default_rng(2))
    scaled = f.scale_frames(frames, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(f.radii(scaled) / f.radii(frames), [1, 2, 3])
    np.testing.assert_array_equal(scaled[:, :, 2], frames[:, :, 2])


def test_transform_frames_is_the_derivative_of_the_homography():
    frames = random_frames(20, np.random.default_rng(3))
    step = 1e-4
    mapped = f.transform_frames(frames, HOMOGRAPHY)
    for axis in (0, 1):
        ahead = f.transform_points(frames[:, :, 2] + step * frames[:, :, axis], HOMOGRAPHY)
        behind = f.transform_points(frames[:, :, 2] - step * frames[:, :, axis], HOMOGRAPHY)
        np.testing.assert_allclose(
            mapped[:, :, axis], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-5
        )
    np.testing.assert_allclose(
        mapped[:, :, 2], cv2.perspectiveTransform(frames[None, :, :, 2], HOMOGRAPHY)[0]
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_frames_beyond_the_horizon_are_not_numbers(sign):
    homography = sign * np.array([[1.0, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    mapped = f.transform_frames(f.similarity_frames([50, 100, 150], 0, 1), homography)
    np.testing.assert_array_equal(np.isfinite(mapped).all(axis=(1, 2)), [True, False, False])
    np.testing.assert_array_equal(f.inside(mapped, (400, 400)), [False, False, False])


def test_inside_is_about_the_turned_square():
    reach = np.sqrt(2) * 10
    frames = f.similarity_frames([reach, reach - 0.01], 50, 10, np.pi / 4)
    np.testing.assert_array_equal(f.inside(frames, (101, 60)), [True, False])
    np.testing.assert_array_equal(f.inside(f.similarity_frames(89, 50, 10), (101, 100)), [True])
    np.testing.assert_array_equal(f.inside(f.similarity_frames(89.1, 50, 10), (101, 100)), [False])


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((4, 3)), r"\(4, 3\)"),
        (np.full((2, 2, 3), [[[0]], [[np.nan]]]), "frame 1"),
    ],
)
def test_bad_frames_are_named(frames, message):
    with pytest.raises(InputError, match=message):
        f.as_frames(frames)
