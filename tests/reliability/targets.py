"""Every reader of files made by others, each with small valid files to damage."""

import contextlib
import dataclasses
import io
import itertools
import os
import pathlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable

import cv2
import numpy as np

from doap_tf.errors import InputError
from tests import layouts
from tests.reliability.mutation import mutate, mutate_behind_checksums

Files = dict[str, bytes]


@dataclasses.dataclass(frozen=True)
class Target:
    """A reader under test.

    Attributes:
        examples: Sets of valid files by name, of which one file at a time is damaged.
        read: Reads from the folder that the files lie in; may raise an InputError, nothing else.
    """

    examples: list[Files]
    read: Callable[[pathlib.Path], object]

    def mutants(self, seed: int):
        """Yields sets of files without end, each with one damaged file."""
        random = np.random.default_rng(seed)
        contents = [content for files in self.examples for content in files.values()]
        for files in itertools.cycle(self.examples):
            name = list(files)[random.integers(len(files))]
            # Not PNG as it stands: libpng makes room for whatever length a chunk claims.
            raw = random.integers(2) and not files[name].startswith(b"\x89PNG")
            change = mutate if raw else mutate_behind_checksums
            yield {**files, name: change(files[name], contents, random)}


def mosaics() -> Target:
    from doap_tf.readers.mosaics import iterate_groups, read_pairs

    examples = []
    for suffix in (".bmp", ".png", ".webp"):
        files = _written(
            lambda folder, suffix=suffix: layouts.write_ubc(folder, 3, 6, suffix=suffix)
        )
        flat = np.zeros((1024, 1024), np.uint8)
        flat[:64, :768:2] = 255
        files[f"patches0000{suffix}"] = cv2.imencode(suffix, flat)[1].tobytes()
        examples.append(files)

    def read(folder: pathlib.Path) -> None:
        read_pairs(folder)
        list(iterate_groups(folder))

    return Target(examples, read)


def strips() -> Target:
    from doap_tf.readers.strips import read_strip

    patches = _written(lambda folder: layouts.write_hpatches(folder, ["i_toy"], positions=1))
    return Target(
        [{"ref.png": patches[f"i_toy/{name}.png"]} for name in ("ref", "e1")],
        lambda folder: read_strip(folder / "ref.png"),
    )


def matlab() -> Target:
    from doap_tf.readers.rome_patches import read_rome_half

    # Version 5 is left out: SciPy's reader crashes on some damaged files.
    files = _written(lambda folder: layouts.write_rome(folder, 1, "7.3"))
    half = {name: content for name, content in files.items() if "train" in name}
    return Target([half], lambda folder: read_rome_half(folder, "train"))


def csv() -> Target:
    from doap_tf.evaluation.hpatches.tasks import read_retrieval, read_verification

    pairs = b"s1,t1,idx1,s2,t2,idx2\n" + b"i_a,0,0,i_a,1,0\nv_b,2,1,i_a,3,1\n" * 3
    patches = b"s,idx\n" + b"i_a,0\nv_b,1\n" * 3
    files = {f"verif_{kind}_split-a.csv": pairs for kind in ("pos", "neg_intra", "neg_inter")}
    files |= {f"retr_{kind}_split-a.csv": patches for kind in ("queries", "distractors")}
    lengths = {"i_a": 2, "v_b": 2}

    def read(folder: pathlib.Path) -> None:
        read_verification(folder, "a", lengths)
        read_retrieval(folder, "a", lengths)

    return Target([files], read)


def homographies() -> Target:
    from doap_tf.readers.image_sequences import read_homography

    examples = [
        b"1 0 3\n0 1 4\n0 0 1\n",
        b"  8.7976964e-01   3.1245438e-01  -3.9430589e+01\n"
        b" -1.8389418e-01   9.3847198e-01   1.5315784e+02\n"
        b"  1.9641425e-04  -1.6015275e-05   1.0000000e+00\n",
    ]
    return Target(
        [{"H1to2p": content} for content in examples],
        lambda folder: read_homography(folder / "H1to2p"),
    )


def images() -> Target:
    from doap_tf.readers.images import as_colour, as_grey, read_image, read_rgb

    random = np.random.default_rng(0)
    grey = random.integers(0, 256, (12, 10), np.uint8)
    colour = random.integers(0, 256, (12, 10, 3), np.uint8)
    alpha = random.integers(0, 256, (12, 10, 4), np.uint8)
    pictures = [
        *((suffix, grey) for suffix in (".png", ".jpg", ".bmp", ".pgm", ".tif", ".webp")),
        *((suffix, colour) for suffix in (".png", ".jpg", ".bmp", ".ppm", ".tif", ".webp")),
        *((suffix, grey.astype(np.uint16) << 8) for suffix in (".png", ".pgm", ".tif")),
        *((suffix, alpha) for suffix in (".png", ".tif", ".webp")),
        *((suffix, colour.astype(np.float32) / 255) for suffix in (".tif", ".hdr")),
        *((suffix, colour) for suffix in (".gif", ".ras")),
        (".jp2", np.tile(colour, (4, 4, 1))),
    ]
    examples = [{"image": cv2.imencode(suffix, image)[1].tobytes()} for suffix, image in pictures]
    progressive = cv2.imencode(".jpg", colour, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    # A TIFF directory of one entry: orientation (0x0112) is 6, a quarter turn.
    turn = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    turned = b"\xff\xd8\xff\xe1" + (len(turn) + 2).to_bytes(2, "big") + turn + progressive[2:]
    examples += [{"image": progressive}, {"image": turned}]

    def read(folder: pathlib.Path) -> None:
        with contextlib.suppress(InputError):  # the other ways are tried in any case
            read_rgb(folder / "image")
        as_colour(read_image(folder / "image", upright=False))
        as_grey(read_image(folder / "image"))

    return Target(examples, read)


def flag_files() -> Target:
    from absl import app, flags
    from absl.testing import flagsaver

    from doap_tf import command_line
    from doap_tf.commands import train

    app.define_help_flags()  # as app.run does
    folder = pathlib.Path(__file__).parents[2] / "flags"
    with flagsaver.flagsaver():
        train.define_flags()
        defined = flags.FLAGS.get_key_flags_for_module(train)
        whole = [flag.serialize() for flag in defined if flag.value]
    examples = [
        {"run.cfg": "\n".join([*whole, "--groups=a,b", "--train_dir=c", "--steps=9"]).encode()},
        {
            "run.cfg": b"--flagfile=more.cfg\n--steps=3\n",
            "more.cfg": b"--groups=a\n--train_dir=c\n",
        },
        *({"run.cfg": (folder / f"{name}.cfg").read_bytes()} for name in ("quickstart", "rome")),
    ]

    def read(folder: pathlib.Path) -> None:
        working = os.getcwd()
        os.chdir(folder)
        try:
            with flagsaver.flagsaver(), contextlib.redirect_stderr(io.StringIO()) as said:
                train.define_flags()
                command_line._parse(["train_main.py", "--flagfile=run.cfg"])
                train._check_flags()
        except SystemExit as end:
            lines = said.getvalue().splitlines()
            if end.code != command_line.EXIT_BAD_INPUT or len(lines) != 1:
                raise RuntimeError(f"exit code {end.code} and {len(lines)} lines") from end
            raise InputError(lines[0]) from end
        finally:
            os.chdir(working)

    return Target(examples, read)


def archives() -> Target:
    from doap_tf.readers.original_files import unpack

    files = {"top/data.txt": b"1" * 300, "top/deep/more.txt": bytes(range(256))}
    examples = []
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", compression) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        examples.append(packed.getvalue())
    for mode in ("w", "w:gz"):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        examples.append(packed.getvalue())

    def read(folder: pathlib.Path) -> None:
        target = folder / "out" / "deep"
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                unpack(folder / "archive", target)
        finally:
            shutil.rmtree(target.parent, ignore_errors=True)
            outside = [path for path in folder.rglob("*") if path.name != "archive"]
            if outside:
                raise RuntimeError(f"written outside: {outside}")

    return Target([{"archive": content} for content in examples], read)


def weights() -> Target:
    from doap_tf.networks.network_file import write_weights
    from doap_tf.zoo import from_pretrained

    files = _written(lambda folder: write_weights(_network(), folder / "weights.npz"))
    return Target([files], lambda folder: from_pretrained(folder / "weights.npz"))


def keras() -> Target:
    from doap_tf.zoo import from_pretrained

    files = _written(lambda folder: _network().save(folder / "model.keras"))
    return Target([files], lambda folder: from_pretrained(folder / "model.keras"))


def patch_groups() -> Target:
    from doap_tf.data import PatchGroups

    groups = PatchGroups.from_arrays(
        np.zeros([6, 16, 16], np.uint8), [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1], ["a", "b"]
    )
    files = _written(lambda folder: groups.save(folder / "groups"))
    return Target([files], lambda folder: PatchGroups.load(folder / "groups"))


def checkpoints() -> Target:
    from doap_tf.training.checkpoints import Checkpoints

    arrays = {"variable_0000": np.arange(12, dtype=np.float32), "count": np.array(3)}

    def write(folder: pathlib.Path) -> None:
        Checkpoints(folder).save(3, arrays, {"step": 3})

    return Target([_written(write)], lambda folder: Checkpoints(folder).newest())


TARGETS: dict[str, Callable[[], Target]] = {
    target.__name__: target
    for target in (
        mosaics,
        strips,
        matlab,
        csv,
        homographies,
        images,
        flag_files,
        archives,
        weights,
        keras,
        patch_groups,
        checkpoints,
    )
}


def _network():
    from doap_tf.networks import DescriptorNetwork

    network = DescriptorNetwork(output_dim=8, width=0.03)
    network.build((None, 32, 32, 1))
    return network


def _written(write: Callable[[pathlib.Path], object]) -> Files:
    """Returns all files that a call writes to a folder, by path below it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder)
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
