from doap_tf import environment


def test_the_revision_is_told_or_that_of_the_checkout(monkeypatch, tmp_path):
    monkeypatch.setenv("DOAP_TF_REVISION", "abc123")
    assert environment.environment()["git_revision"] == "abc123"
    monkeypatch.delenv("DOAP_TF_REVISION")
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "doap_tf" / "environment.py"))
    assert environment.git_revision() is None


def test_versions_are_those_of_what_is_loaded():
    import numpy as np

    from doap_tf.version import __version__

    packages = environment.environment()["packages"]
    assert packages["doap_tf"] == __version__ and packages["numpy"] == np.__version__
