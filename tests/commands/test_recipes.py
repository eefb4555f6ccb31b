import pytest

from doap_tf.commands.recipes import expand_recipes, recipe_files
from doap_tf.errors import InputError


def test_every_recipe_belongs_to_one_command():
    assert recipe_files("train-dense").keys() == {"dense"}
    assert recipe_files("train-keypoints").keys() == {"keypoints"}
    assert {"photos", "quickstart", "ubc", "doap-128"} <= recipe_files("train").keys()


def test_names_and_flag_files_elsewhere_are_recipes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos = f"--flagfile={recipe_files('train')['photos']}"
    for given in (["--recipe=photos"], ["--recipe", "photos"], ["--flagfile=flags/photos.cfg"]):
        expanded = expand_recipes(["x", *given, "--steps=3"], "train")
        assert expanded == ["x", photos, "--steps=3"]
    (tmp_path / "flags").mkdir()
    (tmp_path / "flags/photos.cfg").touch()
    mine = ["x", "--flagfile=flags/photos.cfg"]
    assert expand_recipes(mine, "train") == mine


@pytest.mark.parametrize("argument", ["--recipes", "-recipes", "--recipes=true"])
def test_recipes_are_listed_in_one_line_each(argument, capsys):
    with pytest.raises(SystemExit) as end:
        expand_recipes(["x", argument], "train-dense")
    assert not end.value.code
    assert capsys.readouterr().out.startswith("dense  One network that reads the whole photograph")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--recipe=hpatchs", "one of colmap, .*'hpatchs'. Did you mean hpatches"),
        ("--recipe=keypoints", "keypoints is a recipe of doap-train-keypoints"),
        ("--flagfile=flags/photo.cfg", "photo.cfg does not exist.* quickstart, .*mean photos"),
    ],
)
def test_messages_name_the_recipes_that_exist(argument, message):
    with pytest.raises(InputError, match=message):
        expand_recipes(["x", argument], "train")
