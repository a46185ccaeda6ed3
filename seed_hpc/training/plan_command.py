# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc plan`: predicts the memory of a run by part and proposes sizes that fit a GPU."""

from __future__ import annotations

import argparse
import logging
from typing import Any

from seed_hpc.config import Experiment, default_experiment, load_experiment
from seed_hpc.files import new_file, write_json

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="FILE", help="experiment: a file, or a name of config/experiments")
    what.add_argument("--agent", metavar="NAME", help="an agent with its defaults, on Pong")
    parser.add_argument("--gpu-memory", required=True, metavar="SIZE", help="of one GPU, for example 16GiB")
    parser.add_argument("--host-memory", metavar="SIZE", help="for the replay (default: what this machine has)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write the plan to FILE")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY=VALUE", help="for example training.unroll_length=40"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the plan; returns 1 if the experiment as it is does not fit."""
    import psutil
    import torch

    from seed_hpc.training import memory_plan
    from seed_hpc.training.environments import make_environments

    budget = memory_plan.parse_size(args.gpu_memory)
    given = args.host_memory
    host_budget = int(psutil.virtual_memory().total) if given is None else memory_plan.parse_size(given)
    experiment = _experiment(args)
    envs = make_environments(experiment.env, num_envs=1, device=torch.device("cpu"))
    shapes = memory_plan.environment_shapes(envs)
    envs.close()
    parts = memory_plan.plan_memory(experiment, shapes)
    result = {
        "agent": experiment.agent.name,
        "game": experiment.env.game,
        "num_envs": experiment.env.num_envs,
        "parts_bytes": parts,
        "total_bytes": memory_plan.device_bytes(parts),
        "budget_bytes": budget,
        "host_bytes": memory_plan.host_bytes(parts),
        "host_budget_bytes": host_budget,
        "fits": memory_plan.fits_in(parts, budget, host_budget),
        "proposed": memory_plan.propose(experiment, shapes, budget, host_budget),
    }
    if args.json is not None:
        write_json(args.json, result)
    _print(result)
    return 0 if result["fits"] else 1


def _experiment(args: argparse.Namespace) -> Experiment:
    if args.config is not None:
        return load_experiment(args.config, args.overrides)
    return default_experiment(args.agent, args.overrides)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from seed_hpc.training.memory_plan import ON_HOST

    table = Table("part", "MiB", title=f"{result['agent']} on {result['game']}, {result['num_envs']} environments")
    table.columns[1].justify = "right"
    for name, size in sorted(result["parts_bytes"].items(), key=lambda item: -item[1]):
        table.add_row(f"{name}, on the host" if name in ON_HOST else name, f"{size / 2**20:,.1f}")
    table.add_section()
    table.add_row("total on the GPU", f"{result['total_bytes'] / 2**20:,.1f}")
    table.add_row("memory of the GPU", f"{result['budget_bytes'] / 2**20:,.1f}")
    if result["host_bytes"]:
        table.add_row("total on the host", f"{result['host_bytes'] / 2**20:,.1f}")
        table.add_row("memory of the host", f"{result['host_budget_bytes'] / 2**20:,.1f}")
    console = Console()
    console.print(table)
    proposed = result["proposed"]
    if all(proposed.values()):
        sizes = " or ".join(f"{name}={size}" for name, size in proposed.items())
        console.print(f"The largest that fits, with the rest as it is: {sizes}", highlight=False)
    else:
        console.print("Not even the smallest size fits: choose a smaller network, unroll or replay.")
