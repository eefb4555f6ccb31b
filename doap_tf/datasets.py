"""The package of TFDS builders: the folder `datasets/`, wherever this copy of doap_tf keeps it.

A wheel holds the folder inside `doap_tf`; a clone and an editable install have it beside `doap_tf`.
The folder itself has no `__init__.py`: as a package of its own it would register every builder a
second time, and on the path it would shadow Hugging Face's `datasets`.
"""

import pathlib

_here = pathlib.Path(__file__).resolve().parent
_installed = _here / "datasets"

__path__ = [str(_installed if _installed.is_dir() else _here.parent / "datasets")]
