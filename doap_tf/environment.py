"""What a measurement ran on and with: machine, packages, revision of the code."""

import os
import pathlib
import platform
import subprocess
import sys
from typing import Any

from doap_tf.parallel import cores
from doap_tf.version import __version__

_PACKAGES = ("numpy", "cv2", "tensorflow", "keras", "tensorflow_datasets")


def environment() -> dict[str, Any]:
    """Returns the machine, the versions of the packages that are loaded, and the git revision."""
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
        "devices": _gpus() or ["CPU"],
        "packages": {"doap_tf": __version__, **{k: v for k, v in versions.items() if v}},
        "git_revision": git_revision(),
    }


def git_revision() -> str | None:
    """Returns the revision of the code, from $DOAP_TF_REVISION or the checkout; None without."""
    checkout = pathlib.Path(__file__).parents[1]
    told = os.environ.get("DOAP_TF_REVISION")
    if told or not (checkout / ".git").exists():
        return told or None
    try:
        shown = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shown.stdout.strip() or None


def _gpus() -> list[str]:
    """Names of the GPUs that TensorFlow sees, if it is loaded."""
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return []
    return [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
