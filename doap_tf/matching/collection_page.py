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

    These are the pairs with the most inliers, those with the fewest, and pairs without a model.

    Args:
        path: The file; the pictures are inside it.
        store: Holds the features and matches.
        images: Paths by name.
        report: The result of `collection_report`.
        links: Files beside the page to link.
    """
    settings, pairs = report["settings"], report["pairs"]
    ranked = sorted(pairs, key=lambda pair: (pair["inliers"], pair["matches"]), reverse=True)
    # If no geometry was asked for, every match is an inlier.
    geometry = settings["geometry"]
    counts = ("matches", "inliers") if geometry else ("matches",)
    verified = [pair for pair in ranked if pair["model"] or not geometry]
    failed = [pair for pair in ranked if geometry and not pair["model"]]
    shown = {
        f"Most {counts[-1]}": verified[:_SHOWN],
        f"Fewest {counts[-1]}": verified[_SHOWN:][-_SHOWN:],
        f"No {geometry} found": failed[-_SHOWN:],
    }
    elements = [
        '<p class="quiet">' + html.escape(_in_words(settings)) + "</p>",
        "<p>" + " · ".join(f'<a href="{link}">{link}</a>' for link in links) + "</p>",
    ]
    for heading, chosen in shown.items():
        if chosen:
            elements.append(f"<h2>{heading}</h2>")
        elements += [_figure(store, images, pair, geometry) for pair in chosen]
    tables = {
        "Pairs": {_title(pair): {name: pair[name] for name in counts} for pair in ranked},
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
    store: MatchStore,
    images: Mapping[str, str | os.PathLike],
    pair: Mapping[str, Any],
    geometry: str | None,
) -> str:
    name1, name2 = pair["image1"], pair["image2"]
    indices, scores, inliers, model = store.read_pair(name1, name2)
    features1, features2 = (store.read_features(name) for name in (name1, name2))
    residuals = np.zeros(len(indices))  # which are not drawn
    matches = PairMatches(
        features1, features2, indices, scores, None, geometry, model, inliers, residuals
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
            f"{settings['geometry']} by {settings['estimator']} within {settings['threshold']:g} "
            "pixels"
        )
    return ", ".join(words)


def _form(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,}"
