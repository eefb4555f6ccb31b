"""One call from image to descriptors, for phones."""

import pathlib
import re

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from doap_tf.errors import InputError
from doap_tf.export import convert_extraction_to_tflite
from doap_tf.export.dense_comparison import compare_dense
from doap_tf.matching import DenseExtractor
from tests.dense import small_model, small_network
from tests.features.pictures import photograph

_PAGE = pathlib.Path(__file__).parents[2] / "docs/phones.md"
_TYPES = {"FloatArray": np.float32, "IntArray": np.int32, "ByteArray": np.uint8}


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("phone") / "phone.tflite"
    path.write_bytes(convert_extraction_to_tflite(small_network("binary"), (192, 256), 100))
    return path


def test_keypoints_and_rows_are_those_of_the_extractor(path, tmp_path):
    image = np.ascontiguousarray(photograph()[:192, :256])
    (tmp_path / "dense.tflite").write_bytes(small_model("binary"))
    expected = DenseExtractor(tmp_path / "dense.tflite", 100, enlarge=False).extract(image)
    run = Interpreter(str(path)).get_signature_runner()
    found = run(image=image)
    assert found["count"] == len(expected.frames) == 100
    np.testing.assert_allclose(found["scores"], expected.responses, rtol=1e-4)
    np.testing.assert_allclose(found["keypoints"][:, :2], expected.frames[:, :, 2], atol=0.02)
    np.testing.assert_allclose(found["keypoints"][:, 2], expected.frames[:, 0, 0], rtol=1e-6)
    assert np.unpackbits(found["descriptors"] ^ expected.descriptors).mean() < 0.01
    assert run(image=np.full_like(image, 7))["count"] == 0


def test_the_comparison_finds_what_the_network_finds(path):
    (scores,) = compare_dense("small", small_network("binary"), {"float32": path})[
        "scores"
    ].values()
    assert scores["keypoints_kept"] > 0.99 and scores["bits_equal"] > 0.99
    assert scores["bytes"] == path.stat().st_size


def test_the_snippet_of_the_page_fits_the_file(path):
    (snippet,) = re.findall(r"```kotlin\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    # The file of the page has other numbers: rows and columns, keypoints, bytes of a descriptor.
    numbers = {480: 192, 640: 256, 1000: 100, 32: 2}
    runner = Interpreter(str(path)).get_signature_runner("detect_and_describe")
    assert re.findall(r'"(\w+)",\n\s*\)\n\s*return', snippet) == ["detect_and_describe"]
    ((image, size),) = re.findall(r"(\w+): ByteBuffer.*allocateDirect\((.*?)\)", snippet)
    assert [tuple(each["shape"]) for each in runner.get_input_details().values()] == [
        tuple(numbers[int(side)] for side in size.split("*"))
    ]
    declared = dict(re.findall(r"val (\w+) = ((?:Array|FloatArray|IntArray)\(.*)", snippet))
    given = dict(re.findall(r'"(\w+)" to (\w+)', snippet))
    assert given.pop("image") == image
    details = runner.get_output_details()
    assert given.keys() == details.keys()
    for name, variable in given.items():
        text = declared[variable].partition("//")[0]
        shape = [numbers.get(int(size), int(size)) for size in re.findall(r"\((\d+)\)", text)]
        (kind,) = re.findall(r"(?:Float|Int|Byte)Array", text)
        assert shape == list(details[name]["shape"]), name
        assert details[name]["dtype"] == _TYPES[kind], name


@pytest.mark.parametrize("size", [(480, 600), (32, 64)])
def test_sizes_that_do_not_fit_are_refused(size):
    with pytest.raises(InputError, match=r"image_size must be multiples of 32 from 64 on, not"):
        convert_extraction_to_tflite(small_network(), size, 10)
