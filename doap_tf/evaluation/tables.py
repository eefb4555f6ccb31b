"""Tables that compare models on one benchmark."""

import dataclasses
from collections.abc import Mapping, Sequence

from doap_tf.evaluation.hpatches.patch_sequences import LEVELS
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.ubc import train_test_scores


@dataclasses.dataclass(frozen=True)
class Table:
    """Shares by model and column.

    Attributes:
        title: What the table shows.
        rows: Model → column → share; columns may be missing from a row.
    """

    title: str
    rows: Mapping[str, Mapping[str, float]]

    @property
    def columns(self) -> list[str]:
        """All columns of any row, in the order they first occur."""
        return list(dict.fromkeys(column for row in self.rows.values() for column in row))

    def cells(self) -> list[list[str]]:
        """The head and the rows as text, shares in percent."""
        return [
            ["model", *self.columns],
            *(
                [model, *(f"{100 * row[name]:.2f}" if name in row else "" for name in self.columns)]
                for model, row in self.rows.items()
            ),
        ]

    def markdown(self) -> str:
        """The table in Markdown."""
        head, *rows = self.cells()
        lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison_tables(results: Sequence[Result]) -> list[Table]:
    """The summary of results on one benchmark, then what papers show in more detail."""
    tables = [Table("Summary", {result.model.name: result.summary for result in results})]
    if results[0].benchmark == "ubc":
        tables.append(Table("FPR95 by training and test set", train_test_scores(results)))
    details = {result.model.name: _details(result) for result in results}
    for title in dict.fromkeys(title for one in details.values() for title in one):
        rows = {model: one[title] for model, one in details.items() if title in one}
        tables.append(Table(title, rows))
    return tables


def _details(result: Result) -> dict[str, dict[str, float]]:
    """Columns of further tables, by title."""
    scores = result.scores
    details: dict[str, dict[str, float]] = {}
    if "verification" in scores:
        for key, title in (("imbalanced_ap", "imbalanced, AP"), ("balanced_auc", "balanced, AUC")):
            details[f"Verification, {title}"] = {
                f"{level}, {kind.replace('_', ' ')}": values[key]
                for level in LEVELS
                for kind, values in scores["verification"][level].items()
            }
    if "matching" in scores:
        by_level = {level: dict(scores["matching"][level]) for level in LEVELS}
        for values in by_level.values():
            del values["sequences"]
        both_kinds = all(len(values) > 2 for values in by_level.values())
        details["Matching, mAP"] = {
            level if kind == "mean" else f"{level}, {kind}": value
            for level, values in by_level.items()
            for kind, value in values.items()
            if kind == "mean" or both_kinds
        }
    if "retrieval" in scores:
        details["Retrieval, mAP by size of the pool"] = {
            f"{level}, {pool}": value
            for level in LEVELS
            for pool, value in scores["retrieval"][level].items()
        }
    if result.benchmark == "oxford":
        for detector, sequences in scores.items():
            details[f"{detector}, mAP over five pairs"] = {
                name: values["mean"] for name, values in sequences.items() if name != "mean"
            }
    return details
