"""TFDS builders by name, from the folder `datasets/`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doap_tf.errors import InputError, suggestion

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


def builder_names() -> list[str]:
    """Returns the names that `builder` knows, sorted."""
    from doap_tf import datasets  # only now, because it imports TFDS

    return datasets.builder_names()


def builder_class(name: str) -> Any:
    """Returns the class of the TFDS builder `name`; TFDS is imported here and not before."""
    if name not in builder_names():
        raise InputError(
            f"unknown dataset {name!r}; known are {', '.join(builder_names())}."
            f"{suggestion(name, builder_names())}"
        )
    import tensorflow_datasets as tfds

    return tfds.builder_cls(name)


def builder(name: str, **kwargs: Any) -> tfds.core.DatasetBuilder:
    """Returns the TFDS builder `name`.

    Args:
        name: One of `builder_names()`.
        **kwargs: Passed to the builder: `config`, `data_dir`, and `source`, the folder or archive
            with the original files. Without `source` they are looked for in TFDS's manual folder,
            then downloaded.

    Example:
        >>> notredame = builder("ubc_phototour", config="notredame", source="~/data/notredame")
        >>> notredame.download_and_prepare()
    """
    return builder_class(name)(**kwargs)
