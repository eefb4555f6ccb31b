"""Image sequences with homographies: Oxford's (Mikolajczyk's) and those of HPatches."""

import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds

from doap_tf.datasets.source_builder import SourceBuilder
from doap_tf.errors import InputError
from doap_tf.readers import image_sequences, original_files

_OXFORD_FILES = [
    f"{name}.tar.gz" for name in ("bark", "bikes", "boat", "graf", "leuven", "trees", "ubc", "wall")
]
_OXFORD_MIRROR = "https://www.robots.ox.ac.uk/~vgg/research/affine/det_eval_files/"
_HPATCHES_MIRROR = "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/"


def _holds_sequences(folder: pathlib.Path) -> bool:
    try:
        return bool(image_sequences.list_image_sequences(folder))
    except InputError:
        return False


class Builder(SourceBuilder):
    """Sequences of six images and five homographies."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="oxford", description="Mikolajczyk's eight sequences."),
        tfds.core.BuilderConfig(
            name="hpatches_sequences", description="The image sequences behind HPatches."
        ),
    ]

    def _info(self) -> tfds.core.DatasetInfo:
        numbers = range(1, image_sequences.IMAGES + 1)
        return self._dataset_info(
            features=tfds.features.FeaturesDict(
                {
                    "name": tfds.features.Text(),
                    # Not a TFDS Sequence, which stacks: sizes differ within a sequence.
                    "images": {
                        str(number): tfds.features.Image(
                            shape=(None, None, 3), encoding_format="png"
                        )
                        for number in numbers
                    },
                    "homographies": tfds.features.Tensor(
                        shape=(image_sequences.IMAGES - 1, 3, 3),
                        dtype=np.float64,
                        encoding="bytes",
                    ),
                }
            ),
            homepage="https://www.robots.ox.ac.uk/~vgg/research/affine/",
        )

    def _original(self) -> original_files.Original:
        if self.builder_config.name == "oxford":
            names, mirror, folder = _OXFORD_FILES, _OXFORD_MIRROR, "oxford_affine"
        else:
            folder = "hpatches-sequences-release"
            names, mirror = [f"{folder}.zip"], _HPATCHES_MIRROR
        return original_files.Original(
            {name: [mirror + name] for name in names}, folder, _holds_sequences
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator]:
        return {"test": self._generate_examples(folder)}

    def _generate_examples(self, folder: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        for index, path in enumerate(image_sequences.list_image_sequences(folder)):
            sequence = image_sequences.read_image_sequence(path)
            yield (
                index,
                {
                    "name": sequence.name,
                    "images": {
                        str(number): image for number, image in enumerate(sequence.images, start=1)
                    },
                    "homographies": sequence.homographies,
                },
            )
