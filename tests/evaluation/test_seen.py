"""What models have seen of a benchmark's scenes."""

import pytest

from doap_tf.evaluation import Model, load_model
from doap_tf.evaluation.seen import image_sequence, what_was_seen


@pytest.fixture(scope="module")
def shipped():
    return load_model("doap-tiny-256b")


def test_scenes_in_view_are_named_by_both_names(shipped):
    line = what_was_seen(shipped, ["hpatches/i_dome", "hpatches/v_birdwoman", "hpatches/v_boat"])
    assert line == (
        "doap-tiny-256b was chosen with a view to hpatches/v_birdwoman, "
        "hpatches/v_boat (the images of oxford/boat)."
    )
    assert what_was_seen(shipped, ["hpatches/i_dome"]) == ""


def test_training_and_choice_are_told_apart(shipped):
    line = what_was_seen(shipped, ["ubc_phototour/notredame", "oxford/graf"])
    assert line == (
        "doap-tiny-256b was trained on ubc_phototour/notredame and was chosen with a view to "
        "oxford/graf."
    )


def test_images_of_the_other_benchmark_count():
    model = Model("mine", object(), {"data": "hpatches/v_graffiti"})
    line = what_was_seen(model, map(image_sequence, ["graf", "bikes", "v_wall"]))
    assert line == "mine was trained on oxford/graf (the images of hpatches/v_graffiti)."


def test_handcrafted_descriptors_have_seen_nothing_and_unknown_networks_may_have():
    assert what_was_seen(load_model("rootsift"), ["oxford/graf"]) == ""
    assert "not known" in what_was_seen(Model("mystery", object()), ["oxford/graf"])
