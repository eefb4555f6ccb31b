"""Compares the time of describing patches on the CPU with kornia's HardNet and OpenCV.

python benchmarks/describe_speed.py

The first table starts from uint8 patches of 32 × 32. HardNet has doap-128's architecture, here with
random weights, which does not change its time. The second starts from an image and its keypoints:
networks cut patches first. Detection is not included.
"""

import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.errors import InputError
from doap_tf.features import cut_patches, frames_from_keypoints
from doap_tf.patch_generation.scenes import default_scenes

FLAGS = flags.FLAGS
flags.DEFINE_list("counts", ["1000", "10000"], "Numbers of patches.")

_NETWORKS = ("doap-128", "doap-mobile-256b")
_CALIBRATION = 256  # patches from which int8 takes its ranges
_TORCH_BATCH = 64  # HardNet is fastest: larger batches do not fit into the cache
_FROM_IMAGES = ("doap-128, Keras", "doap-128, LiteRT int8", "doap-mobile-256b, LiteRT int8")
_OPENCV = {
    "SIFT": cv2.SIFT_create,
    "VGG": cv2.xfeatures2d.VGG_create,
    "TEBLID": lambda: cv2.xfeatures2d.TEBLID_create(6.75),  # as documented for SIFT's keypoints
}


def main(argv: Sequence[str]) -> None:
    del argv
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before TensorFlow looks for them
    import doap_tf

    measuring.print_setting(
        "tensorflow", "ai-edge-litert", "opencv-contrib-python-headless", "torch", "kornia"
    )
    counts = sorted(map(int, FLAGS.counts))
    image = picture()
    keypoints = find_keypoints(image, counts[-1])
    frames = frames_from_keypoints(keypoints)
    keras = {name: doap_tf.from_pretrained(name, backend="keras") for name in _NETWORKS}
    magnification = keras["doap-128"].magnification
    patches = cut_patches(image, frames, 32, magnification)
    with tempfile.TemporaryDirectory() as folder:
        descriptors = {"doap-128, Keras": keras["doap-128"]}
        descriptors |= _exported(keras, patches[:_CALIBRATION], folder)
        hard_net = _hard_net()
        for count in counts:
            functions = {
                name: lambda d=descriptor, n=count: d.describe(patches[:n])
                for name, descriptor in descriptors.items()
            }
            if hard_net is not None:
                functions["HardNet"] = lambda n=count: hard_net(patches[:n])
            _compare(f"{count:,} patches", count, functions, ["HardNet"])
            functions = {
                name: lambda d=descriptors[name], n=count: d.describe(
                    cut_patches(image, frames[:n], 32, magnification)
                )
                for name in _FROM_IMAGES
            }
            for name, create in _OPENCV.items():
                extractor = create()
                functions[name] = lambda e=extractor, n=count: e.compute(image, keypoints[:n])
            _compare(f"{count:,} keypoints of an image", count, functions, list(_OPENCV))


def _compare(
    title: str, count: int, functions: dict[str, Callable[[], object]], peers: Sequence[str]
) -> None:
    times = measuring.fastest(functions)
    rates = {name: f"{count / seconds:,.0f}" for name, seconds in times.items()}
    measuring.print_table(title, times, peers, {"a second": rates})


def picture() -> np.ndarray:
    """A mosaic of scikit-image's photographs, uint8 [1024, 2560]."""
    scenes, _ = default_scenes()
    tiles = [cv2.imread(str(scene.files[0]), cv2.IMREAD_GRAYSCALE) for scene in scenes]
    tiles = [cv2.resize(tile, (512, 512), interpolation=cv2.INTER_AREA) for tile in tiles]
    return np.vstack([np.hstack(tiles[:5]), np.hstack(tiles[5:])])


def find_keypoints(image: np.ndarray, count: int) -> Sequence[cv2.KeyPoint]:
    found = cv2.SIFT_create(count, contrastThreshold=0.005).detect(image)
    if len(found) < count:
        raise InputError(f"--counts must not exceed the {len(found)} keypoints of the picture.")
    return found[:count]


def _exported(keras: dict, calibration: np.ndarray, folder: str) -> dict:
    """Descriptors on other runtimes than Keras, by name."""
    import doap_tf
    from doap_tf.export import export_saved_model, export_tflite

    export_saved_model(keras["doap-128"].to_keras(), f"{folder}/saved_model")
    found = {"doap-128, SavedModel": doap_tf.from_pretrained(f"{folder}/saved_model")}
    for name, descriptor in keras.items():
        precisions = ("float32", "int8")
        files = export_tflite(
            descriptor.to_keras(), folder, name, precisions, representative_patches=calibration
        )
        for precision, file in zip(precisions, files, strict=True):
            found[f"{name}, LiteRT {precision}"] = doap_tf.from_pretrained(file)
    return found


def _hard_net() -> Callable[[np.ndarray], np.ndarray] | None:
    if measuring.peer("kornia") is None:
        return None
    import torch
    from kornia.feature import HardNet

    from doap_tf.parallel import cores

    torch.set_num_threads(cores())
    network = HardNet(pretrained=False).eval()

    @torch.inference_mode()
    def describe(patches: np.ndarray) -> np.ndarray:
        descriptors = np.empty((len(patches), 128), np.float32)
        for start in range(0, len(patches), _TORCH_BATCH):
            rows = slice(start, start + _TORCH_BATCH)
            batch = torch.from_numpy(patches[rows, np.newaxis].astype(np.float32))
            descriptors[rows] = network(batch).numpy()
        return descriptors

    return describe


if __name__ == "__main__":
    command_line.run(main)
