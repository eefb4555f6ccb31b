"""The model card: what is in an exported model, for the people who will use it."""

import json
from typing import Any

import tensorflow as tf


def model_card(
    name: str,
    metadata: dict[str, Any],
    signatures: dict[str, tf.types.experimental.ConcreteFunction],
    documentation: dict[str, str],
    training_record: dict[str, Any] | None,
) -> str:
    """Writes the card, in Markdown.

    Args:
        name: Name of the model.
        metadata: As `network_metadata` gives it.
        signatures: Traced signatures by name.
        documentation: What each signature does, by name.
        training_record: How the network was trained, as `train.json` has it.
    """
    facts = {key: value for key, value in metadata.items() if key not in ("format", "versions")}
    facts.update({f"{package} version": text for package, text in metadata["versions"].items()})
    lines = [
        f"# {name}",
        "",
        "A descriptor of local image patches, trained to rank matches first (Average Precision).",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {key.replace('_', ' ')} | {value} |" for key, value in facts.items()),
        "",
        "A patch at magnification m covers [−m, m]² of a keypoint's frame (for a `cv2.KeyPoint`: a "
        "square of side m · size). Another magnification than the one above costs accuracy.",
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
        lines.append("No record came with the model.")
    else:
        # The course of the training is for plots; it stays in the metadata.
        facts = {key: value for key, value in training_record.items() if key != "history"}
        lines += ["```json", json.dumps(facts, indent=1), "```"]
    return "\n".join(lines) + "\n"


def _shape(spec: tf.TensorSpec) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in spec.shape) + "]"
