import numpy as np
import PIL.Image
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import CAMERA_MODELS, Cameras
from doap_tf.matching.cameras import read_exif

SIZE = 64, 48


def photograph(path, make="Acme", model="One", size=SIZE, **details):
    """Writes an image with EXIF data; `details` by the tag's number, as in `x920A=4.3`."""
    exif = PIL.Image.Exif()
    exif[0x010F], exif[0x0110] = make, model
    exif.get_ifd(0x8769).update({int(tag[1:], 16): value for tag, value in details.items()})
    PIL.Image.new("L", size).save(path, exif=exif)
    return path


@pytest.mark.parametrize(
    ("make", "model", "details", "focal_length"),
    [
        # CIPA's definition: the image's diagonal over that of the film, 80 pixels over 43.27 mm.
        ("Acme", "One", {"xA405": 35, "x920A": 4.3}, 35 * 80 / 43.27),
        # 1,000 pixels on 25.4 mm, of an image that was shrunk from 640 pixels to 64.
        ("Acme", "One", {"x920A": 4.0, "xA20E": 1000.0, "xA210": 2, "xA002": 640}, 15.748),
        ("Acme", "One", {"x920A": 4.0, "xA20E": 100.0, "xA210": 3}, 40.0),
        ("NIKON CORPORATION", "NIKON D90", {"x920A": 23.6}, 64.0),
        ("DJI", "FC6310", {"x920A": 13.2}, 64.0),
        ("Acme", "One", {"x920A": 4.0}, None),
        ("Acme", "One", {"xA405": 0}, None),
        ("Acme", "One", {}, None),
    ],
)
def test_focal_lengths_come_from_exif_data(tmp_path, make, model, details, focal_length):
    path = photograph(tmp_path / "a.jpg", make, model, **details)
    _, camera = Cameras({"a": path}).find("a", SIZE)
    expected = 1.2 * 64 if focal_length is None else focal_length
    assert camera.model == "SIMPLE_RADIAL" and camera.size == SIZE
    np.testing.assert_allclose(camera.parameters, [expected, 32, 24, 0], rtol=1e-4)
    assert camera.has_prior == (focal_length is not None)


def test_what_holds_no_exif_data_has_colmaps_guess(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe1broken")
    for path in (tmp_path / "broken.jpg", tmp_path / "missing.jpg"):
        assert not any(read_exif(path))
        assert Cameras({"a": path}).find("a", SIZE)[1].parameters[0] == 1.2 * 64


def test_images_share_cameras(tmp_path):
    lenses = {"a": {"xA405": 35}, "b": {"xA405": 35}, "c": {"xA405": 50}, "d": {}, "e": {}}
    images = {name: photograph(tmp_path / f"{name}.jpg", **lenses[name]) for name in lenses}
    images["f"] = photograph(tmp_path / "f.jpg", model="Two", xA405=35)
    numbers = {
        sharing: [cameras.find(name, SIZE)[0] for name in images]
        for sharing in ("auto", "single", "per_image")
        for cameras in [Cameras(images, sharing)]
    }
    assert numbers["auto"] == [1, 1, 2, 3, 4, 5]
    assert numbers["single"] == [1] * 6 and numbers["per_image"] == [1, 2, 3, 4, 5, 6]
    turned = Cameras(images)
    assert turned.find("a", SIZE)[0] != turned.find("b", SIZE[::-1])[0]


def test_models_have_colmaps_parameters():
    intrinsics = np.array([[70.0, 0, 31.5], [0, 72, 23.5], [0, 0, 1]])
    found = {
        model: Cameras(model=model, intrinsics=intrinsics).find("a", SIZE)[1].parameters
        for model in CAMERA_MODELS
    }
    assert found == {
        "SIMPLE_PINHOLE": [71, 32, 24],
        "PINHOLE": [70, 72, 32, 24],
        "SIMPLE_RADIAL": [71, 32, 24, 0],
        "RADIAL": [71, 32, 24, 0, 0],
        "OPENCV": [70, 72, 32, 24, 0, 0, 0, 0],
    }


def test_bad_choices_are_one_line():
    with pytest.raises(InputError, match="sharing must be one of auto, single, per_image, not 'x'"):
        Cameras(sharing="x")
    with pytest.raises(InputError, match=r"model must be one of SIMPLE_PINHOLE, .*, not 'FISHEYE'"):
        Cameras(model="FISHEYE")
    cameras = Cameras(sharing="single")
    cameras.find("a", SIZE)
    with pytest.raises(InputError, match="of one size, but b has 48 × 64 pixels, others 64 × 48"):
        cameras.find("b", SIZE[::-1])
