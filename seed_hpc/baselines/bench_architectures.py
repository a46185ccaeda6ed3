# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench architectures`: the closed loop beside the conventional architectures, in one run.

All get the same experiment: agent, network, losses, hyper-parameters, number of environments, seeds. The conventional
ones run ale-py, the closed loop its own emulator. Architectures take turns, seed by seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from seed_hpc.config import Experiment, load_experiment
from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.report.architectures import CLOSED_LOOP, FILE
from seed_hpc.training.process import prepare_process
from seed_hpc.training.run_directory import command_line, commit, hardware, versions

DEFAULT_JSON = Path("results") / FILE
_POINTS = 50  # of a learning curve


@dataclass(kw_only=True)
class Run:
    """One architecture with one seed.

    Attributes:
        frames_per_s: Emulated frames a second of wall time, from the first update to the last.
        updates_per_s: Learner updates a second.
        bytes_per_frame: Bytes moved between processes for each frame.
        parameter_share: Share of those bytes that are answers of the parameter server; None without bytes.
        latency_p50_s: Step-to-gradient latency, median over the last hundred rollouts; `latency_p95_s` likewise.
        actor_idle: Share of its time in which an actor waits; None where it was not measured.
        learner_idle: Share of its time in which the learner waits for experience.
        policy_lag: Updates by which the acting parameters were behind, mean over rollouts.
        curve: (seconds, frames, mean return of the last hundred episodes).
    """

    architecture: str
    seed: int
    frames_per_s: float = 0.0
    updates_per_s: float = 0.0
    bytes_per_frame: float = 0.0
    parameter_share: float | None = None
    latency_p50_s: float = 0.0
    latency_p95_s: float = 0.0
    actor_idle: float | None = None
    learner_idle: float = 0.0
    policy_lag: float = 0.0
    curve: list[tuple[float, int, float | None]] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `seed-hpc bench architectures`."""
    parser.add_argument("--config", default="breakout_vtrace_demo", help="experiment (default breakout_vtrace_demo)")
    parser.add_argument("--seconds", type=float, default=60.0, help="training of each run (default 60)")
    parser.add_argument("--seeds", default="1,2,3,4,5", help="separated by commas (default 1,2,3,4,5)")
    parser.add_argument("--actors", type=int, default=0, help="actor processes (default: processors)")
    parser.add_argument(
        "--json",
        type=new_file,
        default=str(DEFAULT_JSON),
        metavar="FILE",
        help=f"all figures and curves (default {DEFAULT_JSON}, which the report shows)",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="for example env.num_envs=64")


def run(args: argparse.Namespace) -> int:
    """Measures, prints the table, returns 0."""
    prepare_process()
    from seed_hpc.baselines.conventional import SOURCES

    experiment = load_experiment(args.config, args.overrides)
    num_actors = args.actors or len(os.sched_getaffinity(0))
    seeds = _seeds(args.seeds)
    check(experiment, num_actors, args.seconds)
    measured_commit = commit()  # before the measurement: a checkout may move on meanwhile
    runs: list[Run] = []
    for seed in seeds:
        training = dataclasses.replace(experiment.training, seed=seed, device="cpu")
        seeded = dataclasses.replace(experiment, training=training)
        for architecture in (CLOSED_LOOP, *SOURCES):
            if architecture == CLOSED_LOOP:
                runs.append(run_closed_loop(seeded, args.seconds))
            else:
                runs.append(run_conventional(architecture, seeded, num_actors, args.seconds))
    Console().print(
        table(runs, f"{experiment.name}, {num_actors} actors, {args.seconds:g} s a run, {len(seeds)} seeds")
    )
    write_json(args.json, document(args, experiment, num_actors, runs, measured_commit))
    return 0


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UserError(f"--seeds is '{text}', it must be integers separated by commas") from error


def check(experiment: Experiment, num_actors: int, seconds: float) -> None:
    """Raises `UserError` for what the comparison cannot run."""
    from seed_hpc.envs.games import find_game

    find_game(experiment.env.game)
    if experiment.agent.name not in ("vtrace", "ppo"):
        raise UserError(f"agent.name={experiment.agent.name} is not compared: choose vtrace or ppo")
    if num_actors < 1 or experiment.env.num_envs % num_actors:
        raise UserError(f"env.num_envs={experiment.env.num_envs} cannot be shared evenly by {num_actors} actors")
    if not seconds > 0:
        raise UserError(f"--seconds is {seconds}, it must be more than 0")


class _Recorder:
    """Figures of one run, from its second rollout on: the first one pays for everything that is made once."""

    def __init__(self, architecture: str, seed: int, statistics: Any, learner: Any, seconds: float) -> None:
        self.run = Run(architecture=architecture, seed=seed)
        self.statistics, self.learner, self.seconds = statistics, learner, seconds
        self.began = 0.0
        self.frames = self.updates = 0
        self.lags: list[float] = []

    def begin(self) -> None:
        """Starts the clock."""
        self.began = time.perf_counter()
        self.frames, self.updates = self.statistics.frames, self.learner.num_updates

    def elapsed(self) -> float:
        """Seconds since `begin`."""
        return time.perf_counter() - self.began

    def add(self) -> bool:
        """Notes an update; returns whether the time is up."""
        elapsed = self.elapsed()
        self.lags.append(self.learner.last_lag)
        if elapsed >= self.seconds * (len(self.run.curve) + 1) / _POINTS:
            self.run.curve.append((elapsed, self.statistics.frames, self.statistics.mean_return))
        return elapsed >= self.seconds

    def finish(self) -> Run:
        """Returns the run with the rates."""
        elapsed, run = self.elapsed(), self.run
        run.frames_per_s = (self.statistics.frames - self.frames) / elapsed
        run.updates_per_s = (self.learner.num_updates - self.updates) / elapsed
        run.policy_lag = statistics.fmean(self.lags)
        latency = self.learner.latency.quantiles()
        run.latency_p50_s = latency["step_to_gradient_p50_s"]
        run.latency_p95_s = latency["step_to_gradient_p95_s"]
        return run


def run_closed_loop(experiment: Experiment, seconds: float) -> Run:
    """Trains with this package's loop; nothing moves between processes."""
    from seed_hpc.training.loop import ClosedLoop

    loop = ClosedLoop(experiment)
    try:
        loop.learn_from(loop.actor.unroll())
        recorder = _Recorder(CLOSED_LOOP, experiment.training.seed, loop.statistics, loop.learner, seconds)
        recorder.begin()
        acting = 0.0
        while True:
            began = time.perf_counter()
            rollout = loop.actor.unroll()
            acting += time.perf_counter() - began
            loop.learn_from(rollout)
            if recorder.add():
                break
        run = recorder.finish()
        # On a CPU actor and learner take turns: while one works the other waits.
        run.learner_idle = acting / recorder.elapsed()
        run.actor_idle = 1.0 - run.learner_idle
        return run
    finally:
        loop.envs.close()


def run_conventional(architecture: str, experiment: Experiment, num_actors: int, seconds: float) -> Run:
    """Trains with actor processes; see `seed_hpc.baselines.conventional`."""
    from seed_hpc.baselines.conventional import CPU, SOURCES, AlePyEnvironments, Handover
    from seed_hpc.training.environments import make_agent
    from seed_hpc.training.learner import Learner
    from seed_hpc.training.statistics import Statistics

    if experiment.training.num_threads:
        torch.set_num_threads(experiment.training.num_threads)
    torch.manual_seed(experiment.training.seed)
    example = AlePyEnvironments(experiment.env, 1)
    agent = make_agent(experiment, example, CPU)
    example.close()
    network = agent.build_network()
    learner = Learner(agent, network, experiment.optimizer, seed=experiment.training.seed, device=CPU)
    totals = Statistics(experiment.env.frameskip)
    source = SOURCES[architecture](experiment, num_actors, network)
    handover: Any = Handover(source.publish)

    def learn() -> float:
        """Learns from the next rollout; returns the seconds that the learner waited for it."""
        asked = time.perf_counter()
        rollout, began, filled = source.next()
        waited = time.perf_counter() - asked
        handover.remember(rollout, began, filled)
        learner.update(rollout, handover, experiment.optimizer.learning_rate)
        totals.add(rollout)
        return waited

    try:
        learn()
        recorder = _Recorder(architecture, experiment.training.seed, totals, learner, seconds)
        recorder.begin()
        moved, parameters = source.processes.bytes_moved(), source.parameter_bytes
        waited = 0.0
        while True:
            waited += learn()
            if recorder.add():
                break
        run = recorder.finish()
        run.learner_idle = waited / recorder.elapsed()
        moved = source.processes.bytes_moved() - moved
        run.bytes_per_frame = moved / (totals.frames - recorder.frames)
        run.parameter_share = (source.parameter_bytes - parameters) / moved
        run.actor_idle = statistics.fmean(source.actor_idle)
        return run
    finally:
        source.close()


# ---- Output --------------------------------------------------------------------------------------------------------

# Column -> (attribute, factor, digits).
_COLUMNS: dict[str, tuple[str, float, int]] = {
    "frames/s": ("frames_per_s", 1.0, 0),
    "updates/s": ("updates_per_s", 1.0, 1),
    "bytes/frame": ("bytes_per_frame", 1.0, 0),
    "parameters, % of bytes": ("parameter_share", 100.0, 1),
    "latency p50, s": ("latency_p50_s", 1.0, 3),
    "latency p95, s": ("latency_p95_s", 1.0, 3),
    "actor idle, %": ("actor_idle", 100.0, 0),
    "learner idle, %": ("learner_idle", 100.0, 0),
    "policy lag": ("policy_lag", 1.0, 1),
}


def summary(runs: list[Run]) -> dict[str, dict[str, Any]]:
    """Returns medians over the seeds, and the last mean returns with their standard deviation."""
    found: dict[str, dict[str, Any]] = {}
    for architecture in dict.fromkeys(run.architecture for run in runs):
        mine = [run for run in runs if run.architecture == architecture]
        entry: dict[str, Any] = {}
        for attribute, _, _ in _COLUMNS.values():
            values = [getattr(run, attribute) for run in mine if getattr(run, attribute) is not None]
            entry[attribute] = statistics.median(values) if values else None
        last = [run.curve[-1][2] for run in mine if run.curve and run.curve[-1][2] is not None]
        entry["returns"] = last
        entry["return_mean"] = statistics.fmean(last) if last else None
        entry["return_deviation"] = statistics.stdev(last) if len(last) > 1 else None
        found[architecture] = entry
    return found


def table(runs: list[Run], title: str) -> Table:
    """Returns the table for the terminal: medians over seeds; of the returns mean and standard deviation."""
    summaries = summary(runs)
    result = Table("", *summaries, title=title)
    for column in range(1, len(summaries) + 1):
        result.columns[column].justify = "right"
    for name, (attribute, factor, digits) in _COLUMNS.items():
        values = [entry[attribute] for entry in summaries.values()]
        result.add_row(name, *("-" if value is None else f"{factor * value:,.{digits}f}" for value in values))
    returns = []
    for entry in summaries.values():
        mean, deviation = entry["return_mean"], entry["return_deviation"]
        returns.append("-" if mean is None else f"{mean:.2f}" + ("" if deviation is None else f" +- {deviation:.2f}"))
    result.add_row("return at the end", *returns)
    return result


def document(
    args: argparse.Namespace, experiment: Experiment, num_actors: int, runs: list[Run], measured_commit: str | None
) -> dict[str, Any]:
    """Returns all figures with what they depend on, as plain JSON values."""
    return {
        "schema_version": 1,
        "command": command_line(),
        "commit": measured_commit,
        "versions": versions(),
        "hardware": hardware("cpu"),
        "experiment": experiment.to_dict(),
        "num_actors": num_actors,
        "seconds": args.seconds,
        "summary": summary(runs),
        "runs": [dataclasses.asdict(run) for run in runs],
    }
