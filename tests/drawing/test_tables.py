import re

from doap_tf.drawing.tables import Table, percent, score_table

TABLE = Table({"a": {"x": 0.5}, "bb": {"y & z": 1.0}}, format_value=percent)


def test_missing_values_are_empty():
    assert TABLE.cells() == [["model", "x", "y & z"], ["a", "50.00", ""], ["bb", "", "100.00"]]


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "| model | x | y & z |",
        "| --- | ---: | ---: |",
        "| a | 50.00 |  |",
        "| bb |  | 100.00 |",
    ]


def test_html_is_escaped():
    assert TABLE.html().startswith("<table><tr><th>model</th><th>x</th><th>y &amp; z</th></tr>")
    assert TABLE.html().endswith("<tr><td>bb</td><td></td><td>100.00</td></tr></table>")


def test_text_is_aligned():
    assert TABLE.text().splitlines() == [
        "model      x   y & z",
        "a      50.00        ",
        "bb            100.00",
    ]
    assert score_table({"m": {"matching_map": 0.25}}).splitlines() == [
        "   matching mAP",
        "m         0.250",
    ]


def test_long_names_are_cut_in_a_terminal_only():
    table = Table({"photographs/" * 8 + "a.jpg": {"matches": 1}}, "")
    assert re.fullmatch(r"…[a-z/]{54}a\.jpg +1", table.text().splitlines()[1])
    assert "…" not in table.markdown()
