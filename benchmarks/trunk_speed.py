"""Compares the trunks made for CPUs with OpenCV's SIFT, from keypoints to descriptors.

taskset -c 0 python benchmarks/trunk_speed.py --clock=cpu --rounds=6

Weights are random: time does not depend on them. Patches are cut at 14 from the mosaic of
describe_speed.py, or from --image, and described by LiteRT. Microseconds are per keypoint.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence

import cv2
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import describe_speed
import measuring

from doap_tf import command_line
from doap_tf.drawing.tables import Table
from doap_tf.features import cut_patches, frames_from_keypoints

FLAGS = flags.FLAGS
flags.DEFINE_list("precisions", ["float32", "int8"], "Those of export_main.py.")
flags.DEFINE_integer("keypoints", 10_000, "Number of keypoints.")
flags.DEFINE_string("image", None, "A picture; the mosaic of describe_speed.py by default.")

_MAGNIFICATION = 14.0
_DESCRIBED = 2_048  # patches at most; the time of the others is the same
_CALIBRATION = 256  # patches from which int8 takes its ranges
_HEADS = {"256 bits": (256, "binary"), "128 floats": (128, "real")}


def main(argv: Sequence[str]) -> None:
    del argv
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before TensorFlow looks for them
    cv2.setNumThreads(len(os.sched_getaffinity(0)))
    import doap_tf
    from doap_tf.export import export_tflite
    from doap_tf.networks import TRUNKS, DescriptorNetwork

    measuring.print_setting("ai-edge-litert", "opencv-contrib-python-headless")
    image = cv2.imread(FLAGS.image, 0) if FLAGS.image else describe_speed.picture()
    keypoints = describe_speed.find_keypoints(image, FLAGS.keypoints)
    frames, sift = frames_from_keypoints(keypoints), cv2.SIFT_create()
    patches = cut_patches(image, frames, 32, _MAGNIFICATION)
    described = patches[:_DESCRIBED]
    functions: dict[str, Callable[[], object]] = {
        "SIFT": lambda: sift.compute(image, keypoints),
        "cutting": lambda: cut_patches(image, frames, 32, _MAGNIFICATION),
    }
    with tempfile.TemporaryDirectory() as folder:
        for trunk in TRUNKS:
            for head, (dimension, kind) in _HEADS.items():
                network = DescriptorNetwork(dimension, kind, trunk=trunk)
                network(patches[:_CALIBRATION, ..., None], training=True)
                files = export_tflite(
                    network,
                    folder,
                    f"{trunk}, {head}",
                    FLAGS.precisions,
                    representative_patches=patches[:_CALIBRATION],
                )
                for file in files:
                    descriptor = doap_tf.from_pretrained(file)
                    functions[file.stem] = lambda each=descriptor: each.describe(described)
        times = measuring.fastest(functions)
    micro = {
        name: 1e6 * seconds / (len(keypoints) if name in ("SIFT", "cutting") else len(described))
        for name, seconds in times.items()
    }
    rows = {
        name: {
            "µs": f"{each:.1f}",
            "with cutting / SIFT": f"{(each + micro['cutting']) / micro['SIFT']:.2f}",
        }
        for name, each in micro.items()
        if name not in ("SIFT", "cutting")
    }
    rows |= {name: {"µs": f"{micro[name]:.1f}"} for name in ("cutting", "SIFT")}
    print(Table(rows, "trunk").markdown())


if __name__ == "__main__":
    command_line.run(main)
