"""Image sequences with known homographies from static cameras: real changes of light and season.

python experiments/webcam_sequences.py --cameras=chamonix,stlouis --output=webcam_sequences

The first image of a sequence is one of the camera's, five others of it follow, each cut by a random
homography. `evaluate_main.py --benchmark=homography --data_dir=webcam_sequences` reads the folder.
"""

import pathlib

import cv2
import numpy as np
from absl import app, flags

from doap_tf.files import write_file

FLAGS = flags.FLAGS
flags.DEFINE_list("cameras", [], "Folders, each of aligned images of one camera.")
flags.DEFINE_string("output", "webcam_sequences", "Folder to write.")
flags.DEFINE_integer("sequences", 6, "Number of sequences of a camera.")
flags.DEFINE_integer("seed", 0, "Of the images and the homographies.")

_IMAGES = 6
_ROTATION, _LOG_SCALE, _TILT = np.radians(15), 0.2, 0.15


def main(_: list[str]) -> None:
    rng = np.random.default_rng(FLAGS.seed)
    for camera in map(pathlib.Path, FLAGS.cameras):
        files = sorted(file for file in camera.iterdir() if file.suffix in (".jpg", ".png"))
        for number in range(FLAGS.sequences):
            folder = pathlib.Path(FLAGS.output, f"i_{camera.name}_{number}")
            folder.mkdir(parents=True, exist_ok=True)
            chosen = rng.choice(len(files), _IMAGES, replace=False)
            for position, index in enumerate(chosen, 1):
                image = cv2.imread(str(files[index]))
                homography = np.eye(3)
                if position > 1:
                    homography = random_homography(rng, image.shape[1], image.shape[0])
                    image = cv2.warpPerspective(image, homography, image.shape[1::-1])
                    np.savetxt(folder / f"H_1_{position}", homography)
                write_file(folder / f"{position}.ppm", cv2.imencode(".ppm", image)[1].tobytes())


def random_homography(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """Turns and scales an image about its centre, and tilts it."""
    angle = rng.uniform(-_ROTATION, _ROTATION)
    scale = np.exp(rng.uniform(-_LOG_SCALE, _LOG_SCALE))
    cosine, sine = scale * np.cos(angle), scale * np.sin(angle)
    tilt = rng.uniform(-_TILT, _TILT, 2) / [width, height]
    centre = np.array([[1, 0, width / 2], [0, 1, height / 2], [0, 0, 1]])
    about = np.array([[cosine, -sine, 0], [sine, cosine, 0], [*tilt, 1]])
    return centre @ about @ np.linalg.inv(centre)


if __name__ == "__main__":
    app.run(main)
