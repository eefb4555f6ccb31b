"""The progress bar of long work: one style, and none where the output is not a terminal."""

from typing import Any

import tqdm


def progress(items: Any = None, title: str = "", **options: Any) -> tqdm.tqdm:
    """Gives `items` one by one and shows how far they are; without items, call its `update`.

    Args:
        items: What is worked through, or None.
        title: Stands before the bar.
        **options: Those of `tqdm.tqdm`, such as `total` and `unit`.
    """
    # None: tqdm itself finds out whether the output is a terminal.
    return tqdm.tqdm(items, title, **{"disable": None, **options})
