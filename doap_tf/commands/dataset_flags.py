"""The flags that train_main.py and prepare_main.py share: which dataset, and from where."""

from typing import TYPE_CHECKING, Any

from absl import flags

if TYPE_CHECKING:
    from doap_tf.data.preparation import DatasetSource

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # --help lists them with the flags of the command


def define_dataset_flags(default: str | None) -> None:
    """Defines --dataset and what it needs, as flags of the calling module."""
    flags.DEFINE_string("dataset", default, "A name of datasets/, such as photo_patches.")
    flags.DEFINE_string(
        "source",
        None,
        "Folder or glob of photographs, scikit-image's by default; folder or archive of published "
        "files; folder of a reconstruction, with images/ and sparse/0/.",
    )
    flags.DEFINE_string(
        "kind",
        None,
        "Of photographs: photos (default), aligned (webcams) or sequences (with homographies).",
    )
    flags.DEFINE_string(
        "config",
        None,
        "Scene of UBC PhotoTour: liberty, notredame or yosemite; places in reconstructions: "
        "observed or projected.",
    )
    flags.DEFINE_string("split", None, "Split of HPatches to train on: a (default), b, c or all.")
    flags.DEFINE_string(
        "data_dir", None, "Where prepared datasets are kept; TFDS's folder by default."
    )


def dataset_source(*more: str, **settings: Any) -> "DatasetSource":
    """Returns the dataset that the flags name.

    Args:
        *more: Other flags that are options of the dataset where they are given.
        **settings: Of `DatasetSource`.
    """
    from doap_tf.data.preparation import DatasetSource

    values = {name: FLAGS[name].value for name in ("source", "kind", "config", "split", *more)}
    options = {name: value for name, value in values.items() if value is not None}
    return DatasetSource(FLAGS.dataset, options, FLAGS.data_dir, **settings)


def print_default_photographs() -> None:
    """Prints a line if the photographs are those of scikit-image, because none were given."""
    dataset = FLAGS.get_flag_value("dataset", None)
    if dataset in (None, "photo_patches") and FLAGS.source is None:
        print(
            "photographs: those of scikit-image; --source=FOLDER_OR_GLOB takes your own", flush=True
        )
