"""What a model has seen of the scenes that a benchmark scores."""

from collections.abc import Iterable

from doap_tf.evaluation.image_model import ImageModel
from doap_tf.evaluation.model import Model

# HPatches' sequences whose images are Oxford's.
_SAME_IMAGES = {
    "hpatches/i_leuven": "oxford/leuven",
    "hpatches/v_bark": "oxford/bark",
    "hpatches/v_boat": "oxford/boat",
    "hpatches/v_graffiti": "oxford/graf",
    "hpatches/v_wall": "oxford/wall",
}
_OTHER_NAMES = _SAME_IMAGES | {oxford: hpatches for hpatches, oxford in _SAME_IMAGES.items()}


def image_sequence(name: str) -> str:
    """Returns the scene of a folder of images: `hpatches/v_boat` or `oxford/boat`."""
    return f"hpatches/{name}" if name.startswith(("i_", "v_")) else f"oxford/{name}"


def what_was_seen(model: Model | ImageModel, scenes: Iterable[str]) -> str:
    """Returns a sentence on the scenes that a model was trained or its recipe chosen on.

    Args:
        model: Whose `training` tells it.
        scenes: Those of the benchmark, as `DATASET/SCENE`.

    Returns:
        Nothing if it has seen none of them.
    """
    if "data" not in model.training:
        return f"What {model.name} was trained on is not known: it may have seen these scenes."
    scenes = list(scenes)
    parts = [
        f"{how} {', '.join(seen)}"
        for how, key in (("was trained on", "data"), ("was chosen with a view to", "chosen_on"))
        if (seen := _among(scenes, model.training.get(key, "").split(",")))
    ]
    return f"{model.name} {' and '.join(parts)}." if parts else ""


def _among(scenes: list[str], declared: list[str]) -> list[str]:
    """Returns the scenes that are declared, by either of their names or by their dataset's."""
    seen = []
    for scene in scenes:
        other = _OTHER_NAMES.get(scene)
        if scene in declared or scene.split("/")[0] in declared:
            seen.append(scene)
        elif other and (other in declared or other.split("/")[0] in declared):
            seen.append(f"{scene} (the images of {other})")
    return seen
