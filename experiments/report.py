"""Tables and pictures of the runs in a file of results.

python experiments/report.py --results=docs/experiments/runs.jsonl.gz --pictures=docs/experiments
python experiments/report.py --results=docs/experiments/patch_networks.jsonl.gz
python experiments/report.py --results=docs/experiments/oxford.jsonl.gz --baseline=rootsift

Sweeps: each variant is represented by the learning rate with the best validation mAP at its first
seed. Scores are means over the seeds at that rate, ± the largest deviation from the mean.

Records of train_main.py: one row per recipe with the scores of its seeds.

Scores of image pairs, of match_pairs.py and of evaluate_main.py's benchmarks of images: means
over the pairs with 95 % intervals, and differences from --baseline on the same pairs. Areas under
curves are means over the seeds of the estimator, in per cent.

Every line tells its git_revision. "committed with …" names the commit that brought a line which was
measured before revisions were kept.
"""

import gzip
import json
import pathlib
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags
from matplotlib.figure import Figure

from doap_tf import command_line
from doap_tf.drawing.pictures import render, write_picture
from doap_tf.drawing.tables import Table
from doap_tf.errors import InputError
from doap_tf.evaluation.two_view_scores import area_under_curve, bootstrap_interval

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "results",
    "docs/experiments/runs.jsonl.gz",
    "Runs, one JSON object per line, packed (.gz) or not.",
)
flags.DEFINE_string("baseline", None, "Model of image pairs to compare with; the first by default.")
flags.DEFINE_string("pictures", None, "Folder for pictures of sweeps over the list length.")

_SCORES = {
    "matching_map": "matching mAP",
    "matching_map_tough": "matching mAP, tough",
    "retrieval_map": "retrieval mAP",
    "fpr95": "FPR95",
}
_DENSE_SCORES = {
    "photos_corners": "photographs, corners",
    "webcams_corners": "webcams, corners",
    "photos_keypoints": "photographs, keypoints",
    "webcams_keypoints": "webcams, keypoints",
}
_PARTS = ("validation", "test")

# What may differ between the seeds of a recipe.
_BESIDE = ("seed", "checkpoint_every", "validate_every", "log_every")

Runs = list[dict[str, Any]]


def main(argv: Sequence[str]) -> None:
    del argv
    try:
        with (gzip.open if FLAGS.results.endswith(".gz") else open)(FLAGS.results, "rt") as file:
            runs = [json.loads(line) for line in file]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"cannot read --results={FLAGS.results}: {error}.") from error
    for line, run in enumerate(runs, start=1):
        if not (run.get("git_revision") or run.get("environment", {}).get("git_revision")):
            raise InputError(
                f"line {line} of {FLAGS.results} does not tell the git_revision it was measured "
                "at: measure again in a checkout, or with DOAP_TF_REVISION set in a copy of one."
            )
    if runs and "config" in runs[0]:
        print(records_table(runs))
        return
    if runs and "pairs" in runs[0]:
        for title, table_of_models in pipeline_tables(runs, FLAGS.baseline).items():
            print(f"\n{title}\n\n{table_of_models}")
        return
    if runs and not runs[0].keys().isdisjoint(("pair", "benchmark")):
        for title, values in pair_scores(runs).items():
            print(f"\n{title}\n\n{pairs_table(values, FLAGS.baseline or next(iter(values)))}")
        return
    for experiment in dict.fromkeys(run["experiment"] for run in runs):
        variants = at_best_rate([run for run in runs if run["experiment"] == experiment])
        print(f"\n{experiment}\n\n{table(variants)}")
        if FLAGS.pictures and all(name.rpartition("-")[2].isdigit() for name in variants):
            write_picture(pathlib.Path(FLAGS.pictures) / f"{experiment}.png", draw(variants))


def at_best_rate(runs: Runs) -> dict[str, Runs]:
    """Returns the runs of each variant at the rate that is best at its first seed."""
    chosen = {}
    for variant in dict.fromkeys(run["variant"] for run in runs):
        mine = [run for run in runs if run["variant"] == variant]
        first = [run for run in mine if run["seed"] == mine[0]["seed"]]
        best = max(first, key=lambda run: run["scores"]["validation"]["matching_map"])
        chosen[variant] = [run for run in mine if run["learning_rate"] == best["learning_rate"]]
    return chosen


def table(variants: dict[str, Runs]) -> str:
    """Returns a Markdown table: one row per variant, validation / test in each cell."""
    rows = {}
    for name, runs in variants.items():
        rows[name] = {"rate": f"{runs[0]['learning_rate']:g}", "seeds": len(runs)}
        for score, title in _SCORES.items():
            parts = []
            for part in _PARTS:
                values = np.array([run["scores"][part][score] for run in runs])
                spread = np.abs(values - values.mean()).max()
                parts.append(f"{values.mean():.3f}" + (f" ±{spread:.3f}" if len(runs) > 1 else ""))
            rows[name][title] = " / ".join(parts)
    return Table(rows, "variant").markdown()


def records_table(records: Runs) -> str:
    """Returns a Markdown table: one row per recipe, the scores of its seeds side by side.

    A recipe that is there with a seed already was run again, or with other code: a row of its own.
    """
    seeds_of_rows: list[dict[int, dict[str, Any]]] = []
    newest: dict[str, dict[int, dict[str, Any]]] = {}
    for line, record in enumerate(records, start=1):
        seed = record["config"]["seed"]
        lists = re.sub(r"seed=\d+", "", record.get("lists", ""))
        config = {name: v for name, v in record["config"].items() if name not in _BESIDE}
        recipe = json.dumps([config, lists])
        if recipe not in newest or seed in newest[recipe]:
            newest[recipe] = {}
            seeds_of_rows.append(newest[recipe])
        newest[recipe][seed] = record | {"line": line}
    rows = {}
    for by_seed in seeds_of_rows:
        runs = [by_seed[seed] for seed in sorted(by_seed)]
        row = {"run": ", ".join(run["run"] for run in runs)} if "run" in runs[0] else {}
        row["flags"] = re.sub(r" --seed=\d+", "", runs[0]["flags"])
        row["seeds"] = ", ".join(map(str, sorted(by_seed)))
        scores = [_scores_of(run) for run in runs]
        for title in scores[0] | scores[-1]:
            row[title] = ", ".join(f"{each[title]:.3f}" for each in scores if title in each)
        rows[", ".join(str(run["line"]) for run in runs)] = row
    return Table(rows, "line").markdown()


def pair_scores(records: Runs) -> dict[str, dict[str, np.ndarray]]:
    """Returns scores [N] of the pairs of image sequences by title and model."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for record in records:
        if "benchmark" in record:
            for name, value in _flattened(record["scores"]):
                if re.search(r", 1-\d$", name):
                    title = f"AP, {record['protocol']}"
                    scores.setdefault(title, {}).setdefault(record["model"], {})[name] = value
            continue
        sequences = "HPatches" if record["pair"].startswith(("i_", "v_")) else "Oxford"
        for index, tolerance in enumerate(record["tolerances"]):
            right = record["right"][index]
            for title, value in (
                ("right matches at distinct places", record["places"][index]),
                ("share of right matches", right / max(record["matches"], 1)),
            ):
                title += f", {sequences}, {record['keypoints']} keypoints, {tolerance:g} px"
                scores.setdefault(title, {}).setdefault(record["model"], {})[record["pair"]] = value
    return {
        title: {
            model: np.array([of_pairs[pair] for pair in sorted(of_pairs)])
            for model, of_pairs in by_model.items()
            if len(of_pairs) == max(map(len, by_model.values()))
        }
        for title, by_model in scores.items()
    }


def pipeline_tables(records: Runs, baseline: str | None) -> dict[str, str]:
    """Returns a Markdown table for every benchmark of images: one row per model."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        tables.setdefault(f"{record['benchmark']} of {record['split']}", {})[record["model"]] = (
            record
        )
    return {title: _pipeline_table(models, baseline) for title, models in tables.items()}


def _pipeline_table(models: dict[str, dict[str, Any]], baseline: str | None) -> str:
    first = models.get(baseline or "") or next(iter(models.values()))
    areas = [name for name in first["scores"]["all"] if name.startswith("AUC")]
    middle = areas[len(areas) // 2]
    limit = float(middle.split()[1].rstrip("°"))
    errors, of_first = np.stack([_errors(each) for each in models.values()]), _errors(first)
    places = {name: _places(each) for name, each in models.items()}

    def statistic(rows: np.ndarray) -> np.ndarray:
        own = 100 * area_under_curve(errors[..., rows], limit).mean(axis=-1)
        return np.stack([own, own - 100 * area_under_curve(of_first[:, rows], limit).mean()])

    gains = statistic(np.arange(errors.shape[-1]))[1]
    (low, low_gain), (high, high_gain) = bootstrap_interval(statistic, errors.shape[-1])
    rows = {}
    for number, (model, record) in enumerate(models.items()):
        groups = record["scores"] if len(record["scores"]) > 2 else {"all": record["scores"]["all"]}
        row = {
            group: " / ".join(f"{100 * scores[name]:.1f}" for name in areas)
            for group, scores in groups.items()
        }
        row[f"95 % of {middle}"] = f"{low[number]:.1f}–{high[number]:.1f}"
        if record is not first:
            row["difference"] = (
                f"{gains[number]:+.1f} ({low_gain[number]:+.1f} to {high_gain[number]:+.1f})"
            )
            row["difference in places"] = _mean(places[model] - _places(first), "+.0f", " to ")
        for name, share in record["scores"]["all"].items():
            if name not in areas:
                row[name] = f"{100 * share:.1f}"
        row["places"] = f"{places[model].mean():.0f}"
        for name, form in (("threshold [px]", "g"), ("CPU seconds", ".2f")):
            if name in record["measures"]:
                row[name] = f"{record['measures'][name]:{form}}"
        rows[model] = row
    return Table(rows, f"{errors.shape[-1]} pairs").markdown()


def _places(record: dict[str, Any]) -> np.ndarray:
    """Returns the numbers [N] of right matches at distinct places."""
    return np.array([pair["distinct"] for pair in record["pairs"].values()], float)


def _errors(record: dict[str, Any]) -> np.ndarray:
    """Returns the errors [S, N] of a record, infinite where nothing was estimated."""
    errors = [pair["errors"] for pair in record["pairs"].values()]
    return np.array([[np.inf if e is None else e for e in each] for each in errors]).T


def pairs_table(values: dict[str, np.ndarray], baseline: str) -> str:
    """Returns a Markdown table: one row per model, its mean over pairs and the difference."""
    if baseline not in values:
        raise InputError(f"--baseline must be one of {', '.join(values)}, not {baseline!r}.")
    rows = {}
    for model, of_pairs in values.items():
        digits = ".1f" if of_pairs.max() > 1 else ".3f"
        rows[model] = {
            "mean": _mean(of_pairs, digits, "–"),
            f"minus {baseline}": _mean(of_pairs - values[baseline], f"+{digits}", " … "),
        }
    return Table(rows, f"{len(values[baseline])} pairs").markdown()


def _mean(values: np.ndarray, form: str, dash: str) -> str:
    interval = bootstrap_interval(lambda rows: values[rows].mean(), len(values))
    return f"{values.mean():{form}} ({dash.join(f'{end:{form}}' for end in interval)})"


def _scores_of(record: dict[str, Any]) -> dict[str, float]:
    """Returns the validation scores of a record, or its scores on benchmarks, by their titles."""
    if "best" in record:
        best = record["best"]
        titles = _SCORES | _DENSE_SCORES
        return {title: best[score] for score, title in titles.items() if score in best}
    return dict(_flattened(record["scores"]))


def _flattened(scores: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in scores.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}, ")
        else:
            yield f"{prefix}{name}", value


def draw(variants: dict[str, Runs]) -> np.ndarray:
    """Draws matching mAP over the list length, at which the names of variants end (`ap-2048`).

    Lines are means over seeds, dots the seeds.
    """
    lines: dict[str, dict[int, Runs]] = {}
    for name, runs in variants.items():
        loss, _, ending = name.rpartition("-")
        lines.setdefault(loss, {})[int(ending)] = runs
    figure = Figure(figsize=(7.5, 3.2), dpi=120, layout="constrained")
    axes = figure.subplots()
    for number, (loss, by_length) in enumerate(lines.items()):
        by_length = dict(sorted(by_length.items()))
        for part, style in zip(_PARTS, ("-", "--"), strict=True):
            values = [
                [run["scores"][part]["matching_map"] for run in runs] for runs in by_length.values()
            ]
            means = [np.mean(of_length) for of_length in values]
            axes.plot(list(by_length), means, style, color=f"C{number}", label=f"{loss}, {part}")
            for length, of_length in zip(by_length, values, strict=True):
                axes.plot([length] * len(of_length), of_length, ".", color=f"C{number}")
    lengths = sorted({length for by_length in lines.values() for length in by_length})
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.set_xlabel("patches per list")
    axes.set_ylabel("matching mAP")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    return render(figure)


if __name__ == "__main__":
    command_line.run(main)
