"""The command that trains dense networks, as far as it can be seen without training."""

import subprocess
import sys

from doap_tf.commands import train_dense
from doap_tf.training.dense_images import load_images
from tests.training import launch

# What a machine that only trains need not have.
_ABSENT = "import sys; sys.modules.update(dict.fromkeys(('cv2', 'matplotlib', 'ai_edge_litert')))"


def run(*flags: str, before: str = "") -> subprocess.CompletedProcess:
    program = f"{before}\nfrom doap_tf.commands import train_dense; train_dense.run()"
    return subprocess.run(
        [sys.executable, "-c", program, *flags],
        capture_output=True,
        text=True,
        cwd=launch.REPOSITORY,
        timeout=300,
    )


def test_images_are_prepared_and_read_where_opencv_is_absent(tmp_path, capsys):
    photographs = launch.make_photographs(tmp_path / "photographs")
    for name in "abc":
        launch.make_photographs(tmp_path / "webcams" / name, 2)
    file = tmp_path / "images.npz"
    sources = (f"--source={photographs}", f"--aligned_source={tmp_path / 'webcams'}")
    launch.train_here(train_dense, *sources, f"--images={file}")
    assert capsys.readouterr().out.endswith(
        "images.npz holds 5 photographs and 2 webcams, and held out 1 photographs and 1 webcams\n"
    )
    assert len(load_images(file).train.webcams) == 4
    refused = run(
        "--flagfile=flags/dense.cfg",
        f"--images={file}",
        f"--train_dir={tmp_path / 'run'}",
        "--view_size=100",
        before=_ABSENT,
    )
    assert refused.returncode == 2
    assert "view_size must be a multiple of 32 and at least 64, not 100" in refused.stderr
