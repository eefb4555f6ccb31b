"""Draws accuracy against time on a CPU: our networks beside OpenCV's descriptors.

experiments/prepare.sh DATA groups
G=groups/oxford
taskset -c 0 python benchmarks/accuracy_over_time.py --clock=cpu --groups=${G}32,${G}42,${G}65

Time is from an image and its keypoints to descriptors, in microseconds a keypoint: cutting and
LiteRT for networks, `compute` for OpenCV's. doap-128 has HardNet's architecture, so its time is
HardNet's too. Accuracy is the matching mAP of patch groups; each descriptor takes the groups of its
size, handcrafted ones those of 65 pixels. Without --groups only time is measured.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import describe_speed
import measuring

from doap_tf import command_line
from doap_tf.drawing.tables import Table
from doap_tf.features import cut_patches, frames_from_keypoints

FLAGS = flags.FLAGS
flags.DEFINE_list("groups", [], "Folders of patch groups of 32, 42 and 65 pixels.")
flags.DEFINE_list(
    "models", [], "Networks; by default all that ship, those for ready-cut patches aside."
)
flags.DEFINE_list("precisions", ["float32", "int8"], "Those of export_main.py.")
flags.DEFINE_integer("keypoints", 10_000, "Number of keypoints.")
flags.DEFINE_string("image", None, "A picture; the mosaic of describe_speed.py by default.")
flags.DEFINE_string("output", "accuracy_over_time.png", "Picture to write, with --groups.")

_DESCRIBED = 2_048  # patches at most; the time of the others is the same
_CALIBRATION = 256  # patches from which int8 takes its ranges
_HANDCRAFTED_SIZE = 65
_OPENCV = {
    "sift": cv2.SIFT_create,
    "vgg": cv2.xfeatures2d.VGG_create,
    "teblid": lambda: cv2.xfeatures2d.TEBLID_create(6.75),  # as documented for SIFT's keypoints
    "orb": cv2.ORB_create,
}


def main(argv: Sequence[str]) -> None:
    del argv
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before TensorFlow looks for them
    cv2.setNumThreads(len(os.sched_getaffinity(0)))
    from doap_tf.descriptors import HANDCRAFTED

    measuring.print_setting("ai-edge-litert", "opencv-contrib-python-headless")
    image = cv2.imread(FLAGS.image, 0) if FLAGS.image else describe_speed.picture()
    with tempfile.TemporaryDirectory() as folder:
        networks = _networks(image, folder)
        times = _microseconds(image, networks)
        scores = _scores({**networks, **{name: HANDCRAFTED[name] for name in _OPENCV}})
    rows = {
        name: {"µs": f"{time:.1f}", "of SIFT's": f"{time / times['sift']:.2f}"}
        | ({"matching mAP": f"{scores[name]:.3f}"} if name in scores else {})
        for name, time in sorted(times.items(), key=lambda item: -item[1])
    }
    print(Table(rows, "descriptor").markdown())
    if scores:
        from doap_tf.drawing.pictures import write_picture

        write_picture(FLAGS.output, _draw({name: (times[name], scores[name]) for name in scores}))
        print(f"\n{FLAGS.output}")


def _networks(image: np.ndarray, folder: str) -> dict[str, Any]:
    """Networks as .tflite files of each precision, by name."""
    import doap_tf
    from doap_tf.export import export_tflite

    frames = frames_from_keypoints(describe_speed.find_keypoints(image, _CALIBRATION))
    found = {}
    detected = [name for name in doap_tf.list_pretrained() if not name.endswith("-patch")]
    for name in FLAGS.models or detected:
        network = doap_tf.from_pretrained(name, backend="keras").to_keras()
        patches = cut_patches(image, frames, network.input_size, network.magnification)
        files = export_tflite(
            network, folder, name, FLAGS.precisions, representative_patches=patches
        )
        for precision, file in zip(FLAGS.precisions, files, strict=True):
            label = name if precision == "float32" else f"{name}, {precision}"
            found[label] = doap_tf.from_pretrained(file)
    return found


def _microseconds(image: np.ndarray, networks: dict[str, Any]) -> dict[str, float]:
    """Time a keypoint from the image to descriptors, by name."""
    keypoints = describe_speed.find_keypoints(image, FLAGS.keypoints)
    frames = frames_from_keypoints(keypoints)
    functions: dict[str, Callable[[], object]] = {}
    counts = {}
    cuttings = {}
    for name, each in networks.items():
        size, magnification = each.input_size, each.magnification
        patches = cut_patches(image, frames[:_DESCRIBED], size, magnification)
        functions[name] = lambda each=each, patches=patches: each.describe(patches)
        counts[name] = len(patches)
        cuttings[name] = cutting = f"cutting {size} at {magnification:g}"
        functions[cutting] = lambda options=(size, magnification): cut_patches(
            image, frames, *options
        )
        counts[cutting] = len(frames)
    for name, create in _OPENCV.items():
        extractor = create()
        # ORB reads levels of its own pyramid from its keypoints.
        own = cv2.ORB_create(FLAGS.keypoints).detect(image) if name == "orb" else keypoints
        functions[name] = lambda each=extractor, own=own: each.compute(image, own)
        counts[name] = len(own)
    times = {
        name: 1e6 * seconds / counts[name] for name, seconds in measuring.fastest(functions).items()
    }
    return {
        name: time + times.get(cuttings.get(name, ""), 0.0)
        for name, time in times.items()
        if name not in cuttings.values()
    }


def _scores(descriptors: dict[str, Any]) -> dict[str, float]:
    """Matching mAP on the groups of each descriptor's size, where they are given."""
    from doap_tf.data import PatchGroups
    from doap_tf.training.validation import Validation

    groups = [PatchGroups.load(folder) for folder in FLAGS.groups]
    validations = {each.size: Validation(each) for each in groups}
    sizes = {
        name: getattr(each, "input_size", _HANDCRAFTED_SIZE) for name, each in descriptors.items()
    }
    return {
        name: validations[sizes[name]].evaluate(each).scores["matching_map"]
        for name, each in descriptors.items()
        if sizes[name] in validations
    }


def _draw(positions: dict[str, tuple[float, float]]) -> np.ndarray:
    """Draws time and score by name; our networks are coloured, variants hollow and joined."""
    from matplotlib.figure import Figure

    from doap_tf.drawing.pictures import render

    figure = Figure(figsize=(9, 7.5), dpi=110, layout="constrained")
    axes = figure.subplots()
    for name, position in positions.items():
        colour = "#2e8b57" if name.startswith("doap-") else "#33475b"
        base, _, variant = name.partition(", ")
        if variant:
            joined = zip(position, positions.get(base, position), strict=True)
            axes.plot(*joined, ":", color=colour, zorder=1)
            axes.plot(*position, "o", color=colour, markerfacecolor="white")
            continue
        axes.plot(*position, "o", color=colour)
        axes.annotate(
            name, position, xytext=(7, 0), textcoords="offset points", fontsize="small", va="center"
        )
    axes.set_xscale("log")
    axes.set(xlabel="µs a keypoint", ylabel="matching mAP")
    axes.margins(x=0.2, y=0.08)
    axes.grid(linestyle=":", color="#888888")
    return render(figure)


if __name__ == "__main__":
    command_line.run(main)
