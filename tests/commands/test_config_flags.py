import dataclasses

import pytest
from absl import flags
from absl.testing import flagsaver

from doap_tf.commands.config_flags import config_from_flags, define_config_flags
from doap_tf.errors import InputError
from doap_tf.training.config import RunConfig, setting


@dataclasses.dataclass(frozen=True)
class Config(RunConfig):
    batch_size: int = setting(8, "Examples.")
    steps: int = setting(9, "Updates.")
    learning_rate: float = setting(0.1, "Of SGD.")
    sizes: tuple[int, ...] = setting((3, 4), "Sides.")
    colour: str = setting("red", "Hue.", ("red", "blue"))
    momentum: float = 0.9
    warmup: float = 0.25


def parsed(*arguments, **automatic):
    with flagsaver.flagsaver():
        define_config_flags(Config)
        flags.FLAGS(["command", *arguments])
        return config_from_flags(Config, **automatic)


def test_flags_have_the_names_and_defaults_of_the_settings():
    assert parsed() == Config()
    given = ("--batch_size=2", "--sizes=5,6,7", "--colour=blue", "--xla", "--warmup=0.5")
    assert parsed(*given) == Config(
        batch_size=2, sizes=(5, 6, 7), colour="blue", xla=True, warmup=0.5
    )


def test_a_command_chooses_what_is_not_given():
    assert parsed(xla=True, momentum=0.5) == Config(xla=True, momentum=0.5)
    assert parsed("--noxla", xla=True) == Config(xla=False)


def test_a_changed_default_keeps_the_help_text():
    with flagsaver.flagsaver():
        define_config_flags(Config)
        assert flags.FLAGS["warmup"].help.startswith("Share of the run")
        assert flags.FLAGS["colour"].help == "Hue. One of red, blue."
        assert "momentum" not in flags.FLAGS


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--sizes=3,many", "--sizes must be whole numbers such as 16,16, not 3,many"),
        ("--colour=green", "colour must be one of red, blue, not 'green'"),
    ],
)
def test_bad_values_are_refused(argument, message):
    with pytest.raises(InputError, match=message):
        parsed(argument)
