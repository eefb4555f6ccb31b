import os
import pathlib
import tempfile

import numpy as np
import pytest

from doap_tf.data import PatchGroups


@pytest.fixture
def make_groups():
    """Makes patch groups of the given sizes, with random patches and rows in random order."""

    def make(sizes, sequences=None, side=8, shuffle=True):
        rng = np.random.default_rng(0)
        group = np.repeat(np.arange(len(sizes)), sizes)
        if shuffle:
            group = rng.permutation(group)
        patches = rng.integers(0, 256, [len(group), side, side], np.uint8)
        if sequences is None:
            return PatchGroups.from_arrays(patches, group)
        names = [f"sequence{s}" for s in range(max(sequences) + 1)]
        return PatchGroups.from_arrays(patches, group, np.asarray(sequences)[group], names)

    return make


@pytest.fixture
def read_only_folder():
    """An empty folder that the process may not write to, even when the suite runs as root."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            os.seteuid(user)
            folder.chmod(0o755)


@pytest.fixture
def small_disk():
    """Makes writing more than so many bytes to a file fail, as on a full disk."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
