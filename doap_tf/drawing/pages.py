"""Web pages in one look, light or dark as the reader's browser is set."""

import base64
import html
from collections.abc import Sequence

import numpy as np

from doap_tf.drawing.pictures import encode_jpeg

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em;
       color: light-dark(#1c2733, #e3e6ea); background: light-dark(#ffffff, #16181d); }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; display: block; overflow-x: auto; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid light-dark(#d5dce4, #3a424c);
         text-align: right; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
figure { margin: 0 0 1.5em; }
pre { background: light-dark(#f3f5f8, #22262d); padding: 1em; overflow-x: auto; }
.quiet, figcaption { color: light-dark(#52616f, #9aa5b1); }
"""


def web_page(title: str, parts: Sequence[str]) -> str:
    """Returns a page that needs nothing from elsewhere.

    Args:
        title: Plain text: the page's title and first heading.
        parts: HTML below the heading.
    """
    title, body = html.escape(title), "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def figure(picture: np.ndarray, caption: str) -> str:
    """Returns HTML that holds a picture itself, as JPEG, above its caption in plain text."""
    caption = html.escape(caption)
    data = base64.b64encode(encode_jpeg(picture)).decode()
    return (
        f'<figure><img src="data:image/jpeg;base64,{data}" alt="{caption}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
