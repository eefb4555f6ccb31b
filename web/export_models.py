"""Writes what the page needs besides its code: networks, samples, and numbers for its tests.

    python web/export_models.py

`public/models` gets the .tflite files of `export_main.py` that browsers can run, those of fixed
shapes, and `index.json`, the list that the page offers. `public/samples` gets two views of a
photograph of scikit-image and the homography between them. For `make test-web`, `tests/relit` gets
two views in different light, and `tests/fixture.json` holds what Python computes from all four.
"""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import cv2
import numpy as np
import skimage.data

from doap_tf import tflite_metadata
from doap_tf.appearance import Appearance, Effect
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.descriptors.litert_backend import LiteRTBackend
from doap_tf.export import convert_dense_to_tflite
from doap_tf.features.cutting import Pyramid
from doap_tf.features.dense_pyramid import LEVELS
from doap_tf.features.detectors import detect
from doap_tf.features.frames import angles, radii
from doap_tf.matching import (
    DenseExtractor,
    DescriptorExtractor,
    Features,
    NearestNeighbours,
    PairMatches,
    Verifier,
    all_settings,
    evidence,
    has_parallax,
    match_descriptors,
    match_features,
    write_matches,
)
from doap_tf.matching.verdict import RELIABLE_EVIDENCE
from doap_tf.metrics import NORM_HAMMING
from doap_tf.networks import DenseNetwork
from doap_tf.readers.images import as_grey, read_image
from doap_tf.zoo import load_keras

#: The network of whole images, the page's default, the largest image it reads, points at once.
DENSE, WIDTH, HEIGHT, ROWS = "doap-dense-small-256b", 768, 576, 100
#: Networks of patches that ship; bits, as all of the page.
NETWORKS = ("doap-fast-256b", "doap-tiny-256b", "doap-mobile-256b", "doap-256b")
PRECISIONS = ("float32", "float16", "int8")
BATCH = 64
TILE = 128  # pixels each way that the detector's network scores at once

WEB = pathlib.Path(__file__).parent
MODELS, SAMPLES = WEB / "public" / "models", WEB / "public" / "samples"
RELIT, FIXTURE = WEB / "tests" / "relit", WEB / "tests" / "fixture.json"
_KEYPOINTS, _PATCHES, _RATIO = 800, 256, 0.9


def export_models() -> dict:
    """Writes the networks to public/models; returns the list of them."""
    with tempfile.TemporaryDirectory() as folder:
        _export("learned", folder, f"--image_sizes={TILE}x{TILE}")
        detector = _entry(pathlib.Path(folder, f"learned-{TILE}x{TILE}.tflite"))
        networks = [_export_dense(folder)]
        for name in NETWORKS:
            _export(name, folder, f"--batch_sizes={BATCH}", f"--precisions={','.join(PRECISIONS)}")
            for precision in PRECISIONS:
                path = pathlib.Path(folder, f"{name}-{precision}-batch{BATCH}.tflite")
                networks.append({"name": name, "reads": "patches", **_entry(path)})
    return {"detector": detector, "networks": networks}


def _export_dense(folder: str) -> dict:
    """One file for the levels of the largest images, landscape and portrait; they share weights."""
    stride, sizes = DenseNetwork.stride, []
    for level in range(LEVELS):
        height, width = (-(-side // (stride << level)) * stride for side in (HEIGHT, WIDTH))
        sizes += [(height, width), (width, height)]
    network = load_keras(DENSE, DenseNetwork)
    path = pathlib.Path(folder, f"{DENSE}-float32.tflite")
    path.write_bytes(convert_dense_to_tflite(network, list(dict.fromkeys(sizes)), ROWS))
    return {"name": DENSE, "reads": "images", **_entry(path)}


def _export(model: str, folder: str, *flags: str) -> None:
    command = [sys.executable, str(WEB.parent / "export_main.py"), "--formats=tflite"]
    subprocess.run([*command, f"--model={model}", f"--export_dir={folder}", *flags], check=True)


def _entry(path: pathlib.Path) -> dict:
    """Copies a file to public/models and returns its line in the list."""
    MODELS.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, MODELS / path.name)
    content = path.read_bytes()
    return {"file": path.name, "bytes": len(content), **tflite_metadata.read(content)}


def make_samples() -> None:
    """Writes public/samples: coffee, CC0 by Rachel Michetti, and a second view of it."""
    first = cv2.cvtColor(skimage.data.coffee(), cv2.COLOR_RGB2BGR)
    width, height = 560, 420
    corners = np.float32([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
    seen = np.float32([[150, 12], [588, 110], [500, 392], [22, 300]])  # of the first view
    homography = cv2.getPerspectiveTransform(seen, corners)
    second = cv2.warpPerspective(first, homography, (width, height), flags=cv2.INTER_CUBIC)
    second = cv2.convertScaleAbs(second, alpha=0.75, beta=20)
    _write_pair(SAMPLES, first, second, homography)


def make_relit_pair() -> None:
    """Writes tests/relit: a part of coffee as large as images of the dense network, and a view of
    it in other light."""
    photograph = cv2.cvtColor(skimage.data.coffee(), cv2.COLOR_RGB2GRAY)[:, :533]
    first = cv2.resize(photograph, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    homography = np.array([[0.92, -0.12, 70], [0.1, 0.95, -20], [5e-5, -4e-5, 1]])
    second = cv2.warpPerspective(first, homography, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REFLECT)
    light = Appearance.only(light_field=Effect(), tone_curve=Effect(), shadow=Effect())
    _write_pair(
        RELIT, first, change_appearance(second, light, np.random.default_rng(0)), homography
    )


def _write_pair(
    folder: pathlib.Path, first: np.ndarray, second: np.ndarray, homography: np.ndarray
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, image in (("one", first), ("two", second)):
        cv2.imwrite(str(folder / f"{name}.jpg"), image, [cv2.IMWRITE_JPEG_QUALITY, 88])
    _write(folder / "truth.json", {"homography": homography.tolist()})


def _read_pair(folder: pathlib.Path) -> list[np.ndarray]:
    return [as_grey(read_image(folder / f"{name}.jpg")) for name in ("one", "two")]


def make_fixture(entries: list[dict]) -> None:
    """Writes tests/fixture.json for networks of the list."""
    images = _read_pair(SAMPLES)
    found = [detect(image, "learned", _KEYPOINTS) for image in images]
    patches, networks = {}, []
    for entry in (entry for entry in entries if entry["reads"] == "patches"):
        extent = f"{entry['input_size']} pixels, magnification {entry['magnification']:g}"
        if extent not in patches:
            patches[extent] = [
                Pyramid(image).cut(frames, entry["input_size"], entry["magnification"])
                for image, (frames, _) in zip(images, found, strict=True)
            ]
        backend = LiteRTBackend(MODELS / entry["file"])
        rows = [backend.infer(cut[..., np.newaxis]) for cut in patches[extent]]
        indices, _ = match_descriptors(*rows, NORM_HAMMING, "mutual_ratio", _RATIO)
        networks.append(
            {
                "file": entry["file"],
                "patches": extent,
                "descriptors": _base64(rows[0][:_PATCHES]),
                "matches": indices.tolist(),
            }
        )
    keypoints = [
        np.column_stack([frames[:, :, 2], radii(frames), angles(frames), responses])
        for frames, responses in found
    ]
    extractor = DescriptorExtractor(NETWORKS[0], "learned")
    matcher, verifier = NearestNeighbours("mutual_ratio"), Verifier()
    features = [extractor.extract(image) for image in images]
    pair = match_features(*features, matcher, verifier)
    dense = DenseExtractor(DENSE, _KEYPOINTS, enlarge=False, precision="float32")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "matches.json")
        write_matches(path, pair, all_settings(extractor, matcher, verifier))
        record = json.loads(path.read_text())
    _write(
        FIXTURE,
        {
            "grey": [_base64(image) for image in images],
            "keypoints": [rows.round(5).tolist() for rows in keypoints],
            "patches": {extent: _base64(cut[0][:_PATCHES]) for extent, cut in patches.items()},
            "ratio": _RATIO,
            "default": NETWORKS[0],
            "networks": networks,
            "dense": {
                "samples": [_described(dense.extract(image)) for image in images],
                "relit": [_described(dense.extract(image)) for image in _read_pair(RELIT)],
            },
            "verdicts": _verdicts(pair),
            "reliable_evidence": RELIABLE_EVIDENCE,
            "record_keys": list(record),
            "settings_keys": list(record["settings"]),
        },
    )


def _described(features: Features) -> dict:
    """Keypoints as rows of x, y and radius, and packed bits."""
    rows = np.column_stack([features.points, radii(features.frames)])
    return {"keypoints": rows.round(5).tolist(), "descriptors": _base64(features.descriptors)}


def _verdicts(pair: PairMatches) -> list[dict]:
    """Matches with models, and what the verdict says of them."""
    random = np.random.default_rng(0)
    cases = []
    for points1, points2 in (
        (pair.points1, pair.points2),
        (pair.points1, random.permutation(pair.points2)),
        (pair.points1, pair.points2 + [[40, 9]] * random.uniform(0, 1, (len(pair.indices), 1))),
    ):
        plane, cameras = (
            Verifier(geometry).verify_points(points1, points2)
            for geometry in ("homography", "fundamental")
        )
        for found in (plane, cameras):
            matches = points1, points2, found.geometry, found.model, 3.0
            case = {"geometry": found.geometry, "threshold": 3.0, "digits": evidence(*matches)}
            for name, array in zip(
                ("first", "second", "model"), (points1, points2, found.model), strict=True
            ):
                case[name] = array.tolist()
            cases.append(case)
        seen = has_parallax(points1, points2, plane.residuals, cameras.model, 3.0)
        cases[-1]["plane"] = {"homography": plane.model.tolist(), "parallax": seen}
    return cases


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array)).decode()


def _write(path: pathlib.Path, record: dict) -> None:
    path.write_text(json.dumps(record) + "\n", "utf-8")


if __name__ == "__main__":
    models = export_models()
    make_samples()
    make_relit_pair()
    make_fixture(models["networks"])
    _write(MODELS / "index.json", models)  # last: with it, all is there
