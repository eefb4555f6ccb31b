"""What a run was made with: versions, devices and git revision."""

import pathlib
import platform
import subprocess
from importlib import metadata
from typing import Any

_PACKAGES = ("doap_tf", "tensorflow", "keras", "numpy", "tensorflow-datasets")


def environment() -> dict[str, Any]:
    """Returns versions, devices and git revision."""
    import tensorflow as tf

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "devices": [
            tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
            for gpu in tf.config.list_physical_devices("GPU")
        ]
        or ["CPU"],
        "packages": {name: _version(name) for name in _PACKAGES},
        "git_revision": _git_revision(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    here = pathlib.Path(__file__).parent
    try:
        shown = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shown.stdout.strip() or None
