import numpy as np

from doap_tf.drawing.keypoints import draw_keypoints

REPEATED, ALONE = (60, 230, 90), (60, 80, 240)  # BGR


def test_repeated_keypoints_have_another_colour():
    view = np.zeros([40, 50], np.uint8)
    shift = np.array([[1.0, 0, 10], [0, 1, 0], [0, 0, 1]])
    picture = draw_keypoints(
        view,
        view,
        np.array([[10, 10], [10, 30]]),
        np.array([[22, 11], [45, 30]]),
        shift,
    )
    assert picture.shape == (80, 204, 3) and picture.dtype == np.uint8

    def colours_around(x, y):
        part = picture[y - 5 : y + 6, x - 5 : x + 6].reshape(-1, 3)
        return {tuple(colour) for colour in part.tolist()} - {(0, 0, 0)}

    assert colours_around(20, 20) == {REPEATED} and colours_around(20, 60) == {ALONE}
    right = 104
    assert colours_around(right + 45, 22) == {REPEATED}
    assert colours_around(right + 90, 60) == {ALONE}


def test_views_without_keypoints_are_drawn():
    none = np.zeros([0, 2])
    picture = draw_keypoints(*[np.full([8, 8], 7, np.uint8)] * 2, none, none, np.eye(3))
    assert (picture[:, :16] == 7).all()
