"""The package of TFDS builders: the folder `datasets/`, wherever this copy of doap_tf keeps it.

Importing it makes the builders known to TFDS: `tfds.load("rome_patches")` finds them by name and
imports the one that is asked for.

A wheel holds the folder inside `doap_tf`; a clone and an editable install have it beside `doap_tf`.
The folder itself has no `__init__.py`: as a package of its own it would register every builder a
second time, and on the path it would shadow Hugging Face's `datasets`.
"""

import importlib
import pathlib
from typing import Any

from tensorflow_datasets.core import registered

_here = pathlib.Path(__file__).resolve().parent
_installed = _here / "datasets"

__path__ = [str(_installed if _installed.is_dir() else _here.parent / "datasets")]


def builder_names() -> list[str]:
    """Returns the names of the builders, sorted."""
    return sorted(
        module.parent.name
        for folder in __path__
        for module in pathlib.Path(folder).glob("*/*_dataset_builder.py")
    )


class _Provider:
    """What TFDS asks for a builder that it does not know."""

    def has_dataset(self, name: str) -> bool:
        return name in builder_names()

    def get_builder_cls(self, name: str) -> Any:
        return importlib.import_module(f"{__name__}.{name}.{name}_dataset_builder").Builder


# First, because TFDS imports all of its own builders before it asks the next provider.
registered.add_dataset_builder_provider(_Provider(), index=0)
