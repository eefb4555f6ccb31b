"""Trains the variants of an experiment over several seeds and appends every run to a file.

python experiments/sweep.py --plan=experiments/losses.json --groups=FOLDER --results=runs.jsonl

A plan contains settings common to all variants, the variants, learning rates and seeds. The rate of
a variant is the one with the best validation mAP at the first seed; the other seeds run at that
rate. One compiled step serves all runs of a variant. Runs that the file of results contains are not
repeated, so an interrupted sweep can be continued. The last network of a run is scored, not the
best one.
"""

import dataclasses
import datetime
import functools
import json
import math
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags
from group_scores import group_scores

from doap_tf import command_line
from doap_tf.environment import git_revision
from doap_tf.errors import InputError
from doap_tf.runs import read_record

FLAGS = flags.FLAGS
flags.DEFINE_string("plan", None, "The experiment, JSON.", required=True)
flags.DEFINE_string(
    "groups", None, "Folder with the plan's folders of patch groups.", required=True
)
flags.DEFINE_string(
    "results", None, "File to append runs to, one JSON object per line.", required=True
)
flags.DEFINE_list("variants", [], "Only these variants of the plan.")
flags.DEFINE_list("seeds", [], "These seeds instead of the plan's; rates are chosen at the first.")
flags.DEFINE_string("runs", None, "Folder to keep the training directories in; none by default.")
flags.DEFINE_string("networks", None, "Folder to keep the trained networks in.")
flags.DEFINE_float("minutes", 0, "Minutes after which no further run is started; 0 for no limit.")

_DATA = ("groups", "validation", "test")
_SAMPLING = ("sampler", "weights", "views", "sequence_share")
_LOSSES = 200  # the last ones, of which the mean is kept


def main(argv: Sequence[str]) -> None:
    del argv
    with tempfile.TemporaryDirectory() as scratch:
        _sweep(pathlib.Path(FLAGS.runs or scratch))


def _sweep(runs: pathlib.Path) -> None:
    if git_revision() is None:
        raise InputError("set DOAP_TF_REVISION to the git revision of this copy of the code.")
    started = time.monotonic()
    plan = _read_plan(pathlib.Path(FLAGS.plan))
    results = pathlib.Path(FLAGS.results)
    for name in FLAGS.variants or plan["variants"]:
        if name not in plan["variants"]:
            raise InputError(
                f"{FLAGS.plan} has no variant {name!r}; it has {', '.join(plan['variants'])}."
            )
        variant = Variant(plan, name, pathlib.Path(FLAGS.groups))
        for rate, seed in variant.missing_runs(results):
            if FLAGS.minutes and time.monotonic() - started > 60 * FLAGS.minutes:
                print("out of time", flush=True)
                return
            run_name = f"{name}-{rate}-{seed}"
            run, network = variant.run(rate, seed, runs / plan["experiment"] / run_name)
            _append(results, run)
            if FLAGS.networks:
                pathlib.Path(FLAGS.networks).mkdir(parents=True, exist_ok=True)
                network.save(pathlib.Path(FLAGS.networks) / f"{run_name}.keras")
            scores = " ".join(
                f"{part} {scores['matching_map']:.4f}" for part, scores in run["scores"].items()
            )
            print(
                f"{plan['experiment']} {name}: rate {rate}, seed {seed}: {scores}, loss "
                f"{run['loss']:.4f}, {run['seconds']:.1f} s",
                flush=True,
            )


class Variant:
    """One way to train, which is compiled once.

    Args:
        plan: The experiment.
        name: One of its variants.
        folder: Contains the folders of patch groups that the plan names.
    """

    def __init__(self, plan: dict[str, Any], name: str, folder: pathlib.Path):
        self._settings = {**plan["common"], **plan["variants"][name]}
        self._name = name
        self._experiment = plan["experiment"]
        self._folder = folder
        self._seeds = [int(seed) for seed in FLAGS.seeds] or plan["seeds"]
        self._rates = self._settings.pop("learning_rates")

    def missing_runs(self, results: pathlib.Path) -> Iterator[tuple[float, int]]:
        """Yields rate and seed of each run to do: all rates first, then all seeds at the best."""
        first, *others = self._seeds
        for rate in self._rates:
            if (rate, first) not in self._scores(results):
                yield rate, first
        scores = self._scores(results)
        best = max(self._rates, key=lambda rate: scores[rate, first])
        for seed in others:
            if (best, seed) not in scores:
                yield best, seed

    def _scores(self, results: pathlib.Path) -> dict[tuple[float, int], float]:
        """Returns the validation mAP of the runs in the file, by rate and seed."""
        if not results.exists():
            return {}
        runs = [json.loads(line) for line in results.read_text().splitlines()]
        return {
            (run["learning_rate"], run["seed"]): run["scores"]["validation"]["matching_map"]
            for run in runs
            if (run["experiment"], run["variant"]) == (self._experiment, self._name)
        }

    def run(self, rate: float, seed: int, train_dir: pathlib.Path) -> tuple[dict[str, Any], Any]:
        """Trains once.

        Returns:
            What the file of results keeps of the run, and its last network.
        """
        from doap_tf.training.sampling import make_sampler
        from doap_tf.training.trainer import Trainer

        config = dataclasses.replace(self._config, learning_rate=rate, seed=seed)
        parts, groups = self._training_data
        sampler = make_sampler(
            self._settings["sampler"],
            parts,
            self._settings["weights"],
            config.batch_size,
            seed,
            self._settings["views"],
            self._settings.get("sequence_share"),
        )
        validations = {part: self._validation(part) for part in ("validation", "test")}
        trainer = Trainer(
            config, groups, sampler, validations["validation"], train_dir, step=self._step
        )
        trainer.run()
        record = read_record(train_dir)
        logged = [entry for entry in record["history"] if "loss" in entry]
        losses = [e["loss"] for e in logged if e["step"] > config.steps - _LOSSES]
        patches = config.log_every * config.batch_size
        seconds = sum(patches / entry["patches_per_second"] for entry in logged)
        about = record["environment"]
        run = {
            "experiment": self._experiment,
            "variant": self._name,
            "learning_rate": rate,
            "seed": seed,
            "settings": self._settings,
            "steps": config.steps,
            "loss": float(np.mean(losses)),
            "seconds": round(seconds, 1),
            "patches_per_second": round(config.steps * config.batch_size / seconds),
            "scores": {
                part: group_scores(trainer.descriptor, validation)
                for part, validation in validations.items()
            },
            "data": [str(part) for part in parts],
            "date": datetime.date.today().isoformat(),
            "devices": about["devices"],
            "tensorflow": about["packages"]["tensorflow"],
            "git_revision": about["git_revision"],
        }
        return run, trainer.descriptor.to_keras()

    @functools.cached_property
    def _config(self) -> Any:
        import tensorflow as tf

        from doap_tf.training.config import TrainingConfig

        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        automatic = {"precision": "mixed_bfloat16" if on_gpu else "float32", "xla": on_gpu}
        settings = {k: v for k, v in self._settings.items() if k not in (*_DATA, *_SAMPLING)}
        config = TrainingConfig(**automatic | settings)
        return dataclasses.replace(
            config,
            validate_every=config.steps,
            checkpoint_every=config.steps,
            log_every=math.gcd(config.steps, _LOSSES),
        )

    @functools.cached_property
    def _training_data(self) -> tuple[list[Any], Any]:
        """Patch groups of each folder, and all of them as one."""
        from doap_tf.data import PatchGroups, mine_labels

        parts, groups = _load(*(self._folder / name for name in self._settings["groups"]))
        if self._config.same_sequence == "mined":
            parts = [mine_labels(part) for part in parts]
            groups = PatchGroups.concatenate(parts)
        return parts, groups

    @functools.cached_property
    def _step(self) -> Any:
        import tensorflow as tf

        from doap_tf.training.step import TrainingStep
        from doap_tf.zoo import load_keras

        mined = self._config.same_sequence == "mined"
        far_apart = self._training_data[1].far_apart if mined else None
        teachers = [load_keras(name) for name in self._config.teachers]
        return TrainingStep(self._config, tf.distribute.get_strategy(), far_apart, teachers)

    def _validation(self, part: str) -> Any:
        from doap_tf.training.validation import Validation

        return Validation(_load(*(self._folder / name for name in self._settings[part]))[1])


@functools.cache
def _load(*folders: pathlib.Path) -> tuple[list[Any], Any]:
    """Returns the patch groups of each folder, and all of them as one."""
    from doap_tf.data import PatchGroups

    parts = [PatchGroups.load(folder) for folder in folders]
    return parts, PatchGroups.concatenate(parts)


def _read_plan(path: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read --plan={path}: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"--plan={path} is not JSON: {error}.") from error


def _append(path: pathlib.Path, run: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    command_line.run(main)
