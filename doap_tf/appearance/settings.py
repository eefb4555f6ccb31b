"""Which changes of appearance views get, how often and how strongly."""

import dataclasses

from doap_tf.errors import InputError, check_choice

#: Effects of another season, light, age or sensor, in their order.
SCENE_EFFECTS = ("random_convolution", "tone_curve", "negative", "light_field", "shadow")
#: Effects of a camera, in their order; they follow those of the scene.
CAMERA_EFFECTS = ("blur", "exposure", "noise", "jpeg")


@dataclasses.dataclass(frozen=True)
class Effect:
    """How often an effect is applied, and how strongly.

    Attributes:
        probability: in [0, 1].
        strength: in [0, 1]; 1 is the full range that `Appearance` gives, 0 no effect.
    """

    probability: float = 1.0
    strength: float = 1.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 0 <= value <= 1:
                raise InputError(f"{name} of an effect must be in [0, 1], not {value}.")


NEVER = Effect(0.0)


@dataclasses.dataclass(frozen=True)
class Appearance:
    """Settings of all effects. Those of the scene come first, on a share of the views.

    Attributes:
        share: of the views that get effects of the scene, each with its own probability.
        random_convolution: two layers of random weights, 5×5 to four channels and 3×3, mixed in by
            a share of up to the strength.
        tone_curve: a curve of four random steps, mixed in by a share of up to the strength.
        falling: share of these steps that fall.
        negative: light and dark exchanged; its strength has no meaning.
        light_field: light that varies smoothly, by factors whose logarithm has the standard
            deviation 0.5.
        shadow: a half plane with a soft edge, darker by a fifth to 85 %.
        blur: Gaussian, σ from 0.5 to 2.5 pixels.
        exposure: gamma from 0.55 to 1.8, contrast from 0.4 to 1.6 and brightness, whose standard
            deviation is 35 grey levels.
        noise: Gaussian, σ from 1 to 12 grey levels.
        jpeg: compression at a quality from 90 down to 15; not on views that TensorFlow makes.
    """

    share: float = 0.6
    random_convolution: Effect = Effect(0.5)
    tone_curve: Effect = Effect(0.5)
    falling: float = 0.12
    negative: Effect = Effect(0.06)
    light_field: Effect = Effect(0.5)
    shadow: Effect = Effect(0.3)
    blur: Effect = Effect(0.4)
    exposure: Effect = Effect()
    noise: Effect = Effect(0.5)
    jpeg: Effect = Effect(0.5)

    def __post_init__(self) -> None:
        for name in ("share", "falling"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must be in [0, 1], not {getattr(self, name)}.")

    @classmethod
    def only(cls, **effects: Effect) -> "Appearance":
        """Returns settings with the named effects and no others; `only()` changes nothing."""
        names = dict.fromkeys((*SCENE_EFFECTS, *CAMERA_EFFECTS), NEVER)
        return cls(share=1.0, **(names | effects))  # type: ignore[arg-type]

    def of_scene(self) -> "Appearance":
        """Returns these settings without the effects of a camera."""
        never = dict.fromkeys(CAMERA_EFFECTS, NEVER)
        return dataclasses.replace(self, **never)  # type: ignore[arg-type]

    def probabilities(self, names: tuple[str, ...]) -> dict[str, float]:
        """Returns the probabilities of those of the named effects that can occur at all."""
        effects: dict[str, Effect] = {name: getattr(self, name) for name in names}
        scale = {name: self.share if name in SCENE_EFFECTS else 1.0 for name in names}
        return {
            name: effect.probability
            for name, effect in effects.items()
            if effect.probability * effect.strength * scale[name] > 0
        }


#: Settings by name: what a camera does; changes of light as well; all effects.
PRESETS = {
    "camera": Appearance(share=0.0),
    "light": Appearance(random_convolution=NEVER, negative=NEVER, falling=0.0),
    "strong": Appearance(),
}


def preset(name: str) -> Appearance:
    """Returns the settings of a name."""
    check_choice("appearance", name, PRESETS)
    return PRESETS[name]
