"""Networks by name: the table of what ships, and what others register.

Nothing is loaded here; `doap_tf.zoo` and `doap_tf.features` do that.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

from doap_tf.errors import InputError, check_choice

#: A descriptor describes patches, a detector finds keypoints, an extractor reads whole images and
#: does both, a matcher matches the features of two images.
KINDS = ("descriptor", "detector", "extractor", "matcher")

#: Terms of use of the data that networks are trained on, as far as their sources state any.
TERMS = {
    "bsds500": "non-commercial research and education",
    "urban100": "none stated; research data",
    "tilde": "none stated; research data",
    "ubc_phototour": "none stated; research data",
    "scenes": "none stated; published with software for reconstruction and view synthesis",
}

WEIGHTS = pathlib.Path(__file__).parent / "weights"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A network that has a name.

    Attributes:
        name: What `doap_tf.from_pretrained` takes.
        kind: One of `KINDS`.
        trained_on: Datasets of `TERMS`, as `DATASET` or `DATASET/SCENE`; None if not known.
        chosen_on: Scenes by which its recipe was chosen, or that were in view then.
        load: Makes what was registered; None for what ships, which is read from its files.
    """

    name: str
    kind: str
    trained_on: tuple[str, ...] | None = None
    chosen_on: tuple[str, ...] = ()
    load: Callable[[], Any] | None = None

    def file(self, suffix: str) -> pathlib.Path:
        """A file of a network that ships: `.npz`, `.keras` or `.tflite`; `.md` is its card."""
        return WEIGHTS / f"{self.name}{suffix}"

    @property
    def weights(self) -> pathlib.Path:
        """The Keras network of one that ships."""
        packed = self.file(".npz")
        return packed if packed.exists() else self.file(".keras")


_DESCRIPTORS = (
    *("doap-256b", "doap-st-128", "doap-st-256b"),
    *("doap-128-patch", "doap-256b-patch", "doap-st-128-patch"),
)
_APPEARANCE = (
    *("doap-128", "doap-mobile-256b"),
    *("doap-fast-128", "doap-fast-256b", "doap-tiny-256b"),
)
_PHOTOGRAPHS = ("bsds500", "urban100")
_WEBCAMS = tuple(
    f"tilde/{scene}" for scene in ("chamonix", "courbevoie", "frankfurt", "mexico", "stlouis")
)
_PATCHES = (*_PHOTOGRAPHS, *_WEBCAMS, "tilde/panorama", "ubc_phototour/notredame")
_SCENES = tuple(f"scenes/{scene}" for scene in ("et", "fern", "kermit", "lund", "sceaux"))
_VIEWS = (
    *_PHOTOGRAPHS,
    *(f"tilde/{scene}" for scene in ("courbevoie", "frankfurt", "mexico", "panorama")),
    *_SCENES,
)
_IN_VIEW = ("hpatches/v_wormhole", "hpatches/v_birdwoman", "oxford")

#: The descriptor of patches where none is named.
DEFAULT_DESCRIPTOR = "doap-fast-128"
#: What finds the keypoints of patches where nothing is named.
DEFAULT_DETECTOR = "doap-dense-small-256b"
#: What detects and describes in a pair of images where nothing is named.
DEFAULT_FOR_PAIRS = f"doap-dense-128+{DEFAULT_DESCRIPTOR}"

#: Everything that has a name: what ships, then what was registered.
ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        # Their teachers, not themselves, were trained on the webcams chamonix and stlouis.
        *(
            Entry(name, "descriptor", (*_PATCHES, *_SCENES, "scenes/fox"), _IN_VIEW)
            for name in _APPEARANCE
        ),
        *(Entry(name, "descriptor", _PATCHES, _IN_VIEW) for name in _DESCRIPTORS),
        Entry("doap-dense-128", "extractor", (*_VIEWS, "scenes/fox")),
        Entry("doap-dense-256b", "extractor", (*_VIEWS, "scenes/fox")),
        Entry("doap-dense-small-256b", "extractor", _VIEWS),
        Entry("learned", "detector", (*_PHOTOGRAPHS, *_WEBCAMS), _IN_VIEW),
    )
}


def list_pretrained(kind: str = "descriptor") -> list[str]:
    """Names of the networks of a kind, one of `doap_tf.zoo.KINDS`, that ship or are registered."""
    check_choice("kind", kind, KINDS)
    return sorted(name for name, entry in ENTRIES.items() if entry.kind == kind)


def register(
    name: str, kind: str, load: Callable[[], Any], trained_on: tuple[str, ...] | None = None
) -> None:
    """Makes a network of your own known by a name, wherever names of its kind are taken.

    Args:
        name: Any that does not ship; what it stood for before is replaced.
        kind: One of `KINDS`.
        load: Makes it, on first use.
        trained_on: See `Entry`.
    """
    list_pretrained(kind)  # checks it
    if name in ENTRIES and ENTRIES[name].load is None:
        raise InputError(f"{name} ships with doap_tf: choose another name.")
    ENTRIES[name] = Entry(name, kind, trained_on, load=functools.cache(load))


def registered(name: Any, kind: str) -> Any:
    """Returns what is registered by this name and kind; anything else as it is."""
    entry = ENTRIES.get(name) if isinstance(name, str) else None
    return entry.load() if entry and entry.load and entry.kind == kind else name
