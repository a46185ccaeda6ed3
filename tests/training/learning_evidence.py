# SPDX-License-Identifier: Apache-2.0
"""`make learning-evidence`: trains the shipped recipes one after the other, evaluates them, and writes what came out.

Runs go to results/learning/<experiment>/seed<n>/, the record to results/learning/evidence.json, its tables for
docs/benchmarks.md to evidence.md beside it. Called again it goes on where it stopped: a finished run is kept, an
interrupted or killed one is resumed from its newest checkpoint.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seed_hpc.config import load_resolved
from seed_hpc.files import write_json
from seed_hpc.training.evaluate import beats_random
from seed_hpc.training.run_directory import now

# A curve in the record has about this many points.
CURVE_POINTS = 60
TABLE_POINTS = 10


@dataclass(frozen=True)
class Planned:
    """A training run, and the mean return that its evaluation must reach (None: beat the random policy)."""

    experiment: str
    seed: int
    goal: float | None = None
    max_minutes: float | None = None


GOALS = {"pong_ppo": 18.0, "breakout_ppo": 30.0}
PLAN = (
    Planned("pong_ppo", 1, GOALS["pong_ppo"]),
    Planned("breakout_ppo", 1, GOALS["breakout_ppo"]),
    Planned("pong_ppo", 2, GOALS["pong_ppo"]),
    Planned("pong_ppo", 3, GOALS["pong_ppo"]),
    Planned("breakout_r2d2", 1, max_minutes=20),
    Planned("breakout_apex_dqn", 1, max_minutes=20),
    Planned("pong_pqn", 1, max_minutes=20),
    Planned("pong_vtrace_demo", 1, max_minutes=20),
)


def parse_plan(words: list[str]) -> tuple[Planned, ...]:
    """Returns the runs of "pong_ppo:1,2,3 breakout_ppo:1"; without words the whole plan."""
    if not words:
        return PLAN
    limits = {run.experiment: run.max_minutes for run in PLAN}
    chosen = []
    for word in words:
        experiment, _, seeds = word.partition(":")
        for seed in (seeds or "1").split(","):
            chosen.append(Planned(experiment, int(seed), GOALS.get(experiment), limits.get(experiment)))
    return tuple(chosen)


def command(*words: str) -> None:
    """Runs `seed-hpc` and leaves Ctrl-C and SIGTERM to it: training writes a checkpoint then."""
    process = subprocess.Popen([sys.executable, "-m", "seed_hpc.cli", *words])
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),  # a terminal sends it to both
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        if code := process.wait():
            sys.exit(code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def status_of(folder: Path) -> str:
    """Returns the status in run.json, "" if there is none."""
    path = folder / "run.json"
    return str(json.loads(path.read_text())["status"]) if path.is_file() else ""


def make(run: Planned, results: Path, overrides: list[str]) -> bool:
    """Trains and evaluates what is still missing of a run; returns whether it is complete."""
    folder = results / run.experiment / f"seed{run.seed}"
    if status_of(folder) == "":
        limit = [] if run.max_minutes is None else [f"training.max_seconds={60 * run.max_minutes}"]
        words = ["--config", run.experiment, "--results", str(results), "--run-id", folder.name]
        command("train", *words, f"training.seed={run.seed}", *limit, *overrides)
    elif status_of(folder) != "finished":
        command("train", "--resume", str(folder))
    if status_of(folder) != "finished":
        return False
    if not (folder / "evaluation.json").is_file():
        command("evaluate", str(folder))
    return True


def thinned(lines: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Returns at most `most` of the lines, equally far apart, the last among them."""
    stride = -(-len(lines) // most)
    return lines[::-1][::stride][::-1] if lines else []


def first_above(lines: list[dict[str, Any]], goal: float) -> dict[str, Any] | None:
    """Returns time and frames of the first line whose mean return is at least `goal`."""
    for line in lines:
        if line["mean_return"] is not None and line["mean_return"] >= goal:
            return {"minutes": line["time_s"] / 60, "frames": line["frames"]}
    return None


def summary(run: Planned, folder: Path) -> dict[str, Any]:
    """Returns what the record says of a complete run."""
    info = json.loads((folder / "run.json").read_text())
    evaluation = json.loads((folder / "evaluation.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    env = load_resolved(folder / "config.yaml").env
    lives = env.episodic_life or env.life_loss_info
    names = ("time_s", "frames", "mean_return", "fps")
    phases: dict[str, float] = {}
    for line in lines:
        for phase, seconds in line["phase_seconds"].items():
            phases[phase] = phases.get(phase, 0.0) + seconds
    return {
        "experiment": run.experiment,
        "seed": run.seed,
        "game": evaluation["game"],
        "commit": info["commit"],
        "command": info["command"],
        "versions": info["versions"],
        "hardware": info["hardware"],
        "frames": info["frames"],
        "train_minutes": info["train_seconds"] / 60,
        "frames_per_s": statistics.median(line["fps"] for line in lines),
        "phase_seconds": phases,
        "curve": [{name: line[name] for name in names} for line in thinned(lines, CURVE_POINTS)],
        "evaluation": {name: evaluation[name] for name in ("episodes", "returns", "mean", "ci95", "policy", "random")},
        "curve_of": "lives" if lives else "games",
        "goal": run.goal,
        "goal_in_training": None if run.goal is None or lives else first_above(lines, run.goal),
        "reached": beats_random(evaluation) if run.goal is None else evaluation["mean"] >= run.goal,
    }


def interval(values: dict[str, Any]) -> str:
    """Returns a mean with its 95 % interval."""
    return "{:.2f} [{:.2f}, {:.2f}]".format(values["mean"], *values["ci95"])


def markdown(runs: list[dict[str, Any]]) -> str:
    """Returns the tables: a line for each run, then the curves."""
    table = [
        "| experiment | seed | frames | minutes | frames/s | evaluation | random policy | goal |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    curves = []
    for run in runs:
        evaluation = run["evaluation"]
        goal = "beat random" if run["goal"] is None else f"{run['goal']:g}"
        table.append(
            f"| `{run['experiment']}` | {run['seed']} | {run['frames'] / 1e6:.2f} M | {run['train_minutes']:.0f} "
            f"| {run['frames_per_s']:,.0f} | {interval(evaluation)} | {interval(evaluation['random'])} "
            f"| {goal}: {'reached' if run['reached'] else '**not reached**'} |"
        )
        points = [point for point in run["curve"] if point["mean_return"] is not None]
        chosen = thinned(points, TABLE_POINTS)
        curves += [
            "",
            f"`{run['experiment']}`, seed {run['seed']}, commit {(run['commit'] or 'unknown')[:7]}:",
            "",
            "| frames | " + " | ".join(f"{point['frames'] / 1e6:.1f} M" for point in chosen) + " |",
            "|---|" + "---:|" * len(chosen),
            "| minutes | " + " | ".join(f"{point['time_s'] / 60:.0f}" for point in chosen) + " |",
            f"| mean return of the last 100 {run['curve_of']} | "
            + " | ".join(f"{point['mean_return']:.1f}" for point in chosen)
            + " |",
        ]
    return "\n".join([*table, *curves]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Makes all runs; returns 1 if one was interrupted or missed its goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="EXPERIMENT:SEEDS", help="for example pong_ppo:1,2,3; default: all")
    parser.add_argument("--results", type=Path, default=Path("results/learning"), metavar="DIR")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override for new runs")
    args = parser.parse_args(arguments)
    done: list[dict[str, Any]] = []
    for run in (plan := parse_plan(args.runs)):
        if not make(run, args.results, args.set):
            print(f"{run.experiment} seed {run.seed} was interrupted: call this again to go on", file=sys.stderr)
            return 1
        done.append(summary(run, args.results / run.experiment / f"seed{run.seed}"))
        write_json(args.results / "evidence.json", {"created": now(), "runs": done})
        (args.results / "evidence.md").write_text(markdown(done))
    print(markdown(done))
    return 0 if len(done) == len(plan) and all(run["reached"] for run in done) else 1


if __name__ == "__main__":
    sys.exit(main())
