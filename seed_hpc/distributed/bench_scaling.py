# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench scaling`: frames per second of a training with 1, 2, 4 ... ranks, and a projection to more.

Every rank keeps its number of environments (weak scaling), so with n ranks perfect scaling is n times the frames per
second of one; efficiency is the part of that which is reached. The first log line of each run is left out. Repeats are
interleaved, and the efficiency of a repeat is against one rank in the same repeat; medians of both are shown.

The projection is a model, not a measurement: an iteration takes the time that it took on one rank plus an exchange of
the gradients for each of its updates, predicted for the quickest algorithm by `planner.predicted_s` and overlapped with
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seed_hpc.config import Experiment, load_experiment
from seed_hpc.distributed import planner, topology
from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.files import new_file, write_json


@dataclass(frozen=True, kw_only=True)
class Point:
    """Frames per second of all ranks together, medians of the repeats."""

    ranks: int
    frames_per_s: float
    efficiency: float
    efficiencies: tuple[float, ...] = ()  # of each repeat


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--config", default="pong_vtrace_demo", help="experiment (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="numbers of local ranks to measure")
    parser.add_argument("--frames", type=float, default=60_000, help="frames per rank (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=1, help="of each number, interleaved (default: %(default)s)")
    parser.add_argument("--project", type=int, nargs="*", default=[8, 64, 512], help="numbers of GPUs to project to")
    parser.add_argument("--gpus-per-node", type=int, default=8, help="of the projected machine (default: %(default)s)")
    parser.add_argument("--frames-per-s", type=float, help="project from this speed of one GPU, not the measured one")
    parser.add_argument("--links", type=Path, help="topology description whose links the projection takes")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the result as JSON")
    parser.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE", help="of the experiment")


def run(args: argparse.Namespace) -> int:
    """Measures, projects, prints."""
    if not min(*args.ranks, *args.project, args.frames, args.repeats, args.gpus_per_node) >= 1:
        raise UserError("--ranks, --project, --frames, --repeats and --gpus-per-node must be 1 or more")
    if args.frames_per_s is not None and not args.frames_per_s > 0:
        raise UserError(f"--frames-per-s {args.frames_per_s} is not allowed: give frames a second, more than 0")
    experiment = load_experiment(args.config, args.overrides)
    speeds: dict[int, list[float]] = {ranks: [] for ranks in sorted({1, *args.ranks})}
    num_parameters, updates_per_frame = 0, 0.0
    for _ in range(args.repeats):
        for ranks, found in speeds.items():
            with tempfile.TemporaryDirectory() as folder:
                training = _train(args, experiment, ranks, Path(folder))
            found.append(training.frames_per_s)
            if ranks == 1:
                num_parameters, updates_per_frame = training.num_parameters, training.updates_per_frame
    measured = [measured_point(ranks, found, speeds[1]) for ranks, found in speeds.items()]
    links = topology.read_description(args.links).links if args.links else topology.NOMINAL_LINKS
    iteration_frames = experiment.env.num_envs * experiment.training.unroll_length * experiment.env.frameskip
    projected = [
        project(
            ranks,
            args.gpus_per_node,
            args.frames_per_s or measured[0].frames_per_s,
            iteration_frames,
            round(updates_per_frame * iteration_frames),
            4 * num_parameters,
            links,
        )
        for ranks in args.project
    ]
    if args.json:
        result: dict[str, Any] = {
            "experiment": experiment.name,
            "measured": [asdict(point) for point in measured],
            "projected": [asdict(point) for point in projected],
            "gradient_bytes": 4 * num_parameters,
            "links": {name: asdict(link) for name, link in links.items()},
        }
        write_json(args.json, result)
    _print(experiment, measured, projected)
    return 0


@dataclass(frozen=True, kw_only=True)
class _Training:
    """What a training showed between its first and its last log line."""

    frames_per_s: float
    updates_per_frame: float
    num_parameters: int


def _train(args: argparse.Namespace, experiment: Experiment, ranks: int, folder: Path) -> _Training:
    """Trains with so many local ranks."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    interval = int(args.frames * ranks / 6)
    command = [*torchrun, "-m", "seed_hpc.cli", "train", "--config", args.config, "--run-id", "scaling"]
    command += ["--results", str(folder), *args.overrides, f"training.total_frames={int(args.frames * ranks)}"]
    command += [f"training.log_interval_frames={interval}", "training.tensorboard=false"]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("seed-hpc ")]
        raise RunFailedError(f"the training with {ranks} ranks failed: {said[0] if said else done.stderr[-500:]}")
    directory = folder / experiment.name / "scaling"
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    if len(lines) < 2:
        raise UserError(f"--frames {args.frames:g} is too few to measure: raise it")
    first, last = lines[0], lines[-1]
    from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint

    newest = CheckpointStore(directory / "checkpoints").latest()
    assert newest is not None
    network = load_checkpoint(newest)["learner"]["network"]
    num_parameters = sum(tensor.numel() for tensor in network.values())
    frames = last["frames"] - first["frames"]
    return _Training(
        frames_per_s=frames / (last["time_s"] - first["time_s"]),
        updates_per_frame=(last["updates"] - first["updates"]) / frames,
        num_parameters=num_parameters,
    )


def measured_point(ranks: int, speeds: Sequence[float], alone: Sequence[float]) -> Point:
    """Returns medians over repeats.

    Args:
        ranks: Number of ranks.
        speeds: Frames per second of each repeat.
        alone: The same of one rank.
    """
    efficiencies = tuple(speed / (ranks * one) for speed, one in zip(speeds, alone, strict=True))
    speed, efficiency = statistics.median(speeds), statistics.median(efficiencies)
    return Point(ranks=ranks, frames_per_s=speed, efficiency=efficiency, efficiencies=efficiencies)


def project(
    ranks: int,
    gpus_per_node: int,
    frames_per_s: float,
    iteration_frames: int,
    updates: int,
    gradient_bytes: float,
    links: Any,
) -> Point:
    """Projects the speed of one rank to many.

    Args:
        ranks: GPUs.
        gpus_per_node: NVLink group and node.
        frames_per_s: Speed of one rank alone.
        iteration_frames: Frames of one rank in an iteration: a rollout.
        updates: Updates in an iteration, each with an exchange of the gradients.
        gradient_bytes: Size of the gradients.
        links: "nvlink" and "network" -> Link.
    """
    groups = tuple(tuple(range(first, min(first + gpus_per_node, ranks))) for first in range(0, ranks, gpus_per_node))
    exchange_s = min(
        planner.predicted_s(name, groups, gradient_bytes, links["nvlink"], links["network"])
        for name in planner.ALGORITHMS
    )
    alone_s = iteration_frames / frames_per_s
    efficiency = alone_s / (alone_s + (updates * exchange_s if ranks > 1 else 0.0))
    return Point(ranks=ranks, frames_per_s=ranks * frames_per_s * efficiency, efficiency=efficiency)


def _print(experiment: Experiment, measured: list[Point], projected: list[Point]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{experiment.name}: {experiment.env.num_envs} environments per rank")
    for column in ("ranks", "frames/s", "efficiency", "source"):
        table.add_column(column, justify="left" if column == "source" else "right")
    for source, points in (("measured", measured), ("projection", projected)):
        for point in points:
            spread = f" ({min(values):.1%} to {max(values):.1%})" if len(values := point.efficiencies) > 1 else ""
            table.add_row(str(point.ranks), f"{point.frames_per_s:,.0f}", f"{point.efficiency:.1%}{spread}", source)
    Console().print(table)
