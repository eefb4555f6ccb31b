"""A page that shows what was matched in a collection of images."""

import html
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from doap_tf.drawing.matches import draw_matches
from doap_tf.drawing.pages import figure, web_page
from doap_tf.drawing.tables import Table
from doap_tf.files import write_atomically
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.verifier import PairMatches
from doap_tf.readers.images import read_image

_SHOWN = 6  # pairs of each kind that are drawn
_BOX = 450, 340  # pixels into which a drawn image is fitted
_LINES = 80
_ROWS = 1000  # of a table


def write_collection_page(
    path: str | os.PathLike,
    store: MatchStore,
    images: Mapping[str, str | os.PathLike],
    report: Mapping[str, Any],
    links: Sequence[str] = (),
) -> None:
    """Writes images, pairs and failures as a web page, with pictures of a few pairs.

    These are the reliable pairs with the most inliers, those with the fewest, and pairs without a
    reliable match.

    Args:
        path: The file; the pictures are inside it.
        store: Holds the features and matches.
        images: Paths by name.
        report: The result of `collection_report`.
        links: Files beside the page to link.
    """
    settings, pairs = report["settings"], report["pairs"]
    columns: tuple[str, ...] = ("matches",)
    if settings["geometry"]:
        columns += ("inliers", "geometry", "reliable")
    counts = columns[1::-1]
    ranked = sorted(pairs, key=lambda pair: [pair[name] for name in counts], reverse=True)
    matched = [pair for pair in ranked if pair.get("reliable", True)]
    shown = {
        f"Most {counts[0]}": matched[:_SHOWN],
        f"Fewest {counts[0]}": matched[_SHOWN:][-_SHOWN:],
        "No reliable match": [pair for pair in ranked if not pair.get("reliable", True)][-_SHOWN:],
    }
    elements = [
        '<p class="quiet">' + html.escape(_in_words(settings)) + "</p>",
        "<p>" + " · ".join(f'<a href="{link}">{link}</a>' for link in links) + "</p>",
    ]
    for heading, chosen in shown.items():
        if chosen:
            elements.append(f"<h2>{heading}</h2>")
        elements += [_figure(store, images, pair) for pair in chosen]
    tables = {
        "Pairs": {_title(pair): {name: pair[name] for name in columns} for pair in ranked},
        "Images": {name: {"keypoints": count} for name, count in report["images"].items()},
        "Failures": {name: {"reason": reason} for name, reason in report["failures"].items()}
        | {_title(pair): {"reason": pair["reason"]} for pair in report["failed_pairs"]},
    }
    for heading, rows in tables.items():
        if rows:
            first = dict(list(rows.items())[:_ROWS])
            elements += [f"<h2>{heading}</h2>", Table(first, "", _form).html()]
        if len(rows) > _ROWS:
            elements.append(f'<p class="quiet">The first {_ROWS:,} of {len(rows):,}.</p>')
    with write_atomically(path) as temporary:
        title = f"Matches of {len(report['images']):,} images"
        temporary.write_text(web_page(title, elements), "utf-8")


def _figure(
    store: MatchStore, images: Mapping[str, str | os.PathLike], pair: Mapping[str, Any]
) -> str:
    name1, name2 = pair["image1"], pair["image2"]
    stored = store.read_pair(name1, name2)
    features1, features2 = (store.read_features(name) for name in (name1, name2))
    matches = PairMatches(
        features1,
        features2,
        distances=None,
        residuals=np.zeros(len(stored.indices)),  # which are not drawn
        **stored._asdict(),
    )
    image1, image2 = (read_image(images[name], upright=False) for name in (name1, name2))
    return figure(draw_matches(image1, image2, matches, "", _LINES, _BOX), _title(pair))


def _title(pair: Mapping[str, Any]) -> str:
    return f"{pair['image1']} – {pair['image2']}"


def _in_words(settings: Mapping[str, Any]) -> str:
    words = [settings["descriptor"], settings["method"]]
    if "detector" in settings:
        words[0] += f" at {settings['detector']} keypoints"
    if settings["geometry"]:
        words.append(
            f"{settings['geometry']} geometry by {settings['estimator']} within "
            f"{settings['threshold']:g} pixels"
        )
    return ", ".join(words)


def _form(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:,}"
