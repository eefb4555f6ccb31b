"""Matches two images with packages for phones only: NumPy, OpenCV and LiteRT.

    python examples/mobile_matching.py doap-256b-int8.tflite a.jpg b.jpg matches.png

The model is any .tflite file of `export_main.py`. The file contains what an app needs to know: the
size of a patch, its extent around a keypoint, and the kind of descriptor.
"""

import argparse
import json
import sys

import cv2
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

_BATCH = 16


class MobileDescriptor:
    """A descriptor network run by LiteRT."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            model = file.read()
        if model[4:8] != b"TFL3":
            raise ValueError(f"{path} is not a .tflite file.")
        self.metadata = _metadata(model)
        self.binary = self.metadata["head"] == "binary"
        self._interpreter = Interpreter(model_content=model)

    def describe(self, image: np.ndarray, keypoints: list[cv2.KeyPoint]) -> np.ndarray:
        """Returns one row per keypoint: floats of unit length, or packed bits."""
        size = self.metadata["input_size"]
        patches = _cut(image, keypoints, size, self.metadata["magnification"])
        step = self.metadata["batch_size"] or _BATCH
        if self.metadata["batch_size"] is None:
            source = self._interpreter.get_input_details()[0]["index"]
            self._interpreter.resize_tensor_input(source, [step, size, size, 1])
        describe = self._interpreter.get_signature_runner()
        rows = []
        for start in range(0, len(patches), step):
            batch = patches[start : start + step]
            padding = np.zeros([step - len(batch), *batch.shape[1:]], np.float32)
            output = describe(patches=np.concatenate([batch, padding]))["descriptors"]
            rows.append(output[: len(batch)])
        return np.concatenate(rows)


def _metadata(model: bytes) -> dict:
    """Reads the JSON in the file's buffer called doap_tf."""
    tree = schema.Model.GetRootAs(model, 0)
    for number in range(tree.MetadataLength()):
        entry = tree.Metadata(number)
        if entry.Name() == b"doap_tf":
            return json.loads(tree.Buffers(entry.Buffer()).DataAsNumpy().tobytes())
    raise ValueError("this .tflite file has no metadata of doap_tf: export it with export_main.py.")


def _cut(
    image: np.ndarray, keypoints: list[cv2.KeyPoint], size: int, magnification: float
) -> np.ndarray:
    """Cuts patches float32 [N, size, size, 1], turned by the keypoint's angle.

    Each is cut from the level of a Gaussian pyramid whose pixels are closest to its own in size:
    cut from the image itself, patches of large keypoints would alias.
    """
    levels = [image]
    patches = np.empty([len(keypoints), size, size, 1], np.float32)
    for number, keypoint in enumerate(keypoints):
        step = magnification * keypoint.size / size  # image pixels per pixel of the patch
        level = max(0, round(np.log2(step)))
        while len(levels) <= level and min(levels[-1].shape) > 1:
            levels.append(cv2.pyrDown(levels[-1]))
        level = min(level, len(levels) - 1)
        angle = np.radians(max(keypoint.angle, 0.0))
        axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        linear = axes * step / 2**level
        center = np.array(keypoint.pt) / 2**level
        origin = center - linear @ np.full(2, (size - 1) / 2)
        patches[number, :, :, 0] = cv2.warpAffine(
            levels[level],
            np.column_stack([linear, origin]),
            (size, size),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
    return patches


def main(model: str, path1: str, path2: str, output: str) -> int:
    """Detects, describes, matches mutual nearest neighbours, verifies a homography, draws."""
    try:
        descriptor = MobileDescriptor(model)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    detector = cv2.SIFT_create(1000)
    images = [cv2.imread(path, cv2.IMREAD_GRAYSCALE) for path in (path1, path2)]
    for path, image in zip((path1, path2), images, strict=True):
        if image is None:
            print(f"error: {path} cannot be read as an image.", file=sys.stderr)
            return 2
    keypoints = [detector.detect(image) for image in images]
    if not all(keypoints):
        print("error: an image has no keypoints.", file=sys.stderr)
        return 2
    rows = [descriptor.describe(*pair) for pair in zip(images, keypoints, strict=True)]
    norm = cv2.NORM_HAMMING if descriptor.binary else cv2.NORM_L2
    matches = cv2.BFMatcher(norm, crossCheck=True).match(*rows)
    inliers = np.zeros(len(matches), np.uint8)
    if len(matches) >= 4:
        points = [
            np.float32([keypoints[side][index].pt for index in indices])
            for side, indices in enumerate(
                zip(*((match.queryIdx, match.trainIdx) for match in matches), strict=True)
            )
        ]
        _, mask = cv2.findHomography(*points, cv2.USAC_MAGSAC, 3.0)
        inliers = np.zeros(len(matches), np.uint8) if mask is None else mask.ravel()
    picture = cv2.drawMatches(
        images[0],
        keypoints[0],
        images[1],
        keypoints[1],
        [match for match, inlier in zip(matches, inliers, strict=True) if inlier],
        None,
        matchColor=(60, 200, 60),
        flags=cv2.DrawMatchesFlags_NOT_DRAW_SINGLE_POINTS,
    )
    if not (cv2.haveImageWriter(output) and cv2.imwrite(output, picture)):
        print(f"error: {output} cannot be written as an image.", file=sys.stderr)
        return 2
    print(f"{len(matches)} matches, {int(inliers.sum())} of them agree on a homography: {output}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "image1", "image2", "output"):
        parser.add_argument(name)
    sys.exit(main(*vars(parser.parse_args()).values()))
