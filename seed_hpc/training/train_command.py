# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc train`: starts a run, or resumes one."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from seed_hpc.config import Experiment, describe_options, load_experiment, load_resolved
from seed_hpc.errors import UserError
from seed_hpc.files import write_atomically
from seed_hpc.training.process import prepare_process

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="FILE", help="experiment: a file, or a name of config/experiments")
    what.add_argument("--resume", type=Path, metavar="RUN_DIR", help="continue a run from its newest checkpoint")
    what.add_argument("--options", nargs="?", const="vtrace", metavar="AGENT", help="list every option and its default")
    parser.add_argument("--run-id", metavar="ID", help="name of the run (default: time and a random suffix)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument(
        "--or-resume", action="store_true", help="if the run of that --run-id exists, continue it (requeued jobs)"
    )
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY=VALUE", help="for example training.total_frames=1e6"
    )


def run(args: argparse.Namespace) -> int:
    """Trains; returns 0 when the run finished or was interrupted with a checkpoint."""
    if args.options is not None:
        _print_options(args.options)
        return 0
    prepare_process()
    if args.config is not None and args.or_resume and args.run_id:
        experiment = load_experiment(args.config, args.overrides)
        existing = args.results / experiment.name / args.run_id
        if (existing / "run.json").is_file():
            return _resume(existing, [])
    if args.resume is not None:
        return _resume(args.resume, args.overrides)
    return _start(load_experiment(args.config, args.overrides), args.results, args.run_id)


def _start(experiment: Experiment, results: Path, run_id: str | None) -> int:
    from seed_hpc.distributed.peers import join
    from seed_hpc.training.loop import ClosedLoop, train
    from seed_hpc.training.run_directory import RunDirectory, command_line

    with join(experiment.distributed, experiment.training.device) as peers:
        loop = ClosedLoop(experiment, peers=peers)  # first: an unknown game must leave no folder behind
        device = str(loop.device)
        path = peers.from_main(
            lambda: RunDirectory.create(results, experiment, run_id=run_id, command=command_line(), device=device).path
        )
        logger.info("%s on %s -> %s", experiment.name, device, path)
        train(RunDirectory(path), loop)
    return 0


def _resume(path: Path, overrides: list[str]) -> int:
    from seed_hpc.distributed.peers import join
    from seed_hpc.training.loop import ClosedLoop, train
    from seed_hpc.training.run_directory import RunDirectory

    directory = RunDirectory(path)
    experiment = load_resolved(path / "config.yaml", overrides)
    if directory.status == "finished" and not overrides:
        raise UserError(f"the run {path} is finished: to go on, raise training.total_frames=... on the command line")
    with join(experiment.distributed, experiment.training.device) as peers:
        loop = ClosedLoop(experiment, peers=peers)
        before = (path / "config.yaml").read_bytes()
        if overrides and peers.is_main:
            experiment.save(path / "config.yaml")
        try:
            train(directory, loop, resume=True)
        except UserError:  # the checkpoint does not fit what was overridden: the run can still go on without
            if overrides and peers.is_main:
                write_atomically(path / "config.yaml", lambda file: file.write(before))
            raise
    return 0


def _print_options(agent: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("option", "default", "meaning", title=f"Options of an experiment with agent.name={agent}")
    for name, default, text in describe_options(agent):
        table.add_row(name, default, text)
    Console().print(table)
