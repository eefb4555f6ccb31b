import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.readers.video_frames import write_video_frames


def write_clip(path, frames):
    size = frames[0].shape[1::-1]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 30, size)
    for frame in frames:
        writer.write(frame)
    writer.release()


@pytest.fixture
def frames():
    """Twelve noisy frames; the second and sixth are the sharpest, three in a row blurred."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (12, 96, 128, 1), np.uint8).repeat(3, axis=3)
    sigmas = [1.2, 0.5, 1.0, 0.9, 0.8, 0.6, *[6.0] * 3, 0.8, 0.7, 0.9]
    return [
        cv2.GaussianBlur(frame, (0, 0), sigma) for frame, sigma in zip(noise, sigmas, strict=True)
    ]


def test_the_sharpest_of_every_few_frames_are_written(tmp_path, frames):
    write_clip(tmp_path / "clip.avi", frames)
    folder = tmp_path / "frames"
    paths = write_video_frames(tmp_path / "clip.avi", folder, every=3)
    assert [path.name for path in paths] == ["000001.jpg", "000005.jpg", "000010.jpg"]
    assert sorted(folder.iterdir()) == paths
    written = cv2.imread(str(paths[0])).astype(float)
    assert np.abs(written - frames[1]).mean() < 6  # what two compressions change
    paths = write_video_frames(tmp_path / "clip.avi", folder, every=6)
    assert [path.name for path in paths] == ["000001.jpg", "000010.jpg"]
    assert sorted(folder.iterdir()) == paths


def test_what_is_no_video_is_refused(tmp_path):
    (tmp_path / "clip.mp4").write_bytes(b"no video")
    with pytest.raises(InputError, match=r"clip\.mp4 has no frame that OpenCV can read"):
        write_video_frames(tmp_path / "clip.mp4", tmp_path / "frames", 1)
    assert not (tmp_path / "frames").exists()
    with pytest.raises(InputError, match="every must be at least 1, not 0"):
        write_video_frames(tmp_path / "clip.mp4", tmp_path / "frames", 0)
