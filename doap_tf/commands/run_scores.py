"""What commands that train print before and after a run."""

import pathlib
from collections.abc import Mapping
from typing import Any

from doap_tf import runs


def print_data(train: Any, validation: Any) -> None:
    """Prints what is trained and, if anything, validated on."""
    chosen = f"validating on {validation}"
    if not validation:
        chosen = "without validation: the last network is kept"
    print(f"training on {train}, {chosen}", flush=True)


def print_scores(
    folder: pathlib.Path,
    data: str,
    remedy: str,
    baselines: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Prints the validation scores of the untrained network, of baselines and of the best one.

    `data` says what they were measured on, `remedy` what may help if none was better.
    """
    from doap_tf.drawing.tables import score_table

    record = runs.read_record(folder)
    best = dict(record["best"])
    step = best.pop("step")
    rows = {"untrained": record["history"][0]["validation"], **(baselines or {})}
    rows[f"trained ({step} steps)"] = best
    print(f"\nOn {data}:\n{score_table(rows)}")
    if step == 0:
        print(f"\nNo validation was better than the untrained network: train longer, or {remedy}.")
