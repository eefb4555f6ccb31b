"""The one table of what ships."""

import re

import pytest

from doap_tf import catalogue
from doap_tf.catalogue import ENTRIES, KINDS, TERMS
from doap_tf.errors import InputError


def test_the_table_and_the_files_agree():
    for name, entry in ENTRIES.items():
        assert (entry.name, entry.load) == (name, None) and entry.kind in KINDS
        assert entry.weights.exists()
        assert entry.file(".md").read_text().startswith(f"# {name}\n")
    files = {file.stem for file in catalogue.WEIGHTS.iterdir() if file.suffix != ".tflite"}
    assert files == set(ENTRIES)


def test_every_network_says_what_it_was_trained_on_and_its_card_agrees():
    cards = {"bsds500": "BSDS500", "urban100": "Urban100", "tilde": "TILDE", "notredame": "Notre"}
    cards["scenes"] = "scenes, none stated"
    for entry in ENTRIES.values():
        assert {scene.split("/")[0] for scene in entry.trained_on} <= set(TERMS)
        card = entry.file(".md").read_text()
        seen = "".join(entry.trained_on)
        assert [key in seen for key in cards] == [name in card for name in cards.values()]
        (terms,) = re.findall(r"^- \*\*Terms\*\* of the data: (.*)$", card, re.M)
        named = {"ubc_phototour": "UBC PhotoTour", **cards}
        datasets = {scene.split("/")[0] for scene in entry.trained_on}
        assert all(named[dataset] in terms for dataset in datasets)
        assert "bsds500" not in datasets or TERMS["bsds500"] in terms
    assert "ubc_phototour/notredame" in ENTRIES["doap-128"].trained_on
    assert "ubc_phototour/notredame" not in ENTRIES["learned"].trained_on


def test_bad_registrations_are_refused():
    with pytest.raises(InputError, match=r"kind must be one of descriptor, .*, not 'network'"):
        catalogue.register("mine", "network", object)
    with pytest.raises(InputError, match="doap-128 ships with doap_tf: choose another name"):
        catalogue.register("doap-128", "descriptor", object)
