"""Tables in Markdown, HTML and plain text."""

import dataclasses
import html
from collections.abc import Callable, Mapping
from typing import Any

_WIDEST = 60  # characters of a name in a table for a terminal


@dataclasses.dataclass(frozen=True)
class Table:
    """Values by row and column.

    Attributes:
        rows: Row → column → value; a row may lack columns.
        head: Heading of the column of row names.
        format_value: Turns a value into text.
        title: What the table shows.
    """

    rows: Mapping[str, Mapping[str, Any]]
    head: str = "model"
    format_value: Callable[[Any], str] = str
    title: str = ""

    def cells(self) -> list[list[str]]:
        """Returns the headings and the rows as text."""
        columns = list(dict.fromkeys(column for row in self.rows.values() for column in row))
        return [
            [self.head, *columns],
            *(
                [name, *(self.format_value(row[key]) if key in row else "" for key in columns)]
                for name, row in self.rows.items()
            ),
        ]

    def markdown(self) -> str:
        """Returns the table in Markdown."""
        head, *rows = self.cells()
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self) -> str:
        """Returns the table in HTML."""
        lines = []
        for tag, line in zip(["th", *["td"] * len(self.rows)], self.cells(), strict=True):
            lines.append("".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line))
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"

    def text(self) -> str:
        """Returns the table for a terminal: names flush left, long ones cut, values right."""
        lines = [[_end(name), *values] for name, *values in self.cells()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                [line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])],
            )
            for line in lines
        )


def _end(name: str) -> str:
    return name if len(name) <= _WIDEST else f"…{name[1 - _WIDEST :]}"


def percent(share: float) -> str:
    """Formats a share as a percentage with two decimals, without the sign."""
    return f"{100 * share:.2f}"


def score_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Returns scores by descriptor as a table for a terminal."""
    named = {
        name: {_heading(score): value for score, value in scores.items()}
        for name, scores in rows.items()
    }
    return Table(named, "", "{:.3f}".format).text()


def _heading(score: str) -> str:
    """The conventional spelling of a score's name, such as `matching mAP easy`."""
    return score.replace("_", " ").replace("map", "mAP").replace("fpr", "FPR")
