# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc topology`: the devices, the groups that follow, and what each gradient exchange would cost.

Alone it shows this machine; started by srun, torchrun or mpirun it shows all ranks, and `--measure` times the
exchanges on their links. Otherwise costs are predictions from the links' nominal or described speeds.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from seed_hpc.distributed import launch, planner, topology
from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--file", type=Path, help="topology description (YAML or JSON) instead of NVML")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the result as JSON")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="what the ranks compute on")
    parser.add_argument("--megabytes", type=float, default=6.7, help="size of the gradients (default: %(default)s)")
    parser.add_argument("--measure", action="store_true", help="time the exchanges (needs two ranks or more)")


def run(args: argparse.Namespace) -> int:
    """Prints the table; rank 0 only."""
    if not 0 < args.megabytes < math.inf:
        raise UserError(f"--megabytes {args.megabytes} must be above 0")
    place = launch.detect()
    if args.measure and place.world_size == 1:
        raise UserError("--measure needs two ranks or more: start it with srun, mpirun or torchrun")
    if place.world_size == 1:
        report(args, place, _this_machine(args))
        return 0
    device = _device(args.device)
    with launch.process_group(place, device=device):
        found = topology.gather(place, device=device, description=args.file)
        report(args, place, found, _measured(found, device) if args.measure else None)
    return 0


def _device(choice: str) -> str:
    if choice != "auto":
        return choice
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _this_machine(args: argparse.Namespace) -> topology.Topology:
    if args.file is not None:
        return topology.read_description(args.file)
    devices = () if args.device == "cpu" else topology.nvml_devices()
    if not devices and args.device == "cuda":
        raise UserError("no NVIDIA driver answers on this machine: give --file with a description, or --device cpu")
    if not devices:
        return topology.Topology(devices=(topology.cpu_device(launch.Launch()),))
    return topology.Topology(devices=devices, source="nvml")


def _measured(found: topology.Topology, device: str) -> dict[str, planner.Link]:
    from seed_hpc.distributed.exchange import GradientExchange

    groups = found.nvlink_groups()
    return planner.measure(
        {name: GradientExchange(groups, algorithm=name, device=device) for name in planner.ALGORITHMS}
    )


def report(
    args: argparse.Namespace,
    place: launch.Launch,
    found: topology.Topology,
    measured: dict[str, planner.Link] | None = None,
) -> None:
    """Prints devices, groups and costs on rank 0 and writes the JSON file."""
    if not place.is_main:
        return
    groups = found.nvlink_groups()
    costs = costs_s(found, groups, args.megabytes * 1e6, measured)
    result: dict[str, Any] = {
        **found.to_dict(),
        "gradient_bytes": args.megabytes * 1e6,
        "cost_s": costs,
        "cost_is": "measured" if measured else "predicted",
        "chosen": planner.choose(costs),
    }
    if args.json:
        write_json(args.json, result)
    print_tables(found, groups, result)


def costs_s(
    found: topology.Topology, groups: topology.Groups, num_bytes: float, measured: dict[str, planner.Link] | None
) -> dict[str, float]:
    """Seconds of one exchange by algorithm."""
    if measured is not None:
        return {name: link.seconds(num_bytes) for name, link in measured.items()}
    inner, outer = found.inner_link(groups), found.outer_link()
    return {name: planner.predicted_s(name, groups, num_bytes, inner, outer) for name in planner.ALGORITHMS}


def print_tables(found: topology.Topology, groups: topology.Groups, result: dict[str, Any]) -> None:
    """Prints two tables and the groups."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    devices = Table(title=f"Devices ({found.source})")
    for column in ("rank", "host", "index", "device", "UUID", "NVLink GB/s", "PCIe"):
        devices.add_column(column)
    for rank, device in enumerate(found.devices):
        pcie = " ".join(sorted(set(device.pcie.values()))) or "-"
        speed = f"{device.nvlink_bytes_per_s / 1e9:.0f}" if device.nvlink_bytes_per_s else "-"
        devices.add_row(str(rank), device.host, str(device.index), device.name, device.uuid, speed, pcie)
    console.print(devices)
    shown = " | ".join(" ".join(map(str, group)) for group in groups)
    console.print(f"{len(groups)} group{'' if len(groups) == 1 else 's'} of ranks: {shown}", highlight=False)
    title = f"One exchange of {result['gradient_bytes'] / 1e6:.1f} MB of gradients, {result['cost_is']}"
    table = Table(title=title)
    for column in ("algorithm", "milliseconds", ""):
        table.add_column(column, justify="right" if column == "milliseconds" else "left")
    for name, seconds in result["cost_s"].items():
        table.add_row(name, f"{seconds * 1e3:.3f}", "chosen" if name == result["chosen"] else "")
    console.print(table)
