r"""Compares the time of networks of whole images with SIFT's, and says what memory they take.

python benchmarks/dense_speed.py --models=runs/dense
python benchmarks/dense_speed.py --models=runs/dense,doap-fast-128 --xfeat=xfeat.onnx
python benchmarks/dense_speed.py --models=runs/dense --memory=24

Everything detects and describes --keypoints in an image of a megapixel; SIFT's contrast threshold
is lowered until it has as many. XFeat is run by ONNX Runtime: what the file holds; where it has no
output `keypoints`, it is the network without its selection. --memory adds the peak of a process
that describes one image of so many megapixels.
"""

import functools
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.errors import InputError
from doap_tf.matching import DescriptorExtractor
from doap_tf.parallel import cores
from doap_tf.readers.images import as_grey

FLAGS = flags.FLAGS
flags.DEFINE_list("models", ["doap-fast-128"], "What match_main.py --model takes.")
flags.DEFINE_string("photo", None, "A photograph; by default scikit-image's motorcycle.")
flags.DEFINE_integer("width", 1152, "Width that the image is resized to.")
flags.DEFINE_integer("height", 864, "Height that the image is resized to.")
flags.DEFINE_integer("keypoints", 4000, "How many of them.")
flags.DEFINE_string("xfeat", None, "ONNX file of XFeat.")
flags.DEFINE_float("memory", 0, "Megapixels of the image whose memory is measured; 0: none.")

_SIFT = "SIFT"
_PEAK = """
import resource, sys
import cv2, numpy as np
from doap_tf.matching import DescriptorExtractor
model, keypoints, width, height = sys.argv[1], *map(int, sys.argv[2:])
small = np.random.default_rng(0).integers(0, 256, (height // 8, width // 8)).astype(np.uint8)
image = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
features = DescriptorExtractor(model, max_keypoints=keypoints).extract(image)
print(len(features.frames), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "ai-edge-litert", "opencv-contrib-python-headless")
    image = _image()
    functions: dict[str, Callable[[], object]] = {_SIFT: _sift(image)}
    for model in FLAGS.models:
        extractor = DescriptorExtractor(model, max_keypoints=FLAGS.keypoints)
        functions[model] = functools.partial(extractor.detectAndCompute, image)
    counts = {name: len(function()[0]) for name, function in functions.items()}
    if FLAGS.xfeat:
        functions["XFeat"], counts["XFeat"] = _xfeat(image)
    times = measuring.fastest(functions)
    further = {"keypoints": {name: f"{count:,}" for name, count in counts.items()}}
    if FLAGS.memory:
        further["peak"] = {model: _peak(model) for model in FLAGS.models}
    title = f"{image.shape[1]} × {image.shape[0]} pixels"
    measuring.print_table(title, times, [_SIFT, "XFeat"], further)


def _image() -> np.ndarray:
    if FLAGS.photo is None:
        from skimage import data

        grey = as_grey(data.stereo_motorcycle()[0][..., ::-1])
    else:
        grey = as_grey(FLAGS.photo)
    return cv2.resize(grey, (FLAGS.width, FLAGS.height), interpolation=cv2.INTER_CUBIC)


def _sift(image: np.ndarray) -> Callable[[], object]:
    """SIFT with the highest threshold of 0.04, 0.02, … that finds the keypoints."""
    threshold = 0.04
    while threshold > 1e-4:
        sift = cv2.SIFT.create(FLAGS.keypoints, contrastThreshold=threshold)
        if len(sift.detect(image)) >= FLAGS.keypoints:
            break
        threshold /= 2
    return functools.partial(sift.detectAndCompute, image, None)


def _xfeat(image: np.ndarray) -> tuple[Callable[[], object], int]:
    """What runs XFeat, and how many keypoints it gives."""
    runtime = measuring.peer("onnxruntime")
    if runtime is None:
        raise InputError("--xfeat needs ONNX Runtime: pip install onnxruntime.")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = cores()
    session = runtime.InferenceSession(FLAGS.xfeat, options, providers=["CPUExecutionProvider"])
    (given, *_) = session.get_inputs()
    planes = given.shape[1] if isinstance(given.shape[1], int) else 3
    sides = [side // 32 * 32 for side in image.shape]  # as XFeat crops
    pixels = image[: sides[0], : sides[1]].astype(np.float32) / 255
    tensor = np.ascontiguousarray(np.broadcast_to(pixels, (1, planes, *sides)))
    outputs = [output.name for output in session.get_outputs()]
    results = dict(zip(outputs, session.run(None, {given.name: tensor}), strict=True))
    count = results["keypoints"].shape[1] if "keypoints" in results else 0
    return functools.partial(session.run, None, {given.name: tensor}), count


def _peak(model: str) -> str:
    """Describes the largest memory of a process of its own."""
    height = round((FLAGS.memory * 1e6 / 1.5) ** 0.5)
    sizes = (str(number) for number in (FLAGS.keypoints, height * 3 // 2, height))
    command = [sys.executable, "-c", _PEAK, model, *sizes]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise InputError(f"{model} failed: {finished.stderr.strip().splitlines()[-1]}.")
    return f"{int(finished.stdout.split()[1]) / 1e6:.2f} GB at {FLAGS.memory:g} megapixels"


if __name__ == "__main__":
    command_line.run(main)
