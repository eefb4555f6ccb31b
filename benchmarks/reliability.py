"""Long checks of reliability: damaged files, killed runs, full disks and steady memory.

python benchmarks/reliability.py --check=fuzz --count=10000
python benchmarks/reliability.py --check=kills --count=30
python benchmarks/reliability.py --check=disk
python benchmarks/reliability.py --check=soak --minutes=10
"""

import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS

flags.DEFINE_enum("check", None, ["fuzz", "kills", "disk", "soak"], "What to check.")
flags.DEFINE_integer("count", 10_000, "Damaged inputs of each reader, or kills.", lower_bound=1)
flags.DEFINE_list("targets", None, "With --check=fuzz: readers; all by default.")
flags.DEFINE_float("minutes", 10, "With --check=soak: duration.")
flags.DEFINE_list(
    "sizes", ["200k", "400k", "700k", "1000k"], "With --check=disk: sizes of disks to train on."
)

_MAX_GROWTH_MB = 256
_MAX_CREEP = 1.05  # growth of memory over the second half of a soak


def main(argv: Sequence[str]) -> None:
    del argv
    if not FLAGS.check:
        raise InputError("give --check, one of fuzz, kills, disk, soak.")
    with tempfile.TemporaryDirectory() as folder:
        {"fuzz": _fuzz, "kills": _kill, "disk": _fill_disk, "soak": _soak}[FLAGS.check](
            pathlib.Path(folder)
        )


def _fuzz(folder: pathlib.Path) -> None:
    from tests.reliability.fuzzing import fuzz
    from tests.reliability.targets import TARGETS

    print("reader          damaged  refused  accepted  wrong  memory  seconds")
    failed = []
    for name in FLAGS.targets or TARGETS:
        start = time.perf_counter()
        counts = fuzz(TARGETS[name](), FLAGS.count, folder)
        print(
            f"{name:<14} {FLAGS.count:>8,} {counts.refused:>8,} {counts.accepted:>9,} "
            f"{sum(counts.wrong.values()):>6} {counts.growth_mb:>+4.0f} MB "
            f"{time.perf_counter() - start:>8.0f}",
            flush=True,
        )
        for description, count in counts.wrong.items():
            print(f"    {count} × {description}", flush=True)
        if counts.wrong or counts.growth_mb > _MAX_GROWTH_MB:
            failed.append(name)
    if failed:
        raise SystemExit(f"FAILED: {', '.join(failed)}")


def _kill(folder: pathlib.Path) -> None:
    from tests.reliability.kills import Kills

    kills = Kills(folder)
    writing = 0
    for number in range(FLAGS.count):
        kill = kills.run(number)
        writing += bool(kill.writing)
        print(
            f"{number + 1}: killed {kill.moment}, with checkpoint {kill.checkpoint}, "
            f"while writing {', '.join(kill.writing) or 'nothing'}: resumed, bit-identical",
            flush=True,
        )
    print(f"{FLAGS.count} kills, {writing} while writing: all resumed and ended bit-identical")


def _fill_disk(folder: pathlib.Path) -> None:
    from tests.reliability import disks
    from tests.reliability.kills import Kills

    place = folder / "disk"
    place.mkdir()
    for name, write in disks.WRITERS.items():
        for trouble in (disks.really_full, disks.really_read_only):
            with disks.mounted(place, "64m"):
                print(f"{name}, {trouble.__name__}: {disks.refusal(write, place, trouble)}")
    kills = Kills(folder)
    for size in FLAGS.sizes:
        with disks.mounted(place, size):
            said = kills.run_out_of_room(place / "run", lambda: disks.resize(place, "64m"))
        print(f"training on {size}: {said}; resumed, bit-identical", flush=True)


def _soak(folder: pathlib.Path) -> None:
    import cv2
    import numpy as np

    import doap_tf
    from doap_tf.matching import DescriptorExtractor, match_descriptors, match_features
    from tests.matching.scene import views
    from tests.reliability.fuzzing import memory_mb

    random = np.random.default_rng(0)
    names = doap_tf.list_pretrained()
    descriptors = [doap_tf.from_pretrained(name) for name in names]
    extractors = [DescriptorExtractor(name, max_keypoints=500) for name in names]
    image1, image2 = views()
    start = time.monotonic()
    described, rounds, memory = 0, 0, []
    while (minutes := (time.monotonic() - start) / 60) < FLAGS.minutes:
        number = rounds % len(names)
        count, side = random.integers(1, 1500), random.choice([32, 42, 50, 65])
        patches = random.integers(0, 256, (2, count, side, side), np.uint8)
        rows1, rows2 = (descriptors[number].describe(part, 256) for part in patches)
        for method in ("mutual", "ratio"):
            match_descriptors(rows1, rows2, descriptors[number].norm, method)
        angle = random.uniform(-10, 10)
        turned = cv2.warpAffine(image2, cv2.getRotationMatrix2D((200, 150), angle, 1), (400, 300))
        features = [extractors[number].extract(image) for image in (image1, turned)]
        match_features(*features)
        described, rounds = described + 2 * count, rounds + 1
        if minutes >= len(memory) * FLAGS.minutes / 20:
            memory.append(memory_mb())
            print(f"{minutes:5.1f} min  {rounds:>5} rounds  {memory[-1]:,.0f} MB", flush=True)
    memory.append(memory_mb())
    print(
        f"{rounds} rounds, {described:,} patches: {memory[0]:,.0f} MB at the start, "
        f"{memory[len(memory) // 2]:,.0f} MB in the middle, {memory[-1]:,.0f} MB at the end"
    )
    if memory[-1] > memory[len(memory) // 2] * _MAX_CREEP:
        raise SystemExit("FAILED: memory grows")


if __name__ == "__main__":
    command_line.run(main)
