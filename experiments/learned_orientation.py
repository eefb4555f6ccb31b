r"""Trains a network that turns patches; scores it beside the dominant gradient and upright ones.

python prepare_main.py --source=photos --detector=learned --jitter=learned --size=46 \
    --magnification=19.8 --max_groups=60 --appearance=light --output=groups/upright46
python experiments/learned_orientation.py --groups=groups/upright46 --output=runs/orientation.npz
python experiments/learned_orientation.py --orientation=runs/orientation.npz \
    --benchmark=homography --threshold=3 --data_dir=webcam_sequences --report_dir=reports

The network sees a patch at magnification 14 and returns an angle. It is trained on groups cut at
√2 of that, so that every view can be turned: most by little (--upright), as photographs are, the
others by any angle. First the angles of a place's views shall agree with how these were turned
(--agreement), then the Average Precision of a descriptor, which is not trained, of the patches
turned by them is the loss.
"""

import math
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_list("groups", None, "Folders of groups of 46×46 patches to train on.")
flags.DEFINE_list("weights", None, "Shares of the places of a list, by folder; equal.")
flags.DEFINE_string("output", None, "Weights to write.")
flags.DEFINE_string("descriptor", "doap-fast-128", "Network of patches.")
flags.DEFINE_integer("steps", 2000, "Of training.")
flags.DEFINE_integer("places", 256, "Of a list.")
flags.DEFINE_integer("views", 4, "Of a place.")
flags.DEFINE_float("learning_rate", 2e-3, "At the start; it falls like a cosine.")
flags.DEFINE_float("agreement", 0.3, "Share of the steps before Average Precision is the loss.")
flags.DEFINE_float("upright", 0.75, "Share of the views that are turned by little.")
flags.DEFINE_integer("seed", 0, "Of weights and lists.")
flags.DEFINE_string("orientation", None, "Weights to score.")
flags.DEFINE_enum("benchmark", "homography", ["pose", "homography"], "On which pairs.")
flags.DEFINE_list("data_dir", None, "Folders of the pairs.")
flags.DEFINE_float("threshold", 3.0, "Pixels of an inlier.")
flags.DEFINE_integer("max_keypoints", 2048, "Maximum number of keypoints per image.")
flags.DEFINE_string("report_dir", None, "Parent of the folder of the report.")

_SIDE, _SEEN, _STORED = 32, 20, 46  # of patches to describe, to turn, and of groups
_FILTERS = ((5, 2, 16), (3, 2, 32), (3, 2, 64))  # kernel size, stride, channels
_LITTLE = 0.1  # radians, a standard deviation
_BATCH = 2048


def main(argv: Sequence[str]) -> None:
    del argv
    if bool(FLAGS.output) == bool(FLAGS.orientation):
        raise InputError("give --groups and --output to train, or --orientation to score.")
    if FLAGS.output:
        _train()
    else:
        _score()


def _network() -> Any:
    """A network from patches [B, 20, 20, 1] to vectors [B, 2] that point where they are turned."""
    import tensorflow as tf

    from doap_tf.networks import standardize

    layers = tf.keras.layers
    patches = outputs = layers.Input([_SEEN, _SEEN, 1])
    outputs = layers.Lambda(standardize)(outputs)
    for size, stride, channels in _FILTERS:
        outputs = layers.Conv2D(channels, size, stride, "same", use_bias=False)(outputs)
        outputs = layers.ReLU()(layers.BatchNormalization()(outputs))
    return tf.keras.Model(patches, layers.Dense(2)(layers.Flatten()(outputs)))


def _train() -> None:
    import tensorflow as tf

    from doap_tf.data import PatchGroups
    from doap_tf.losses import AveragePrecisionLoss
    from doap_tf.networks import sample_map
    from doap_tf.zoo import load_keras

    folders = [PatchGroups.load(folder) for folder in FLAGS.groups]
    if any(groups.size != _STORED for groups in folders):
        raise InputError(f"groups must have patches of {_STORED}×{_STORED} pixels.")
    weights = np.array(FLAGS.weights or [1] * len(folders), float)
    counts = np.diff(
        np.rint(np.cumsum(weights) / weights.sum() * FLAGS.places).astype(int), prepend=0
    )
    tf.keras.utils.set_random_seed(FLAGS.seed)
    network, descriptor = _network(), load_keras(FLAGS.descriptor)
    descriptor.trainable = False
    optimizer = tf.keras.optimizers.Adam()
    ranking = AveragePrecisionLoss(distance="squared", bins=6)
    labels = tf.repeat(tf.range(FLAGS.places), FLAGS.views)

    def turns(vectors: tf.Tensor) -> tf.Tensor:
        cosine, sine = tf.unstack(tf.math.l2_normalize(vectors, axis=-1), axis=-1)
        return tf.stack([tf.stack([cosine, -sine], -1), tf.stack([sine, cosine], -1)], -2)

    def sample(patches: tf.Tensor, matrices: tf.Tensor, side: int) -> tf.Tensor:
        # Pixels of a patch at magnification 14, in pixels of the stored one from its centre.
        steps = (np.arange(side, dtype=np.float32) + 0.5) * (2 / side) - 1
        grid = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
        grid *= _STORED / 2 / math.sqrt(2)
        points = tf.matmul(grid, matrices, transpose_b=True) + (_STORED - 1) / 2
        return tf.reshape(sample_map(patches, points, 1), [-1, side, side, 1])

    @tf.function
    def step(patches: tf.Tensor, angles: tf.Tensor, ranked: tf.Tensor) -> tuple[tf.Tensor, ...]:
        patches = tf.cast(patches, tf.float32)
        drawn = turns(tf.stack([tf.cos(angles), tf.sin(angles)], -1))
        with tf.GradientTape() as tape:
            seen = tf.nn.avg_pool2d(sample(patches, drawn, 2 * _SEEN), 2, 2, "VALID")
            whole = tf.matmul(drawn, turns(network(seen, training=True)))
            rows = descriptor(sample(patches, whole, _SIDE), training=False)
            precision = ranking(labels, rows)
            first = tf.reshape(whole[:, :, 0], [FLAGS.places, FLAGS.views, 2])
            agreement = tf.reduce_mean(first[..., 0])
            loss = ranked * precision - (1 - ranked) * agreement
        gradients = tape.gradient(loss, network.trainable_variables)
        return precision, agreement, gradients

    random = np.random.default_rng(FLAGS.seed)

    usable = [np.flatnonzero(groups.group_sizes >= FLAGS.views) for groups in folders]

    def draw() -> np.ndarray:
        patches = []
        for groups, places, number in zip(folders, usable, counts, strict=True):
            for place in random.choice(places, number, replace=False):
                patches.append(
                    groups.patches[random.choice(groups.rows_of(place), FLAGS.views, False)]
                )
        return np.concatenate(patches)[..., np.newaxis]

    start = time.perf_counter()
    for number in range(FLAGS.steps):
        share = number / FLAGS.steps
        optimizer.learning_rate = FLAGS.learning_rate * (1 + math.cos(math.pi * share)) / 2
        patches = draw()
        little = random.random(len(patches)) < FLAGS.upright
        angles = np.where(
            little,
            random.normal(0, _LITTLE, len(patches)),
            random.uniform(-math.pi, math.pi, len(patches)),
        ).astype(np.float32)
        precision, agreement, gradients = step(patches, angles, float(share >= FLAGS.agreement))
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        if number % 100 == 99:
            passed = time.perf_counter() - start
            print(
                f"{number + 1}: loss {precision:.4f}, agreement {agreement:.4f}, {passed:.0f} s",
                flush=True,
            )
    np.savez(FLAGS.output, *network.get_weights())


def _score() -> None:
    import tensorflow as tf

    from doap_tf import evaluation
    from doap_tf.features.cutting import Pyramid
    from doap_tf.features.detectors import detect
    from doap_tf.features.frames import compose, similarity_frames
    from doap_tf.features.orientation import orient
    from doap_tf.matching import DescriptorExtractor
    from doap_tf.readers.images import as_grey

    network = _network()
    with np.load(FLAGS.orientation) as weights:
        network.set_weights(list(weights.values()))
    predict = tf.function(network)

    def learned(image: Any, frames: np.ndarray) -> np.ndarray:
        patches = Pyramid(image).cut(frames, _SEEN, extractor.frame_descriptor.magnification)
        vectors = [
            predict(tf.constant(patches[start : start + _BATCH, ..., np.newaxis], tf.float32))
            for start in range(0, len(patches), _BATCH)
        ]
        x, y = np.concatenate(vectors).T
        return compose(frames, similarity_frames(0, 0, np.ones(len(x)), np.arctan2(y, x)))

    extractor = DescriptorExtractor(FLAGS.descriptor, max_keypoints=FLAGS.max_keypoints)
    ways = {"gradient": orient, "upright": lambda image, frames: frames, "learned": learned}

    class Turned:
        norm = extractor.norm

        def __init__(self, way: str):
            self._way = way

        def extract(self, image: Any, mask: Any = None) -> Any:
            del mask
            grey = as_grey(image)
            found = detect(grey, "learned", FLAGS.max_keypoints, oriented=False)
            return extractor.describe(grey, ways[self._way](grey, found.frames), found.responses)

        def settings(self) -> dict[str, Any]:
            return {**extractor.settings(), "orientation": self._way}

    benchmark: Any
    if FLAGS.benchmark == "pose":
        benchmark = evaluation.Pose(FLAGS.data_dir, threshold=FLAGS.threshold)
    else:
        (folder,) = FLAGS.data_dir
        benchmark = evaluation.Homography(folder, threshold=FLAGS.threshold)
    results = [benchmark.evaluate(evaluation.ImageModel(way, Turned(way))) for way in ways]
    folder = evaluation.write_report(results, FLAGS.report_dir)
    for table in evaluation.comparison_tables(results)[:3]:
        print(f"{evaluation.heading(table)}:\n\n{table.markdown()}\n")
    print(f"{folder / 'index.html'} shows them with plots.")


if __name__ == "__main__":
    command_line.run(main)
