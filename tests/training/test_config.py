import dataclasses

from doap_tf.training.config import TrainingConfig, incompatibility

CONFIG = TrainingConfig(batch_size=64)


def test_a_run_resumes_with_the_same_settings():
    before = dataclasses.asdict(CONFIG)
    assert incompatibility(CONFIG, before) is None
    assert incompatibility(CONFIG, before | {"log_every": 7}) is None
    changed = incompatibility(CONFIG, before | {"batch_size": 32})
    assert changed == "batch_size was 32 and is 64 now"


def test_a_setting_that_is_newer_than_the_run_had_its_default():
    before = dataclasses.asdict(CONFIG)
    del before["clip_norm"]
    assert incompatibility(CONFIG, before) is None
    clipped = dataclasses.replace(CONFIG, clip_norm=1.0)
    assert incompatibility(clipped, before) == "clip_norm was 0.0 and is 1.0 now"
