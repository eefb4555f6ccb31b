import io
import sys

from doap_tf import progress


def test_without_a_terminal_there_are_lines_and_none_for_short_work(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(progress.progress(range(3), "describing")) == [0, 1, 2]
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "_SECONDS", 0)
    with progress.progress(title="training", total=2) as bar:
        bar.set_postfix({"loss": "0.5"}, refresh=False)
        bar.update()
    assert "training: 1 of 2 after 00:00, 00:00 left, loss=0.5\n" in stream.getvalue()
    assert "\r" not in stream.getvalue()
