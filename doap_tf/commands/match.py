"""Matches two images and draws them, or many images for COLMAP or hloc.

python match_main.py
python match_main.py a.jpg b.jpg --output=matches.png
python match_main.py photos --format=colmap,h5 --output=matched

Two files are matched as a pair; a folder, patterns or more files as a collection.
"""

import contextlib
import functools
import importlib.resources
import json
import os
import pathlib
import re
import signal
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from doap_tf import command_line, files
from doap_tf.catalogue import DEFAULT_DESCRIPTOR, DEFAULT_DETECTOR, DEFAULT_FOR_PAIRS
from doap_tf.counts import count
from doap_tf.descriptors import HANDCRAFTED
from doap_tf.errors import InputError, Interrupted, check_choice, suggestion
from doap_tf.progress import progress

FLAGS = flags.FLAGS
_PAIRS = ("exhaustive", "sequential", "retrieval")
_SHOWN_PAIRS = 8  # best and worst pairs of a collection, each
# Where they differ from those of pairs: docs/experiments/reconstruction.md.
_COLMAP_DEFAULTS = {
    "detector": "dog_dense",
    "max_keypoints": 20480,
    "method": "mutual_ratio",
    "ratio": 0.9,
    "threshold": 0.9,
}

# A pair
flags.DEFINE_string("image1", None, "First image of a pair; or give both without flags.")
flags.DEFINE_string("image2", None, "Second image of a pair.")
flags.DEFINE_enum(
    "rotations",
    "auto",
    ["none", "auto"],
    "auto: describe a pair upright, and turned where that is not reliable or the images turn out "
    "to be turned; none: match once.",
)
flags.DEFINE_string("draw_frames", None, "File for a picture of the first image's keypoints.")

# Many images
flags.DEFINE_string(
    "images",
    None,
    "Many images: a folder or patterns, separated by commas, such as 'photos/**/*.{jpg,png}', or "
    "'gs://bucket/photos' in a file system that Apache Beam knows; or a video; or give them "
    "without a flag.",
)
flags.DEFINE_integer(
    "every",
    10,
    "Of so many frames of a video in a row, match the sharpest; blurred ones are left out.",
    lower_bound=1,
)
flags.DEFINE_string(
    "pairs",
    "exhaustive",
    "exhaustive, sequential (by default for a video; with similar images, to close loops), "
    "retrieval, or a file with two names per line.",
)
flags.DEFINE_integer("neighbours", 20, "Similar images to match each with, by --pairs=retrieval.")
flags.DEFINE_integer("overlap", 10, "Following images to match each with, by --pairs=sequential.")
flags.DEFINE_string(
    "beam_options",
    None,
    "Describe and match with Apache Beam, with these options, such as '--runner=DirectRunner'; all "
    "workers must see the images and --output, or --shards, under the same paths.",
)
flags.DEFINE_string(
    "shards", None, "Folder for what Beam's workers write, such as gs://bucket/shards."
)
flags.DEFINE_list("format", ["h5"], "Output formats: h5 for hloc, colmap, or both, colmap,h5.")
flags.DEFINE_enum(
    "camera",
    "auto",
    ["auto", "single", "per_image"],
    "Which images share a camera of COLMAP; auto: those of the same size and EXIF data.",
)
flags.DEFINE_enum(
    "camera_model",
    None,
    ["SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV"],
    "COLMAP's camera model; by default SIMPLE_RADIAL, and with --intrinsics PINHOLE.",
)
flags.DEFINE_string(
    "output",
    None,
    "For a pair, files to write, separated by commas: pictures (.png, .jpg), matches as data "
    "(.json, .npz, .csv); for many images the folder to write.",
)

flags.DEFINE_boolean(
    "json", False, "Print the result as JSON for programs: the verdict, or many images' report."
)

# Features
flags.DEFINE_string(
    "model",
    None,
    f"A network that ships, the path of one, or a baseline: {', '.join(HANDCRAFTED)}. By default "
    f"{DEFAULT_FOR_PAIRS} for a pair, which finds keypoints of its own and stands upright, and "
    f"{DEFAULT_DESCRIPTOR} for many images, or with --detector, --magnification or --oriented.",
)
flags.DEFINE_string(
    "detector",
    DEFAULT_DETECTOR,
    "A network of whole images, learned, dog, dog_dense, harris_laplace, hessian_laplace, "
    "harris_affine, hessian_affine, fast, orb, or the path of a trained one; for --format=colmap "
    "dog_dense by default.",
)
flags.DEFINE_integer(
    "max_keypoints",
    8192,
    "Number of the strongest keypoints to keep; 0 for all; for --format=colmap 20480 by default.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_image_size", 0, "Shrink larger images to this longer side; 0: never.", lower_bound=0
)
flags.DEFINE_list(
    "magnification",
    None,
    "Half the side of a patch over the keypoint's radius; by default what the model was trained "
    "for. Several, such as 8,28, are pooled.",
)
flags.DEFINE_boolean(
    "oriented",
    None,
    "Turn patches to the dominant gradient: always, or never. By default collections do, and pairs "
    "as --rotations says.",
)

# Matching
flags.DEFINE_string(
    "method", "mutual", "nearest, mutual, ratio or mutual_ratio (by default for --format=colmap)."
)
flags.DEFINE_float("ratio", 0.8, "Lowe's ratio; for --format=colmap 0.9 by default.")
flags.DEFINE_enum(
    "geometry",
    "auto",
    ["auto", "homography", "fundamental", "essential", "none"],
    "auto: a homography or a fundamental matrix, whichever the matches support.",
)
flags.DEFINE_string(
    "estimator", "magsac", "magsac (MAGSAC++), gc_ransac, lo_ransac, prosac or ransac."
)
flags.DEFINE_float("threshold", 3.0, "Pixels of an inlier; for --format=colmap 0.9 by default.")
flags.DEFINE_list("intrinsics", None, "fx,fy,cx,cy of the camera, for --geometry=essential.")


def main(argv: Sequence[str]) -> None:
    _take_arguments(argv[1:])
    try:
        if not FLAGS.json:
            _match()
            return
        with contextlib.redirect_stdout(sys.stderr):
            result = _match()
        print(json.dumps(result))
    except OSError as error:
        where = error.filename or FLAGS.output
        raise InputError(f"cannot read or write {where}: {error.strerror or error}.") from error


def _match() -> dict[str, Any]:
    path1, path2, images = FLAGS.image1, FLAGS.image2, FLAGS.images
    if path1 is path2 is images is None:
        return _match_sample()
    if images and not path1 and not path2:
        return _match_many()
    if path1 and path2 and not images:
        return _match_pair(path1, path2, FLAGS.output or "")
    raise InputError("give two images (--image1 and --image2), or many (--images), not both.")


def _take_arguments(paths: Sequence[str]) -> None:
    """Takes arguments without flags: two files for a pair, all else for a collection."""
    if not paths:
        return
    if FLAGS.image1 or FLAGS.image2 or FLAGS.images:
        raise InputError(f"give images with or without flags, not both: {' '.join(paths)}.")
    paths = [os.path.expanduser(path) for path in paths]
    many = [
        path
        for path in paths
        if os.path.isdir(path) or (not os.path.exists(path) and re.search(r"[*?{[]|://", path))
    ]
    if len(paths) == 2 and not many:
        FLAGS["image1"].value, FLAGS["image2"].value = paths
    elif len(paths) == 1 and not many and not _is_video(paths[0]):
        found = "is one image" if os.path.exists(paths[0]) else "does not exist"
        raise InputError(f"{paths[0]} {found}; a pair needs two images.")
    else:
        FLAGS["images"].value = ",".join(paths)


def _match_sample() -> dict[str, Any]:
    print("no images given: matching scikit-image's motorcycle, a stereo pair", flush=True)
    folder = importlib.resources.files("skimage") / "data"
    left, right = (str(folder / f"motorcycle_{side}.png") for side in ("left", "right"))
    return _match_pair(left, right, FLAGS.output or "matches.png")


def _match_pair(path1: str, path2: str, output: str) -> dict[str, Any]:
    from doap_tf import matching
    from doap_tf.readers.images import read_image

    outputs = [os.path.expanduser(path) for path in output.split(",") if path]
    pictures = [
        path
        for path in outputs
        if pathlib.Path(path).suffix.lower() not in matching.MATCH_FILE_SUFFIXES
    ]
    for path in pictures:
        _check_picture("output", path)
    _check_picture("draw_frames", FLAGS.draw_frames)
    inputs = {os.path.realpath(path) for path in (path1, path2)}
    for path in filter(None, [*outputs, FLAGS.draw_frames]):
        if os.path.realpath(path) in inputs:
            raise InputError(f"{path} is one of the images to match: give another --output.")
        if os.path.isdir(path):
            raise InputError(f"{path} is a folder: give the name of a file.")
    image1, image2 = read_image(path1), read_image(path2)
    make_extractor, matcher, verifier = _components()
    extractor = make_extractor()
    both = progress([(path1, image1), (path2, image2)], "describing", unit="image", leave=False)
    features1, features2 = (_extract(extractor, path, image) for path, image in both)
    pair = matching.match_features(features1, features2, matcher, verifier)
    if FLAGS.rotations == "auto":
        pair = matching.match_turned(pair, image1, image2, extractor, matcher, verifier)
    for path, features in ((path1, features1), (path2, pair.features2)):
        print(f"{path}: {count(len(features.frames), 'keypoint')}")
    print(f"{count(len(pair.indices), 'match')} ({FLAGS.method})")
    if pair.reliable:
        median = np.median(pair.residuals[pair.inliers])
        matrix = "homography" if pair.geometry == "homography" else f"{pair.geometry} matrix"
        print(
            f"{count(pair.inliers.sum(), 'inlier')} of this {matrix}, half of them within "
            f"{median:.2f} pixels:\n{pair.model}"
        )
    if pair.reliable is not None:
        verdict = "matched" if pair.reliable else "no reliable match"
        print(f"{verdict} (confidence {pair.confidence:.2f})")
    if pair.turn:
        print(f"{path2} was turned to the left by {pair.turn} degrees")
    settings = matching.all_settings(extractor, matcher, verifier)
    for path in outputs:
        if path in pictures:
            title = f"{_short(path1)} – {_short(path2)} · {extractor.name}"
            _write_picture(path, "draw_matches", image1, image2, pair, title)
        else:
            images = {"image1": path1, "image2": path2}
            matching.write_matches(path, pair, images | settings)
            print(path)
    if FLAGS.draw_frames:
        detector = extractor.settings().get("detector", extractor.name)
        title = f"{_short(path1)} · {detector}"
        _write_picture(FLAGS.draw_frames, "draw_frames", image1, features1.frames, title)
    keypoints = {path1: len(features1.frames), path2: len(pair.features2.frames)}
    record = matching.pair_record(path1, path2, pair)
    return {**record, "turn": pair.turn, "images": keypoints, "settings": settings}


def _match_many() -> dict[str, Any]:
    from doap_tf import matching

    _check_collection_flags()
    _print_defaults()
    images = _find_images()
    names = list(images)
    if len(names) < 2:
        raise InputError(f"--images={FLAGS.images} is one image; a pair needs two.")
    pairs: Any = _pairs(names)
    if "h5" in FLAGS.format:
        matching.check_pair_names(pairs or matching.sequential_pairs(names, 1))
    sharing = "single" if _is_video(FLAGS.images) and not FLAGS["camera"].present else FLAGS.camera
    cameras = matching.Cameras(images, sharing, FLAGS.camera_model, _intrinsics())
    with _pipeline() as pipeline:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if pairs is None and FLAGS.pairs == "retrieval":
            pairs = functools.partial(pipeline.retrieval_pairs, neighbours=FLAGS.neighbours)
        elif pairs is None:
            pairs = functools.partial(pipeline.sequential_pairs, overlap=FLAGS.overlap)
        try:
            outcome = pipeline.run(images, pairs)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; finished work is kept in {FLAGS.output}: run the same command again."
            ) from None
        for name, reason in outcome.failures.items():
            print(f"skipped {name}: {reason}", file=sys.stderr)
        for pair, reason in outcome.failed_pairs.items():
            print(f"skipped {' – '.join(pair)}: {reason}", file=sys.stderr)
        if outcome.left_out:
            print(f"left out {count(outcome.left_out, 'pair')} of skipped images", file=sys.stderr)
        report, written = pipeline.write(images, outcome, FLAGS.format, cameras)
    print(_pair_table(report["pairs"]))
    wanted = len(outcome.pairs) + outcome.left_out + len(outcome.failed_pairs)
    matched = sum(pair.get("reliable", True) for pair in report["pairs"])
    print(
        f"{len(outcome.names)} of {count(len(images), 'image')}, {matched} of "
        f"{count(wanted, 'pair')} "
        f"matched; {FLAGS.output} holds {', '.join(written)}; see {FLAGS.output}/index.html"
    )
    return report


def _check_collection_flags() -> None:
    from doap_tf.matching.pipeline import FORMATS

    for name in FLAGS.format:
        check_choice("--format", name, FORMATS)
    if not FLAGS.output:
        raise InputError("give --output, the folder to write to.")
    if _is_video(FLAGS.images) and not FLAGS["pairs"].present:
        FLAGS["pairs"].value = "sequential"
    if FLAGS["every"].present and not _is_video(FLAGS.images):
        raise InputError("--every is for a video only, such as --images=walk.mp4.")
    for name, flag, value in (
        ("neighbours", "pairs", "retrieval"),
        ("overlap", "pairs", "sequential"),
        ("camera", "format", "colmap"),
        ("camera_model", "format", "colmap"),
    ):
        if FLAGS[name].present and value not in (FLAGS[flag].value or ()):
            raise InputError(f"--{name} is for --{flag}={value} only.")
    for name in ("draw_frames", "rotations"):
        if FLAGS[name].present:
            raise InputError(f"--{name} is for a pair, --image1 and --image2.")
    if FLAGS.shards is not None and FLAGS.beam_options is None:
        raise InputError("--shards is for --beam_options only.")


def _print_defaults() -> None:
    """Prints what --format=colmap changes, and why."""
    changed = [
        f"--{flag}={_value(flag)}" for flag in _COLMAP_DEFAULTS if _value(flag) != FLAGS[flag].value
    ]
    if changed:
        print(
            f"for COLMAP by default {' '.join(changed)}: exact positions and many keypoints make "
            "more points at a smaller error",
            flush=True,
        )


def _is_video(path: str) -> bool:
    from doap_tf.readers.video_frames import VIDEO_SUFFIXES

    return path.lower().endswith(VIDEO_SUFFIXES) and os.path.isfile(path)


def _find_images() -> dict[str, Any]:
    if _is_video(FLAGS.images):
        from doap_tf.readers.video_frames import write_video_frames

        paths = write_video_frames(FLAGS.images, pathlib.Path(FLAGS.output, "frames"), FLAGS.every)
        return {path.name: path for path in paths}
    module = "doap_tf.beam" if "://" in FLAGS.images else "doap_tf.matching"
    return dict(importlib.import_module(module).find_images(FLAGS.images))


def _pairs(names: list[str]) -> list[tuple[str, str]] | None:
    """The pairs to match; None for those that are chosen after the images are described."""
    from doap_tf import matching
    from doap_tf.matching.shortlist import check_shortlist

    if FLAGS.pairs == "retrieval":
        check_shortlist(FLAGS.neighbours, len(names))
        return None
    if FLAGS.pairs == "exhaustive":
        return matching.exhaustive_pairs(names)
    if FLAGS.pairs == "sequential":
        matching.sequential_pairs(names, FLAGS.overlap)  # refuses what it does not take
        return None
    if os.path.exists(FLAGS.pairs):
        return matching.read_pairs(FLAGS.pairs, names)
    raise InputError(
        f"--pairs must be {', '.join(_PAIRS)} or a file of pairs, not {FLAGS.pairs!r}."
        f"{suggestion(FLAGS.pairs, _PAIRS)}"
    )


def _pair_table(pairs: list[dict[str, Any]]) -> str:
    """The pairs with the most and the fewest inliers, or matches if nothing was verified."""
    from doap_tf.drawing.tables import Table

    columns: list[str] = [name for name in ("matches", "inliers", "geometry") if name in pairs[0]]
    ranked = sorted(pairs, key=lambda pair: pair.get("inliers", pair["matches"]), reverse=True)
    best = ranked[:_SHOWN_PAIRS]
    shown = best + ranked[max(len(best), len(ranked) - _SHOWN_PAIRS) :]
    rows = {}
    for number, pair in enumerate(shown):
        if number == len(best) and len(shown) < len(ranked):
            rows["…"] = dict.fromkeys(columns, "…")
        names = f"{pair['image1']} – {pair['image2']}"
        rows[names] = {name: _cell(pair, name) for name in columns}
    note = "" if len(shown) == len(ranked) else f"\n(of {len(ranked)} pairs, by {columns[:2][-1]})"
    return Table(rows, "", str).text() + note


def _cell(pair: dict[str, Any], column: str) -> str:
    if column == "geometry":
        return pair["geometry"] if pair["reliable"] else "no reliable match"
    return f"{pair[column]:,}"


def _pipeline():
    from doap_tf.matching import Pipeline

    extractor, matcher, verifier = _components()
    if FLAGS.beam_options is None:
        return Pipeline(FLAGS.output, extractor(), matcher, verifier)
    from doap_tf.matching.beam_pipeline import BeamPipeline

    steps = extractor(), matcher, verifier, extractor
    return BeamPipeline(FLAGS.output, *steps, FLAGS.beam_options, FLAGS.shards)


def _components():
    """What makes the extractor, a matcher and a verifier."""
    from doap_tf import matching

    matcher = matching.NearestNeighbours(_value("method"), _value("ratio"))
    geometry = None if FLAGS.geometry == "none" else FLAGS.geometry
    threshold = _value("threshold")
    verifier = matching.Verifier(geometry, threshold, _intrinsics(), estimator=FLAGS.estimator)
    extractor = functools.partial(
        matching.DescriptorExtractor,
        _model(),
        _value("detector"),
        _value("max_keypoints"),
        _numbers("magnification", "14 or 8,28"),
        _oriented(),
        max_image_size=FLAGS.max_image_size,
    )
    return extractor, matcher, verifier


def _oriented() -> bool:
    if FLAGS.oriented is not None:
        return FLAGS.oriented
    return bool(FLAGS.images) or FLAGS.rotations == "none" or FLAGS.geometry == "none"


def _extract(extractor, path: str, image: np.ndarray):
    try:
        return extractor.extract(image)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _model() -> str:
    of_patches = any(FLAGS[name].present for name in ("detector", "magnification", "oriented"))
    if FLAGS.images or of_patches:
        return FLAGS.model or DEFAULT_DESCRIPTOR
    return FLAGS.model or DEFAULT_FOR_PAIRS


def _value(flag: str) -> Any:
    """The value of a flag whose default is another for --format=colmap."""
    from doap_tf.zoo.loading import DENSE, network_of_images

    own_keypoints = flag == "detector" and network_of_images(_model()) == DENSE
    for_colmap = FLAGS.images and "colmap" in FLAGS.format and not own_keypoints
    if for_colmap and not FLAGS[flag].present:
        return _COLMAP_DEFAULTS[flag]
    return FLAGS[flag].value


def _intrinsics() -> np.ndarray | None:
    values = _numbers("intrinsics", "fx,fy,cx,cy")
    if values is None:
        return None
    if len(values) != 4:
        raise InputError(f"--intrinsics must be fx,fy,cx,cy, not {len(values)} numbers.")
    fx, fy, cx, cy = values
    return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])


def _numbers(flag: str, example: str) -> list[float] | None:
    values = FLAGS[flag].value
    if values is None:
        return None
    try:
        return [float(value) for value in values]
    except ValueError as error:
        raise InputError(f"--{flag} must be like {example}, not {','.join(values)}.") from error


def _check_picture(flag: str, path: str | None) -> None:
    if not path:
        return
    import PIL.Image

    formats = PIL.Image.registered_extensions()
    if formats.get(pathlib.Path(path).suffix.lower()) not in PIL.Image.SAVE:
        raise InputError(f"--{flag}={path} is not the name of a picture, such as {path}.png.")


def _write_picture(path: str, function: str, *arguments: Any) -> None:
    from doap_tf.drawing import matches, pictures

    pictures.write_picture(path, getattr(matches, function)(*arguments))
    print(path)


def _short(path: str) -> str:
    return files.printable("/".join(pathlib.PurePath(path).parts[-2:]))


def run() -> None:
    command_line.run(main, "[IMAGE IMAGE | FOLDER | PATTERN ...]")
