"""Matches two images and draws them, or many and writes what COLMAP or hloc reads.

python match_main.py --image1=a.jpg --image2=b.jpg --output=matches.png
python match_main.py --images='photos/*.jpg' --pairs=exhaustive --format=colmap --output=matched
"""

import json
import pathlib
import signal
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from doap_tf import commands, files
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
_FORMATS = ("h5", "colmap")

# A pair
flags.DEFINE_string("image1", None, "The first image of a pair.")
flags.DEFINE_string("image2", None, "The second image of a pair.")
flags.DEFINE_string("draw_frames", None, "Picture of the first image's keypoints to write.")
flags.DEFINE_string(
    "draw_alignment",
    None,
    "Picture to write of the strongest patches before and after the spatial transformer.",
)

# Many images
flags.DEFINE_string("images", None, "Pattern for many images, such as 'photos/**/*.jpg'.")
flags.DEFINE_string(
    "pairs",
    "exhaustive",
    "exhaustive, sequential, or a file with two names a line, below the fixed part of --images.",
)
flags.DEFINE_integer("overlap", 10, "With --pairs=sequential, match each image with so many next.")
flags.DEFINE_string("format", "h5", "h5 (for hloc) or colmap (its database).")

flags.DEFINE_string(
    "output", None, "Picture of the matches for a pair; for many images the folder to write to."
)

# Features
flags.DEFINE_string(
    "model",
    "doap-128",
    "Name of a network that ships, path of a trained one; or sift or rootsift, OpenCV's own.",
)
flags.DEFINE_string(
    "detector",
    "dog",
    "dog, harris_laplace, hessian_laplace, harris_affine, hessian_affine, fast or orb.",
)
flags.DEFINE_integer("max_keypoints", 8192, "Keep so many of the strongest keypoints; 0 for all.")
flags.DEFINE_list(
    "magnification",
    None,
    "Half the side of a patch over the keypoint's radius; by default what the model was trained "
    "for. Several, such as 8,28, describe a keypoint at each and are pooled.",
)
flags.DEFINE_boolean("oriented", True, "Turn patches to the dominant gradient.")

# Matching
flags.DEFINE_string("method", "mutual", "nearest, mutual, ratio or mutual_ratio.")
flags.DEFINE_float("ratio", 0.8, "Lowe's, for the methods named after it.")
flags.DEFINE_string(
    "geometry",
    None,
    "homography, fundamental, essential or none; by default homography for a pair and fundamental "
    "for many images.",
)
flags.DEFINE_float("threshold", 3.0, "Pixels within which a match is an inlier.")
flags.DEFINE_list("intrinsics", None, "fx,fy,cx,cy of the camera, for --geometry=essential.")
flags.DEFINE_list("intrinsics2", None, "Those of the second camera, if it is another.")
flags.DEFINE_integer("seed", 0, "Of the samples that geometries are estimated from.")


def main(argv: Sequence[str]) -> None:
    del argv
    if bool(FLAGS.images) == bool(FLAGS.image1 or FLAGS.image2):
        raise InputError("give either --image1 and --image2, or --images.")
    try:
        _match_many() if FLAGS.images else _match_pair()
    except OSError as error:
        where = error.filename or FLAGS.output
        raise InputError(f"cannot read or write {where}: {error.strerror or error}.") from error


def _match_pair() -> None:
    from doap_tf import matching

    for name in ("image1", "image2"):
        if not FLAGS[name].value:
            raise InputError(f"give --{name}: {FLAGS[name].help}")
    for name in ("output", "draw_frames", "draw_alignment"):
        _check_picture(name, FLAGS[name].value)
    image1, image2 = matching.read_image(FLAGS.image1), matching.read_image(FLAGS.image2)
    matcher, extractor = _matcher("homography"), _extractor()
    pair = matcher.match(extractor.extract(image1), extractor.extract(image2))
    for path, features in ((FLAGS.image1, pair.features1), (FLAGS.image2, pair.features2)):
        print(f"{path}: {len(features.frames)} keypoints")
    print(f"{len(pair.indices)} matches ({FLAGS.method})")
    if pair.model is not None:
        median = np.median(pair.residuals[pair.inliers])
        print(
            f"{pair.inliers.sum()} inliers of this {pair.geometry}, half within {median:.2f} "
            f"pixels:\n{pair.model}"
        )
    elif pair.geometry is not None:
        print(f"no {pair.geometry} found")
    if FLAGS.output:
        title = f"{_short(FLAGS.image1)} – {_short(FLAGS.image2)} · {extractor.name}"
        _write_picture(FLAGS.output, matching.draw_matches(image1, image2, pair, title))
    if FLAGS.draw_frames:
        title = f"{_short(FLAGS.image1)} · {extractor.detector}"
        _write_picture(
            FLAGS.draw_frames, matching.draw_frames(image1, pair.features1.frames, title)
        )
    if FLAGS.draw_alignment:
        describer: Any = extractor.describer
        if getattr(getattr(describer, "descriptor", None), "network", None) is None:
            raise InputError(f"--draw_alignment: {extractor.name} has no spatial transformer.")
        patches = describer.cut(matching.as_grey(image1), pair.features1.frames)
        picture = matching.draw_alignment(describer.descriptor, patches)
        _write_picture(FLAGS.draw_alignment, picture)


def _match_many() -> None:
    from tqdm import tqdm

    from doap_tf import matching

    if not FLAGS.output:
        raise InputError("give --output, the folder to write to.")
    if FLAGS.format not in _FORMATS:
        raise InputError(f"--format must be one of {', '.join(_FORMATS)}, not {FLAGS.format!r}.")
    if FLAGS.intrinsics2:
        raise InputError("--intrinsics2 is for a pair; many images share --intrinsics.")
    folder = pathlib.Path(FLAGS.output)
    images = matching.find_images(FLAGS.images)
    names = list(images)
    if FLAGS.pairs == "exhaustive":
        pairs = matching.exhaustive_pairs(names)
    elif FLAGS.pairs == "sequential":
        pairs = matching.sequential_pairs(names, FLAGS.overlap)
    else:
        pairs = matching.read_pairs(FLAGS.pairs, names)
    matcher, extractor = _matcher("fundamental"), _extractor()

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = extractor.settings() | matcher.settings()
    with matching.MatchStore(folder / "finished.db", settings) as store:
        try:
            outcome = matching.match_collection(
                images,
                pairs,
                extractor,
                matcher,
                store,
                lambda items, title: tqdm(items, title, disable=None),
            )
        except KeyboardInterrupt:
            raise commands.Interrupted(
                f"interrupted; what is finished is kept in {folder}: give the same command again."
            ) from None
        for name, reason in outcome.failures.items():
            print(f"skipped {name}: {reason}", file=sys.stderr)
        if pairs and not outcome.pairs:
            raise InputError(f"none of {len(pairs)} pairs could be matched.")
        if FLAGS.format == "h5":
            matching.write_hloc(store, outcome.names, outcome.pairs, folder)
            written = "features.h5, matches.h5, pairs.txt"
        else:
            matching.write_colmap(
                store,
                outcome.names,
                outcome.pairs,
                folder / "database.db",
                matcher.geometry,
                matcher.intrinsics1,
            )
            written = "database.db"
    with files.write_atomically(folder / "report.json") as temporary:
        report = {
            "images": len(outcome.names),
            "pairs": len(outcome.pairs),
            "failures": outcome.failures,
            "settings": settings,
        }
        temporary.write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{len(outcome.names)} of {len(images)} images, {len(outcome.pairs)} of {len(pairs)} pairs "
        f"matched; {folder} holds {written}, report.json"
    )


def _extractor():
    from doap_tf.matching import DescriptorExtractor

    if FLAGS.max_keypoints < 0:
        raise InputError(f"--max_keypoints must not be negative, as {FLAGS.max_keypoints} is.")
    return DescriptorExtractor(
        FLAGS.model,
        FLAGS.detector,
        FLAGS.max_keypoints or None,
        _magnification(),
        FLAGS.oriented,
    )


def _magnification() -> list[float] | None:
    values = FLAGS.magnification
    try:
        return None if values is None else [float(value) for value in values]
    except ValueError as error:
        raise InputError(
            f"--magnification must be like 14 or 8,28, not {','.join(values)}."
        ) from error


def _matcher(default_geometry: str):
    from doap_tf.matching import Matcher

    geometry = FLAGS.geometry or default_geometry
    return Matcher(
        FLAGS.method,
        FLAGS.ratio,
        None if geometry == "none" else geometry,
        FLAGS.threshold,
        _intrinsics("intrinsics"),
        _intrinsics("intrinsics2"),
        FLAGS.seed,
    )


def _intrinsics(flag: str) -> np.ndarray | None:
    values = FLAGS[flag].value
    if not values:
        return None
    try:
        fx, fy, cx, cy = map(float, values)
    except ValueError as error:
        raise InputError(f"--{flag} must be fx,fy,cx,cy, not {','.join(values)}.") from error
    return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])


def _check_picture(flag: str, path: str | None) -> None:
    import cv2

    if path and (not pathlib.Path(path).suffix or not cv2.haveImageWriter(path)):
        raise InputError(f"--{flag}={path}: name a picture, such as {path}.png.")


def _write_picture(path: str, picture: np.ndarray) -> None:
    import cv2

    # Unlike cv2.imwrite, this tells of a full disk.
    with files.write_atomically(path) as temporary:
        temporary.write_bytes(cv2.imencode(temporary.suffix, picture)[1].tobytes())
    print(path)


def _short(path: str) -> str:
    return "/".join(pathlib.PurePath(path).parts[-2:])


if __name__ == "__main__":
    commands.run(main)
