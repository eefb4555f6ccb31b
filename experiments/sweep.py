"""Trains the variants of an experiment over several seeds and appends every run to a file.

python experiments/sweep.py --plan=experiments/losses.json --groups=FOLDER --results=runs.jsonl

A plan names settings common to all variants, the variants, rates to try and seeds. The rate of a
variant is the one with the best validation mAP at the first seed; the other seeds run at that. One
compiled step serves all runs of a variant. Runs that the file of results holds are not repeated,
so a sweep that was interrupted goes on. The network that is scored is the last, not the best, one.
"""

import dataclasses
import datetime
import functools
import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags

from doap_tf import commands, files
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_string("plan", None, "The experiment, JSON.", required=True)
flags.DEFINE_string(
    "groups", None, "Folder that holds the plan's folders of groups.", required=True
)
flags.DEFINE_string(
    "results", None, "File to append runs to, one JSON object a line.", required=True
)
flags.DEFINE_list("variants", [], "Only these of the plan.")
flags.DEFINE_string("networks", None, "Folder to keep the trained networks in.")
flags.DEFINE_float("minutes", 0, "Start no further run after so many minutes; 0 for no limit.")

_RETRIEVED = (0, 6, 7)  # the reference and two targets with hard jitter


def main(argv: Sequence[str]) -> None:
    del argv
    started = time.monotonic()
    plan = _read_plan(pathlib.Path(FLAGS.plan))
    results = pathlib.Path(FLAGS.results)
    variants = FLAGS.variants or list(plan["variants"])
    for name in variants:
        if name not in plan["variants"]:
            raise InputError(
                f"{FLAGS.plan} has no variant {name!r}; it has {', '.join(plan['variants'])}."
            )
        variant = Variant(plan, name, pathlib.Path(FLAGS.groups))
        for rate, seed in variant.missing_runs(results):
            if FLAGS.minutes and time.monotonic() - started > 60 * FLAGS.minutes:
                print("out of time", flush=True)
                return
            run = variant.run(rate, seed)
            _append(results, run)
            if FLAGS.networks:
                variant.save(pathlib.Path(FLAGS.networks) / f"{name}-{rate}-{seed}.keras")
            scores = " ".join(
                f"{part} {scores['matching_map']:.4f}" for part, scores in run["scores"].items()
            )
            print(
                f"{plan['experiment']} {name}: rate {rate}, seed {seed}: {scores}, loss "
                f"{run['loss']:.4f}, {run['seconds']:.1f} s",
                flush=True,
            )


class Variant:
    """One way to train, which is compiled once."""

    def __init__(self, plan: dict[str, Any], name: str, folder: pathlib.Path):
        self._settings = {**plan["common"], **plan["variants"][name]}
        self._name = name
        self._experiment = plan["experiment"]
        self._folder = folder
        self._seeds = plan["seeds"]
        self._rates = self._settings.pop("learning_rates")
        self._prepared = False

    def missing_runs(self, results: pathlib.Path):
        """Rate and seed of each run still to do: all rates first, then all seeds at the best."""
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
        """Validation mAP of the runs in the file, by rate and seed."""
        if not results.exists():
            return {}
        runs = [json.loads(line) for line in results.read_text().splitlines()]
        return {
            (run["learning_rate"], run["seed"]): run["scores"]["validation"]["matching_map"]
            for run in runs
            if (run["experiment"], run["variant"]) == (self._experiment, self._name)
        }

    def run(self, rate: float, seed: int) -> dict[str, Any]:
        """Trains once; gives what the file of results holds of it."""
        from doap_tf.training.batches import Batches
        from doap_tf.training.sampling import make_sampler

        if not self._prepared:
            self._prepare()
        config = dataclasses.replace(self._config, learning_rate=rate)
        self._step.restart(seed)
        sampler = make_sampler(
            self._sampling["sampler"],
            self._parts,
            self._sampling["weights"],
            config.batch_size,
            seed,
            self._sampling["views"],
            self._sampling["sequence_share"],
        )
        losses = []
        start = time.perf_counter()
        with Batches(
            self._groups, sampler, with_sequences=config.same_sequence != "distractors"
        ) as batches:
            for number in range(config.steps):
                batch = next(batches)
                losses.append(
                    self._step(batch.patches, batch.labels, config.rate_at(number), number)
                )
            last = float(np.mean([float(loss) for loss in losses[-200:]]))
        seconds = time.perf_counter() - start
        for plain, trained in zip(self._plain.weights, self._step.network.weights, strict=True):
            plain.assign(trained)
        return {
            "experiment": self._experiment,
            "variant": self._name,
            "learning_rate": rate,
            "seed": seed,
            "settings": self._settings,
            "steps": config.steps,
            "loss": last,
            "seconds": round(seconds, 1),
            "patches_per_second": round(config.steps * config.batch_size / seconds),
            "scores": {part: self._evaluate(part) for part in self._validations},
            "data": self._data,
            **self._environment,
        }

    def save(self, path: pathlib.Path) -> None:
        """Keeps the network of the last run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.write_atomically(path) as temporary:
            self._plain.save(temporary)

    def _prepare(self) -> None:
        import tensorflow as tf

        from doap_tf.data import PatchGroups, mine_labels
        from doap_tf.descriptors.descriptor import Descriptor
        from doap_tf.training.config import TrainingConfig
        from doap_tf.training.record import environment
        from doap_tf.training.step import TrainingStep, make_network
        from doap_tf.training.validation import Validation

        settings = dict(self._settings)
        self._sampling = {key: settings.pop(key) for key in ("sampler", "weights", "views")}
        self._sampling["sequence_share"] = settings.pop("sequence_share", None)
        folders = {
            key: [self._folder / name for name in settings.pop(key)]
            for key in ("groups", "validation", "test")
        }
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        self._config = TrainingConfig(
            precision=settings.pop("precision", "mixed_bfloat16" if on_gpu else "float32"),
            xla=on_gpu,
            **settings,
        )
        self._parts, self._groups = _load(*folders["groups"])
        if self._config.same_sequence == "mined":
            self._parts = [mine_labels(part) for part in self._parts]
            self._groups = PatchGroups.concatenate(self._parts)
        self._validations = {
            part: Validation(_load(*folders[part])[1]) for part in ("validation", "test")
        }
        if self._config.same_sequence == "mined":
            self._step = TrainingStep(
                self._config, tf.distribute.get_strategy(), self._groups.far_apart
            )
        else:
            self._step = _compiled_step(dataclasses.replace(self._config, steps=1))
        self._plain = make_network(self._config)
        self._descriptor = Descriptor(self._plain)
        self._data = [str(part) for part in self._parts]
        about = environment()
        self._environment = {
            "date": datetime.date.today().isoformat(),
            "devices": about["devices"],
            "tensorflow": about["packages"]["tensorflow"],
        }
        self._prepared = True

    def _evaluate(self, part: str) -> dict[str, float]:
        from doap_tf import metrics

        validation = self._validations[part]
        scores = dict(validation.evaluate(self._descriptor).scores)
        groups = validation.groups
        rows = np.concatenate(
            [groups.rows_of(g)[list(_RETRIEVED)] for g in range(groups.group_count)]
        )
        described = self._descriptor.describe(groups.patches[rows])
        precisions = metrics.retrieval_average_precisions(
            described, groups.group[rows], self._descriptor.norm
        )
        return {**scores, "retrieval_map": float(precisions.mean())}


@functools.cache
def _compiled_step(config: Any) -> Any:
    """A step that all variants share which differ in their data or length only."""
    import tensorflow as tf

    from doap_tf.training.step import TrainingStep

    return TrainingStep(config, tf.distribute.get_strategy())


@functools.cache
def _load(*folders: pathlib.Path) -> tuple[list[Any], Any]:
    """Patch groups of each folder, and all of them as one."""
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
    commands.run(main)
