"""The flags of commands that train, made from the settings of the run."""

import pathlib
from typing import Any, TypeVar

from absl import flags, logging

from doap_tf.commands.recipes import define_recipe_flags
from doap_tf.errors import InputError
from doap_tf.training.config import RunConfig, offered_settings

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # --help lists them with the flags of the command

Config = TypeVar("Config", bound=RunConfig)
_DEFINITIONS: dict[Any, Any] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def define_config_flags(config: type[RunConfig]) -> None:
    """Defines a flag for every setting of a run, and --strategy, --train_dir and --recipe."""
    define_recipe_flags()
    for field, declared in offered_settings(config):
        text, choices = declared["help"], declared["choices"]
        if choices:
            text += f" One of {', '.join(choices)}."
        default: Any = None if declared["automatic"] else field.default
        if field.type in _DEFINITIONS:
            _DEFINITIONS[field.type](field.name, default, text)
        else:  # a tuple of whole numbers
            flags.DEFINE_list(field.name, [str(value) for value in default], text)
    flags.DEFINE_string(
        "strategy", "auto", "auto, none, mirrored or multi_worker (with TF_CONFIG)."
    )
    flags.DEFINE_string("train_dir", None, "Where the run is written, and resumed from.")


def config_from_flags(config: type[Config], **automatic: Any) -> Config:
    """Returns the settings that the flags give.

    Args:
        config: Whose flags are defined.
        **automatic: Values of settings that have no flag, or whose flag is not given.
    """
    given = {}
    for field, _ in offered_settings(config):
        value = FLAGS[field.name].value
        if isinstance(value, list):
            try:
                value = tuple(map(int, value))
            except ValueError as error:
                raise InputError(
                    f"--{field.name} must be whole numbers such as 16,16, not {','.join(value)}."
                ) from error
        if value is not None:
            given[field.name] = value
    return config(**automatic | given)


def load_network(flag: str, name: str, kind: str) -> Any:
    """Loads the network that a flag names, of a class of `doap_tf.networks`."""
    from doap_tf import networks
    from doap_tf.zoo import load_keras

    try:
        return load_keras(name, getattr(networks, kind))
    except InputError as error:
        raise InputError(f"--{flag}: {error}") from error


def load_initial(config: RunConfig, kind: str) -> list[Any]:
    """Loads the networks that a run starts from."""
    return [load_network("initial", name, kind) for name in config.initial_networks]


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if FLAGS.xla and not gpus:
        logging.warning("--xla without a GPU makes steps slower.")
    return bool(gpus)


def train_dir() -> pathlib.Path:
    """Returns --train_dir, which is required."""
    if not FLAGS.train_dir:
        raise InputError("give --train_dir, the folder to write the run to.")
    return pathlib.Path(FLAGS.train_dir)
