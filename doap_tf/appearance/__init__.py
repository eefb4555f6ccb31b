"""Changes of appearance: what season, light, age and sensor do to a view, for training."""

from doap_tf.appearance.settings import PRESETS, Appearance, Effect, preset

__all__ = ["PRESETS", "Appearance", "Effect", "preset"]
