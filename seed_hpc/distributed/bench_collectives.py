# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench collectives`: algorithm and bus bandwidth of collectives and of whole gradient exchanges.

Both are defined as nccl-tests defines them (nccl-tests, doc/PERFORMANCE.md), so figures compare: with S the size in
bytes, t the time and n the number of ranks, algorithm bandwidth is S / t and bus bandwidth is that times a factor
which makes it independent of n on a perfect ring. The time is the slowest rank's mean over the timed calls. Every
result is checked before it is timed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_hpc.distributed import launch, planner, topology
from seed_hpc.errors import RunFailedError, UserError, nearest
from seed_hpc.files import new_file, write_json

if TYPE_CHECKING:
    import torch

# Operation -> bus factor as a function of the number of ranks. Sizes are those of the larger side, as in nccl-tests.
BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    **{algorithm: (lambda n: 2 * (n - 1) / n) for algorithm in planner.ALGORITHMS},  # each is an all_reduce
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table; sizes in bytes, times in seconds, bandwidths in bytes per second."""

    operation: str
    size_bytes: int
    time_s: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    wrong: int


def bandwidths(operation: str, size_bytes: int, time_s: float, num_ranks: int) -> tuple[float, float]:
    """Returns algorithm and bus bandwidth in bytes per second."""
    algorithm = size_bytes / time_s
    return algorithm, algorithm * BUS_FACTORS[operation](num_ranks)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--ranks", type=int, default=2, help="local ranks to start when no launcher did (default: 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="gloo on cpu, NCCL on cuda")
    parser.add_argument(
        "--operations", nargs="+", default=list(BUS_FACTORS), metavar="NAME", help=", ".join(BUS_FACTORS)
    )
    parser.add_argument("--file", type=Path, help="topology description that says the groups")
    parser.add_argument("--compression", choices=("none", "bf16"), default="none", help="of the gradient exchanges")
    parser.add_argument("--min-bytes", type=int, default=65_536, help="smallest size (default: %(default)s)")
    parser.add_argument("--max-bytes", type=int, default=16_777_216, help="largest size (default: %(default)s)")
    parser.add_argument("--factor", type=int, default=16, help="from one size to the next (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=10, help="timed calls per size (default: %(default)s)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the table on rank 0; returns 1 if a result was wrong."""
    for operation in args.operations:
        if operation not in BUS_FACTORS:
            raise UserError(
                f"unknown operation '{operation}'{nearest(operation, BUS_FACTORS)}, known: {', '.join(BUS_FACTORS)}"
            )
    if args.factor < 2 or args.iterations < 1 or not 4 <= args.min_bytes <= args.max_bytes or args.ranks < 2:
        raise UserError("--factor and --ranks must be 2 or more, --iterations 1 or more, --min-bytes 4 to --max-bytes")
    place = launch.detect()
    if place.world_size == 1:
        return _start_local_ranks(args.ranks)
    with launch.process_group(place, device=args.device):
        found = topology.gather(place, device=args.device, description=args.file)
        rows = measure(args, found)
    if place.is_main:
        _report(args, found, rows)
    return 1 if any(row.wrong for row in rows) else 0


def _start_local_ranks(num_ranks: int) -> int:
    """Runs the same command line under torchrun on this machine."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}"]
    done = subprocess.run([*torchrun, "-m", "seed_hpc.cli", *sys.argv[1:]], check=False)
    if done.returncode not in (0, 1):
        raise RunFailedError(f"the ranks ended with code {done.returncode}")
    return done.returncode


def measure(args: argparse.Namespace, found: topology.Topology) -> list[Row]:
    """Times every operation at every size; all ranks return the same rows."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", torch.cuda.current_device()) if args.device == "cuda" else torch.device("cpu")
    num_ranks = dist.get_world_size()
    operations = {name: _operation(name, args, found, device) for name in args.operations}
    rows = []
    for name, (call, is_wrong) in operations.items():
        size = args.min_bytes
        while size <= args.max_bytes:
            # Every operation needs a whole number of floats for each rank.
            numel = max(num_ranks, size // 4 // num_ranks * num_ranks)
            wrong = is_wrong(numel)
            time_s = _time(call, numel, args.iterations, device)
            worst = torch.tensor([time_s, float(wrong)], dtype=torch.float64, device=device)
            dist.all_reduce(worst, op=dist.ReduceOp.MAX)
            slowest_s, any_wrong = worst.tolist()
            algorithm, bus = bandwidths(name, numel * 4, slowest_s, num_ranks)
            rows.append(
                Row(
                    operation=name,
                    size_bytes=numel * 4,
                    time_s=slowest_s,
                    algorithm_bandwidth=algorithm,
                    bus_bandwidth=bus,
                    wrong=int(any_wrong),
                )
            )
            size *= args.factor
    return rows


def _time(call: Callable[[int], object], numel: int, iterations: int, device: torch.device) -> float:
    import torch
    import torch.distributed as dist

    call(numel)
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(iterations):
        call(numel)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / iterations


def _operation(
    name: str, args: argparse.Namespace, found: topology.Topology, device: torch.device
) -> tuple[Callable[[int], object], Callable[[int], int]]:
    """Returns the call to time, and a check that counts wrong elements of a call on known numbers."""
    import torch
    import torch.distributed as dist

    from seed_hpc.distributed.exchange import GradientExchange, all_gather_single, reduce_scatter_single

    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    # Small integers, whose sums are exact even in bfloat16.
    values = [float(1 + rank % 2) for rank in range(num_ranks)]
    total = sum(values)
    buffers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def tensors(numel: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The whole (numel,) and one rank's part of it, made once per size so that no allocation is timed."""
        if numel not in buffers:
            buffers.clear()
            buffers[numel] = (torch.zeros(numel, device=device), torch.zeros(numel // num_ranks, device=device))
        return buffers[numel]

    def filled(numel: int) -> tuple[torch.Tensor, torch.Tensor]:
        whole, part = tensors(numel)
        return whole.fill_(values[rank]), part.fill_(values[rank])

    def wrong_elements(found_tensor: torch.Tensor, expected: torch.Tensor | float) -> int:
        return int((found_tensor != expected).sum())

    if name in planner.ALGORITHMS:
        exchange = GradientExchange(found.nvlink_groups(), algorithm=name, compression=args.compression, device=device)

        def exchange_check(numel: int) -> int:
            return wrong_elements(exchange.average_(filled(numel)[0]), total / num_ranks)

        return lambda numel: exchange.average_(tensors(numel)[0]), exchange_check
    calls: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
        "all_reduce": lambda whole, part: dist.all_reduce(whole),
        "all_gather": lambda whole, part: all_gather_single(whole, part),
        "reduce_scatter": lambda whole, part: reduce_scatter_single(part, whole),
        "broadcast": lambda whole, part: dist.broadcast(whole, src=0),
    }

    def check(numel: int) -> int:
        whole, part = filled(numel)
        calls[name](whole, part)
        if name == "all_gather":
            expected = torch.tensor(values, device=device).repeat_interleave(numel // num_ranks)
            return wrong_elements(whole, expected)
        if name == "reduce_scatter":
            return wrong_elements(part, total)
        return wrong_elements(whole, total if name == "all_reduce" else values[0])

    return lambda numel: calls[name](*tensors(numel)), check


def fitted_links(rows: list[Row]) -> dict[str, planner.Link]:
    """Fits latency and bandwidth to each operation that was measured at two sizes or more."""
    links = {}
    for operation in dict.fromkeys(row.operation for row in rows):
        own = [row for row in rows if row.operation == operation]
        if len(own) > 1:
            links[operation] = planner.fit([row.size_bytes for row in own], [row.time_s for row in own])
    return links


def _report(args: argparse.Namespace, found: topology.Topology, rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    groups = found.nvlink_groups()
    if args.json:
        result: dict[str, Any] = {
            "device": args.device,
            "ranks": len(found.devices),
            "groups": [list(group) for group in groups],
            "compression": args.compression,
            "rows": [asdict(row) for row in rows],
            "alpha_beta": {name: asdict(link) for name, link in fitted_links(rows).items()},
        }
        write_json(args.json, result)
    console = Console()
    shown = " | ".join(" ".join(map(str, group)) for group in groups)
    table = Table(title=f"{len(found.devices)} ranks on {args.device}, groups {shown}")
    for column in ("operation", "bytes", "time us", "algbw GB/s", "busbw GB/s", "wrong"):
        table.add_column(column, justify="left" if column == "operation" else "right")
    for row in rows:
        figures = (row.time_s * 1e6, row.algorithm_bandwidth / 1e9, row.bus_bandwidth / 1e9)
        table.add_row(
            row.operation,
            str(row.size_bytes),
            f"{figures[0]:.1f}",
            f"{figures[1]:.3f}",
            f"{figures[2]:.3f}",
            str(row.wrong),
        )
    console.print(table)
