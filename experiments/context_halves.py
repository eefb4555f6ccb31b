r"""Scores what the halves of a context network give, and two networks side by side instead.

python experiments/context_halves.py --model=runs/context --data_dir=pose --report_dir=reports
python experiments/context_halves.py --dense=doap-dense-128 --patches=doap-fast-128 \
    --benchmark=homography --threshold=3 --data_dir=webcam_sequences --report_dir=reports

All variants have the same keypoints. With --model: the maps' half alone, and with patches that
follow the dominant gradient or stand upright, the patches' half alone and both, by several shares
of the maps. With --dense and --patches: rows of both networks side by side, by the same shares.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags
from variants import score

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "A context network: its name, file or run.")
flags.DEFINE_string("dense", None, "A network of whole images, which has the keypoints.")
flags.DEFINE_string("patches", None, "A network of patches.")
flags.DEFINE_list("shares", ["0.3", "0.5", "0.7"], "Squared lengths of the maps' part.")
flags.DEFINE_enum("benchmark", "pose", ["pose", "homography"], "On which pairs.")
flags.DEFINE_list("data_dir", None, "Folders of the pairs.", required=True)
flags.DEFINE_float("threshold", 0.5, "Pixels of an inlier.")
flags.DEFINE_integer("max_keypoints", 2048, "Maximum number of keypoints per image.")
flags.DEFINE_string("report_dir", None, "Parent of the folder of the report.", required=True)

_FRAMES = {"oriented": True, "upright": False}


def main(argv: Sequence[str]) -> None:
    del argv
    if (FLAGS.model is None) == (FLAGS.dense is None or FLAGS.patches is None):
        raise InputError("give either --model, or --dense and --patches.")
    score(_halves() if FLAGS.model else _joined())


def _halves() -> Iterator[Any]:
    """The variants of one context network."""
    import numpy as np

    from doap_tf.matching import DenseExtractor
    from doap_tf.metrics import NORM_HAMMING

    for frames, oriented in _FRAMES.items():
        extractor = DenseExtractor(FLAGS.model, FLAGS.max_keypoints, oriented=oriented)
        binary = extractor.norm == NORM_HAMMING
        features = _remembering(extractor.extract)

        def halves(image: Any, features: Callable = features) -> list[Any]:
            return np.split(features(image).descriptors, 2, axis=1)

        parts = {"patches alone": lambda image, halves=halves: halves(image)[1]}
        if oriented:
            parts["maps alone"] = lambda image, halves=halves: halves(image)[0]
        if binary:
            parts["both"] = lambda image, features=features: features(image).descriptors
        else:
            for share in map(float, FLAGS.shares):
                parts[f"both, {share:g}"] = lambda image, halves=halves, share=share: _join(
                    *halves(image), share
                )
        for name, rows in parts.items():
            yield _variant(f"{name}, {frames}", extractor, features, rows)


def _joined() -> Iterator[Any]:
    """A network of whole images, one of patches at its keypoints, and both side by side."""
    from doap_tf.features.orientation import orient
    from doap_tf.matching import DenseExtractor, DescriptorExtractor
    from doap_tf.readers.images import as_grey

    dense = DenseExtractor(FLAGS.dense, FLAGS.max_keypoints)
    patches = DescriptorExtractor(FLAGS.patches)
    features = _remembering(dense.extract)
    yield _variant("maps alone", dense, features, lambda image: features(image).descriptors)
    for frames, oriented in _FRAMES.items():

        def describe(image: Any, oriented: bool = oriented) -> Any:
            found = features(image).frames
            at = orient(as_grey(image), found) if oriented else found
            return patches.describe(image, at).descriptors

        cut = _remembering(describe)
        for share in (0.0, *map(float, FLAGS.shares)):
            yield _variant(
                f"both, {share:g}, {frames}" if share else f"patches alone, {frames}",
                dense,
                features,
                lambda image, cut=cut, share=share: _join(
                    features(image).descriptors, cut(image), share
                ),
            )


def _join(of_maps: Any, of_patches: Any, share: float) -> Any:
    """Rows side by side, each part of unit length times the root of its share."""
    import numpy as np

    parts = [
        rows * (part**0.5 / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))
        for rows, part in ((of_maps, share), (of_patches, 1 - share))
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _remembering(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of an image, which computes once for each."""
    kept: dict[int, Any] = {}

    def remembered(image: Any) -> Any:
        key = hash(image.tobytes())
        if key not in kept:
            kept[key] = function(image)
        return kept[key]

    return remembered


def _variant(name: str, extractor: Any, features: Callable, rows: Callable) -> Any:
    """A model that has the keypoints of an extractor and other rows."""
    import numpy as np

    from doap_tf.evaluation import ImageModel

    class Variant:
        norm = extractor.norm

        def extract(self, image: Any, mask: Any = None) -> Any:
            del mask
            described = np.ascontiguousarray(rows(image))
            return dataclasses.replace(features(image), descriptors=described)

        def settings(self) -> dict[str, Any]:
            return {**extractor.settings(), "rows": name}

    return ImageModel(name, Variant())  # type: ignore[arg-type]


if __name__ == "__main__":
    command_line.run(main)
