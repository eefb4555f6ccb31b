"""Trains a small network to score keypoints that come back and that a descriptor can tell apart.

python experiments/keypoints.py --data=DATA --output=FOLDER --minutes=9
python experiments/keypoint_pairs.py --weights=FOLDER/keypoints.weights.h5 --data=DATA

DATA holds photos/ and webcam/ as for experiments/prepare.sh. A pair of views is two crops of one
photograph, or of two images of a webcam, by known homographies. In every cell of 8×8 pixels the
scores are a distribution of one keypoint, which is there at all with the sigmoid of its score. The
objective is the expected number of keypoints that the other view repeats within about two pixels,
times the Average Precision of their place: how early the descriptor, asked for the place among the
others of the crop, ranks its counterpart. Every keypoint costs a constant.
"""

import collections
import concurrent.futures
import itertools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import keras
import numpy as np
import tensorflow as tf
from absl import flags

import doap_tf
from doap_tf import command_line
from doap_tf.readers.images import IMAGE_SUFFIXES, read_grey

CELL = 8
RADIUS = 1.6  # of a keypoint's frame, in pixels of its pyramid level
# Share of a keypoint that is repeated so many pixels away.
NEAR = np.array(
    [
        [0.1, 0.3, 0.4, 0.3, 0.1],
        [0.3, 0.8, 1.0, 0.8, 0.3],
        [0.4, 1.0, 1.0, 1.0, 0.4],
        [0.3, 0.8, 1.0, 0.8, 0.3],
        [0.1, 0.3, 0.4, 0.3, 0.1],
    ],
    np.float32,
)
PLACE_NOISE, ANGLE_NOISE = 0.7, 0.17  # pixels and radians, of the counterpart's patch
SAME_PLACE = 6.0  # pixels within which two places do not compete

FLAGS = flags.FLAGS


@keras.saving.register_keras_serializable("doap_tf_experiments")
class KeypointNetwork(keras.Model):
    """Scores every pixel: a branch at full and one at half resolution, 10,353 weights.

    Takes grey values 0…255 [B, H, W, 1] with even sides and returns logits [B, H, W, 1].
    """

    def __init__(self, width: int = 8, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.fine = [self._block(width, 5), self._block(width, 3)]
        self.coarse = [self._block(2 * width, 3, strides=2)]
        self.coarse += [self._block(2 * width, 3) for _ in range(3)]
        self.enlarge = keras.layers.Conv2D(4 * width, 1, use_bias=False)
        self.merge = self._block(width, 3)
        self.head = keras.layers.Conv2D(1, 3, padding="same")

    def call(self, images, training=False):
        fine = images / 64.0 - 2.0
        for block in self.fine:
            fine = block(fine, training=training)
        coarse = fine
        for block in self.coarse:
            coarse = block(coarse, training=training)
        coarse = tf.nn.depth_to_space(self.enlarge(coarse), 2)
        return self.head(self.merge(fine + coarse, training=training))

    def get_config(self):
        return {**super().get_config(), "width": self.width}

    @staticmethod
    def _block(filters: int, kernel: int, strides: int = 1) -> keras.Sequential:
        return keras.Sequential(
            [
                keras.layers.Conv2D(
                    filters,
                    kernel,
                    strides,
                    padding="same",
                    use_bias=False,
                    kernel_initializer="he_normal",
                ),
                keras.layers.BatchNormalization(momentum=0.99),
                keras.layers.ReLU(),
            ]
        )


class Views(NamedTuple):
    """Pairs of views: uint8 [B, S, S], where they lie in the photograph, the homographies."""

    first: np.ndarray
    second: np.ndarray
    first_inside: np.ndarray
    second_inside: np.ndarray
    homography: np.ndarray  # float32 [B, 3, 3], of the first's pixels to the second's


class ViewPairs:
    """Cuts pairs of views; scales differ by at most half an octave, rotations are any."""

    def __init__(self, data: pathlib.Path, size: int):
        self._size = size
        with concurrent.futures.ThreadPoolExecutor() as pool:
            read = lambda folder: list(pool.map(read_grey, _images(folder)))  # noqa: E731
            self._photographs = read(data / "photos")
            self._scenes = [read(scene) for scene in sorted((data / "webcam").iterdir())]

    def batch(self, seed: int, count: int) -> Views:
        rng = np.random.default_rng(seed)
        return Views(*map(np.stack, zip(*(self._pair(rng) for _ in range(count)), strict=True)))

    def _pair(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        if rng.random() < 0.2:
            scene = self._scenes[rng.integers(len(self._scenes))]
            one, two = (scene[index] for index in rng.choice(len(scene), 2, replace=False))
        else:
            one = two = self._photographs[rng.integers(len(self._photographs))]
        height, width = one.shape
        largest = np.clip(min(height, width) / self._size, 1, 3)
        scale = np.exp(rng.uniform(np.log(0.9), np.log(largest)))
        margin = self._size * scale / 2
        centre = np.array(
            [
                rng.uniform(min(margin, side / 2), max(side - margin, side / 2))
                for side in (width, height)
            ]
        )
        ratio = 2 ** rng.uniform(-0.35, 0.35)
        maps = [
            _view(rng, centre, scale, self._size, 0.3),
            _view(rng, centre + rng.normal(0, 0.1, 2) * margin, scale * ratio, self._size, 1.0),
        ]
        first, first_inside = _cut(one, maps[0], self._size, scale)
        second, second_inside = _cut(two, maps[1], self._size, scale * ratio)
        if rng.random() < 0.5:
            first = _photometric(rng, first)
        homography = np.linalg.inv(maps[1]) @ maps[0]
        homography = (homography / homography[2, 2]).astype(np.float32)
        return first, _photometric(rng, second), first_inside, second_inside, homography


def _images(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)


def _view(
    rng: np.random.Generator, centre: np.ndarray, scale: float, size: int, strength: float
) -> np.ndarray:
    """A homography of the pixels of a view to those of the photograph."""
    angle = rng.uniform(-np.pi, np.pi) if rng.random() < 0.7 else rng.normal(0, 0.2)
    squeeze = np.exp(rng.uniform(0, 0.3) * strength)
    axis = _rotation(rng.uniform(0, np.pi))
    shape, tilt, to_origin, to_centre = (np.eye(3) for _ in range(4))
    shape[:2, :2] = scale * _rotation(angle) @ axis @ np.diag([squeeze, 1 / squeeze]) @ axis.T
    tilt[2, :2] = rng.normal(0, 0.12, 2) * strength / size
    to_origin[:2, 2] = -(size - 1) / 2
    to_centre[:2, 2] = centre
    return to_centre @ shape @ tilt @ to_origin


def _rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _cut(
    image: np.ndarray, view: np.ndarray, size: int, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    if scale > 1.2:
        image = cv2.GaussianBlur(image, (0, 0), 0.45 * np.sqrt(scale**2 - 1))
    crop = cv2.warpPerspective(
        image,
        view,
        (size, size),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    inside = cv2.warpPerspective(
        np.ones_like(image), view, (size, size), flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
    )
    return crop, inside


def _photometric(rng: np.random.Generator, crop: np.ndarray) -> np.ndarray:
    """Gamma, contrast, brightness, blur, noise and JPEG."""
    values = 255 * (crop / np.float32(255)) ** np.exp(rng.normal(0, 0.25))
    values = (values - 128) * np.exp(rng.normal(0, 0.25)) + 128 + rng.normal(0, 15)
    if rng.random() < 0.4:
        values = cv2.GaussianBlur(values, (0, 0), rng.uniform(0.4, 2.0))
    if rng.random() < 0.5:
        values = values + rng.normal(0, rng.uniform(1, 10), values.shape)
    crop = np.clip(values, 0, 255).astype(np.uint8)
    if rng.random() < 0.4:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(15, 90))]
        crop = cv2.imdecode(cv2.imencode(".jpg", crop, quality)[1], cv2.IMREAD_GRAYSCALE)
    return crop


class Objective:
    """The expected gain of the keypoints of pairs of views.

    Args:
        describe: Takes patches [N, 32, 32, 1] and returns unit rows [N, D].
        size: Side of the views.
        half: Half the side of a patch, in pixels.
    """

    def __init__(self, describe: Callable[[tf.Tensor], tf.Tensor], size: int, half: float):
        self._describe, self._size, self._half = describe, size, half
        x, y = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32))
        self._grid = tf.constant(np.stack([x, y], -1).reshape(1, -1, 2))

    def __call__(
        self, logits: tf.Tensor, views: Views, cost: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the loss, a scalar, and what to log."""
        one, two = tf.split(logits, 2)
        there, back = views.homography, tf.linalg.inv(views.homography)
        precision1 = self._average_precision(views.first, views.second, there, one)
        precision2 = self._average_precision(views.second, views.first, back, two)
        keypoints1, keypoints2 = self._keypoints(one), self._keypoints(two)
        inside = _eroded(views.first_inside), _eroded(views.second_inside)
        gain1, share1, repeated = self._gain(
            keypoints1, keypoints2, *inside, there, precision1, cost
        )
        gain2, _, _ = self._gain(keypoints2, keypoints1, *inside[::-1], back, precision2, cost)
        loss = -tf.reduce_mean(gain1 + gain2) / (self._size // CELL) ** 2
        return loss, {
            "loss": loss,
            "keypoints per cell": tf.reduce_mean(share1) / (self._size // CELL) ** 2,
            "repeated": tf.reduce_sum(repeated) / tf.reduce_sum(share1),
            "average precision": tf.reduce_mean(precision1),
        }

    def _keypoints(self, logits: tf.Tensor) -> tf.Tensor:
        """Probability [B, S, S] of a keypoint at each pixel."""
        cells = _to_cells(logits)
        return _from_cells(tf.nn.softmax(cells) * tf.sigmoid(cells), self._size)

    def _gain(self, keypoints, others, inside, others_inside, homography, precision, cost):
        shape = tf.shape(keypoints)
        there = _project(homography, tf.tile(self._grid, [shape[0], 1, 1]))
        visible = tf.reduce_all((there >= 2) & (there <= self._size - 3), -1)
        seen = tf.cast(visible, tf.float32) * _sample(others_inside, there)
        seen = tf.reshape(seen, shape) * inside
        near = tf.nn.conv2d(others[..., None], NEAR[..., None, None], 1, "SAME")[..., 0]
        repeated = tf.reshape(_sample(near, there), shape)
        weight = _from_cells(tf.repeat(precision[..., None], CELL**2, -1), self._size)
        return tuple(
            tf.reduce_sum(seen * keypoints * value, [1, 2])
            for value in (weight * repeated - cost, 1.0, repeated)
        )

    def _average_precision(self, first, second, homography, logits):
        """Of a place drawn from each cell of the first views: [B, cells]."""
        places = self._draw(logits)
        there = _project(homography, places)
        batch, count = places.shape[:2]
        angle = tf.random.uniform([batch, count], -np.pi, np.pi)
        noise = tf.random.normal([batch, count, 2]) * PLACE_NOISE
        turned = angle + _turn(homography, places) + tf.random.normal([batch, count]) * ANGLE_NOISE
        patches = [
            self._patches(first, places, angle),
            self._patches(second, there + noise, turned),
        ]
        rows = tf.cast(self._describe(tf.concat(patches, 0)), tf.float32)
        queries, database = tf.unstack(tf.reshape(rows, [2, batch, count, -1]))
        similarity = tf.matmul(queries, database, transpose_b=True)
        own = tf.linalg.diag_part(similarity)[..., None]
        squared = tf.reduce_sum((there[:, :, None] - there[:, None]) ** 2, -1)
        visible = tf.reduce_all((there > 0) & (there < self._size - 1), -1)
        ahead = (similarity > own) & (squared > SAME_PLACE**2) & visible[:, None]
        # With a single positive, Average Precision is the inverse of its rank.
        precision = 1 / (1 + tf.reduce_sum(tf.cast(ahead, tf.float32), -1))
        return tf.stop_gradient(precision)

    def _draw(self, logits: tf.Tensor) -> tf.Tensor:
        """One pixel of each cell by its probability: x, y [B, cells, 2]."""
        cells = _to_cells(logits)
        uniform = tf.random.uniform(tf.shape(cells), 1e-6, 1 - 1e-6)
        pixel = tf.argmax(cells - tf.math.log(-tf.math.log(uniform)), -1, output_type=tf.int32)
        cell, side = tf.range(cells.shape[1])[None], self._size // CELL
        x = cell % side * CELL + pixel % CELL
        y = cell // side * CELL + pixel // CELL
        return tf.cast(tf.stack([x, y], -1), tf.float32)

    def _patches(self, images: tf.Tensor, places: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        steps = ((tf.range(32, dtype=tf.float32) + 0.5) / 16 - 1) * self._half
        x, y = (tf.reshape(axis, [1, 1, -1]) for axis in tf.meshgrid(steps, steps))
        cosine, sine = tf.cos(angle)[..., None], tf.sin(angle)[..., None]
        points = tf.stack(
            [places[..., :1] + cosine * x - sine * y, places[..., 1:] + sine * x + cosine * y], -1
        )
        batch, count = places.shape[:2]
        values = _sample(images, tf.reshape(points, [batch, count * 1024, 2]))
        return tf.reshape(values, [batch * count, 32, 32, 1])


def _project(homography: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    ones = tf.ones_like(points[..., :1])
    moved = tf.matmul(tf.concat([points, ones], -1), homography, transpose_b=True)
    return moved[..., :2] / moved[..., 2:]


def _turn(homography: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """The rotation nearest to the homography's derivative at points: angles [B, N]."""
    along, across = (
        _project(homography, points + step) - _project(homography, points - step)
        for step in (tf.constant([1.0, 0.0]), tf.constant([0.0, 1.0]))
    )
    return tf.atan2(along[..., 1] - across[..., 0], along[..., 0] + across[..., 1])


def _sample(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Bilinear values [B, N] of images [B, S, S], whose border is repeated."""
    size = images.shape[1]
    points = tf.clip_by_value(points, 0.0, size - 1.001)
    corner = tf.floor(points)
    right, down = tf.unstack(points - corner, axis=-1)
    index = tf.cast(corner[..., 1] * size + corner[..., 0], tf.int32)
    flat = tf.reshape(images, [images.shape[0], size * size])
    at = [tf.gather(flat, index + step, batch_dims=1) for step in (0, 1, size, size + 1)]
    above, below = at[0] * (1 - right) + at[1] * right, at[2] * (1 - right) + at[3] * right
    return above * (1 - down) + below * down


def _to_cells(pixels: tf.Tensor) -> tf.Tensor:
    """[B, S, S] → [B, cells, 64]."""
    batch, side = pixels.shape[0], pixels.shape[1] // CELL
    cells = tf.reshape(pixels, [batch, side, CELL, side, CELL])
    return tf.reshape(tf.transpose(cells, [0, 1, 3, 2, 4]), [batch, side**2, CELL**2])


def _from_cells(cells: tf.Tensor, size: int) -> tf.Tensor:
    batch, side = cells.shape[0], size // CELL
    pixels = tf.reshape(cells, [batch, side, side, CELL, CELL])
    return tf.reshape(tf.transpose(pixels, [0, 1, 3, 2, 4]), [batch, size, size])


def _eroded(inside: tf.Tensor) -> tf.Tensor:
    return -tf.nn.max_pool2d(-inside[..., None], 9, 1, "SAME")[..., 0]


def main(argv: Sequence[str]) -> None:
    del argv
    output = pathlib.Path(FLAGS.output)
    output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(FLAGS.seed)
    cv2.setNumThreads(1)
    descriptor = doap_tf.from_pretrained(FLAGS.descriptor)
    network = KeypointNetwork()
    network(tf.zeros([1, 64, 64, 1]))
    half = descriptor.magnification * RADIUS
    objective = Objective(
        lambda patches: descriptor.network(patches, training=False), FLAGS.size, half
    )
    optimizer = keras.optimizers.Adam(FLAGS.learning_rate, clipnorm=1.0)
    optimizer.build(network.trainable_variables)

    @tf.function(jit_compile=bool(tf.config.list_physical_devices("GPU")))
    def step(views: Views, cost: tf.Tensor, rate: tf.Tensor) -> dict[str, tf.Tensor]:
        views = Views(*(tf.cast(part, tf.float32) for part in views))
        with tf.GradientTape() as tape:
            images = tf.concat([views.first, views.second], 0)[..., None]
            logits = network(images, training=True)[..., 0]
            loss, scores = objective(logits, views, cost)
        optimizer.learning_rate.assign(rate)
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return scores

    start, collected = time.monotonic(), []
    for number, views in enumerate(_batches()):
        seconds = time.monotonic() - start
        done = max(number / FLAGS.steps, seconds / 60 / FLAGS.minutes)
        if done >= 1:
            break
        cost = 0.02 + (FLAGS.cost - 0.02) * min(1, 2 * done)
        rate = FLAGS.learning_rate * min(1, 0.01 + number / 100) * (1 + np.cos(np.pi * done)) / 2
        collected.append(step(views, tf.constant(cost, tf.float32), tf.constant(rate, tf.float32)))
        if (number + 1) % 100 == 0:
            means = {
                name: float(np.mean([float(scores[name]) for scores in collected]))
                for name in collected[0]
            }
            collected = []
            line = json.dumps({"step": number + 1, "seconds": round(seconds), **means})
            print(line, flush=True)
            with (output / "log.jsonl").open("a") as log:
                log.write(line + "\n")
    network.save_weights(output / "keypoints.weights.h5")


def _batches() -> Iterator[Views]:
    pairs = ViewPairs(pathlib.Path(FLAGS.data), FLAGS.size)
    with concurrent.futures.ThreadPoolExecutor(FLAGS.workers) as pool:
        seeds = iter(np.random.SeedSequence(FLAGS.seed).generate_state(FLAGS.steps))
        pending: collections.deque[concurrent.futures.Future] = collections.deque()
        while True:
            for seed in itertools.islice(seeds, 2 * FLAGS.workers - len(pending)):
                pending.append(pool.submit(pairs.batch, seed, FLAGS.pairs))
            if not pending:
                return
            yield pending.popleft().result()


if __name__ == "__main__":  # keypoint_pairs.py and a test import this module
    flags.DEFINE_string("data", None, "Folder of photos/ and webcam/.", required=True)
    flags.DEFINE_string("output", None, "Folder for the weights and the log.", required=True)
    flags.DEFINE_string("descriptor", "doap-128", "What ranks the places.")
    flags.DEFINE_integer("steps", 20_000, "Largest number of steps.")
    flags.DEFINE_float("minutes", 9.0, "Longest time; the learning rate falls to zero over it.")
    flags.DEFINE_integer("pairs", 12, "Pairs of views in a step.")
    flags.DEFINE_integer("size", 224, "Side of a view; a multiple of 8.")
    flags.DEFINE_float("learning_rate", 2e-3, "Of Adam.")
    flags.DEFINE_float("cost", 0.3, "Of a keypoint, after half of the run; it rises from 0.02.")
    flags.DEFINE_integer("workers", 6, "Threads that cut views.")
    flags.DEFINE_integer("seed", 0, "Of weights and views.")
    command_line.run(main)
