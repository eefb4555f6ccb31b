"""Names of a package that are imported on first use."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Gives a package's `__getattr__` and `__dir__`.

    Args:
        package: Its `__name__`.
        homes: The module that defines each name.

    Example:
        >>> __getattr__, __dir__ = lazy_names(__name__, {"Descriptor": "doap_tf.descriptors"})
    """

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return resolve, lambda: sorted(sys.modules[package].__all__)
