"""What an exported model says about itself: metadata for programs, a model card for people."""

import json
from typing import Any

import keras
import tensorflow as tf

from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.features.dense_pyramid import LEVELS
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.networks.descriptor_network import DescriptorNetwork
from doap_tf.version import __version__

_FORMAT = 1


_DENSE = "DenseNetwork"
_PATCHES = (
    "A descriptor of local image patches, trained to rank matches first (Average Precision).",
    "A patch at magnification m covers [−m, m]² of a keypoint's frame (for a `cv2.KeyPoint`: a "
    "square of side m · size). Another magnification than the one above costs accuracy.",
)
_IMAGES = (
    "A network that reads whole images, finds their keypoints and describes them, trained to rank "
    "matches first (Average Precision).",
    "Keypoints are found, and described, in the image, enlarged if it has less than 1.5 million "
    f"pixels, and in up to {LEVELS - 1} smaller ones, each half the size of the one before. "
    "Descriptors stand upright: images that are turned against each other by more "
    "than about 30 degrees do not match.",
)


def network_metadata(network: DescriptorNetwork | DenseNetwork) -> dict[str, Any]:
    """Returns what a program that uses the network needs to know, for JSON."""
    binary = network.head == "binary"
    dense = isinstance(network, DenseNetwork)
    return {
        "format": _FORMAT,
        **({"network": _DENSE} if dense else {"input_size": network.input_size}),
        "normalization": f"inside: each {'image' if dense else 'patch'} minus its mean, over its "
        "standard deviation",
        "head": network.head,
        "output_dim": network.output_dim,
        "output": "bits packed into bytes, first bit highest" if binary else "unit length",
        **({} if dense else _patch_settings(network)),
        "weights_sha256": weights_sha256(network),
        "versions": {
            "doap_tf": __version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        },
    }


def _patch_settings(network: DescriptorNetwork) -> dict[str, Any]:
    return {
        "magnification": network.magnification,
        "trunk": network.trunk_name,
        "width": network.width,
        "spatial_transformer": network.spatial_transformer,
        "padding": network.padding,
    }


def model_card(
    name: str,
    metadata: dict[str, Any],
    signatures: dict[str, tf.types.experimental.ConcreteFunction],
    documentation: dict[str, str],
    training_record: dict[str, Any] | str | None,
) -> str:
    """Returns the model card in Markdown.

    Args:
        name: Name of the model.
        metadata: The result of `network_metadata`.
        signatures: Traced signatures by name.
        documentation: Descriptions of the signatures by name.
        training_record: How the network was trained: the contents of `train.json`, or a text in
            Markdown.
    """
    facts = {key: value for key, value in metadata.items() if key not in ("format", "versions")}
    facts.update({f"{package} version": text for package, text in metadata["versions"].items()})
    first, last = _IMAGES if metadata.get("network") == _DENSE else _PATCHES
    lines = [
        f"# {name}",
        "",
        first,
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {key.replace('_', ' ')} | {value} |" for key, value in facts.items()),
        "",
        last,
        "",
        "## Signatures",
    ]
    for signature, function in signatures.items():
        lines += ["", f"### {signature}", "", documentation[signature], ""]
        lines += ["| | name | type | shape |", "| --- | --- | --- | --- |"]
        inputs = {spec.name: spec for spec in function.structured_input_signature[0]}
        for role, specs in (("in", inputs), ("out", function.structured_outputs)):
            lines += [
                f"| {role} | {key} | {spec.dtype.name} | {_shape(spec)} |"
                for key, spec in specs.items()
            ]
    lines += ["", "## Training", ""]
    if training_record is None:
        lines.append("There is no record of the training.")
    elif isinstance(training_record, str):
        lines.append(training_record)
    else:
        # The history is for plots; it is in the metadata.
        facts = {key: value for key, value in training_record.items() if key != "history"}
        lines += ["```json", json.dumps(facts, indent=1), "```"]
    return "\n".join(lines) + "\n"


def _shape(spec: tf.TensorSpec) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in spec.shape) + "]"
