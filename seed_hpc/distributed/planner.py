# SPDX-License-Identifier: Apache-2.0
"""Chooses how gradients are exchanged: predicted cost of each algorithm by the alpha-beta model, or measured cost.

A message of n bytes over a link takes alpha + n * beta seconds (latency and inverse bandwidth; Hockney 1994). The
collectives are rings (Thakur, Rabenseifner and Gropp 2005): an all_reduce of N bytes over p ranks takes 2(p-1) steps
of N/p bytes, an all_gather of N bytes from each takes p-1 steps of N bytes. A ring is as slow as its slowest link.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seed_hpc.errors import UserError, nearest

if TYPE_CHECKING:
    from seed_hpc.distributed.exchange import GradientExchange
    from seed_hpc.distributed.topology import Groups

ALGORITHMS = ("flat_all_reduce", "grouped_all_gather", "grouped_reduce_scatter")


@dataclass(frozen=True, kw_only=True)
class Link:
    """Cost of a message over a link, one direction.

    Attributes:
        latency_s: alpha, seconds for an empty message.
        bytes_per_s: 1 / beta.
    """

    latency_s: float
    bytes_per_s: float

    def seconds(self, num_bytes: float) -> float:
        """Returns alpha + n * beta."""
        return self.latency_s + num_bytes / self.bytes_per_s


def num_slots(groups: Groups) -> int:
    """Ranks of each group that talk to other groups: as many as the smallest group has."""
    return min(len(group) for group in groups)


def predicted_s(algorithm: str, groups: Groups, num_bytes: float, inner: Link, outer: Link) -> float:
    """Predicts one exchange of `num_bytes` of gradients.

    Args:
        algorithm: One of `ALGORITHMS`.
        groups: Ranks by group, as `Topology` derives them.
        num_bytes: Size of the gradients as they travel.
        inner: Link between two ranks of a group.
        outer: Link between two groups, one per slot.

    Raises:
        UserError: The algorithm is unknown.
    """
    check_algorithm(algorithm)
    ranks, largest, slots = sum(map(len, groups)), max(map(len, groups)), num_slots(groups)
    if algorithm == "flat_all_reduce":
        return _all_reduce_s(ranks, num_bytes, outer if len(groups) > 1 else inner)
    between = _all_reduce_s(len(groups), num_bytes / slots, outer)
    spread = _all_gather_s(largest, num_bytes / slots, inner) if len(groups) > 1 else 0.0
    if algorithm == "grouped_all_gather":
        return _all_gather_s(largest, num_bytes, inner) + between + spread
    reduce_scatter = (largest - 1) * inner.seconds(num_bytes / largest)
    return reduce_scatter + between + _all_gather_s(largest, num_bytes / slots, inner)


def _all_reduce_s(ranks: int, num_bytes: float, link: Link) -> float:
    return 2 * (ranks - 1) * link.seconds(num_bytes / ranks)


def _all_gather_s(ranks: int, num_bytes: float, link: Link) -> float:
    return (ranks - 1) * link.seconds(num_bytes)


def check_algorithm(algorithm: str) -> None:
    """Raises a `UserError` for a name that is not one of `ALGORITHMS`."""
    if algorithm not in ALGORITHMS:
        raise UserError(
            f"unknown gradient exchange '{algorithm}'{nearest(algorithm, ALGORITHMS)}, known: {', '.join(ALGORITHMS)}"
        )


def fit(sizes_bytes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Fits alpha and beta to measured times by least squares; neither may be negative.

    Args:
        sizes_bytes: Message sizes, at least two different ones.
        seconds: Time of each.
    """
    mean_n, mean_t = sum(sizes_bytes) / len(sizes_bytes), sum(seconds) / len(seconds)
    spread = sum((n - mean_n) ** 2 for n in sizes_bytes)
    slope = sum((n - mean_n) * (t - mean_t) for n, t in zip(sizes_bytes, seconds, strict=True)) / spread
    slope = max(slope, 1e-15)
    return Link(latency_s=max(mean_t - slope * mean_n, 0.0), bytes_per_s=1.0 / slope)


def measure(
    exchanges: Mapping[str, GradientExchange],
    *,
    sizes_bytes: Sequence[int] = (65_536, 4_194_304),
    repeats: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Link]:
    """Times each exchange on the run's own links; every rank calls it and gets the same answer, when all are done.

    Args:
        exchanges: Algorithm -> exchange, all over the same ranks.
        sizes_bytes: Sizes of float32 gradients to exchange.
        repeats: Timed exchanges per size; the fastest counts, after one that is not timed.
        clock: Seconds.

    Returns:
        Algorithm -> fitted cost, the slowest rank's.
    """
    import torch
    import torch.distributed as dist

    times = torch.zeros(len(exchanges), len(sizes_bytes), dtype=torch.float64)
    for row, exchange in enumerate(exchanges.values()):
        for column, size in enumerate(sizes_bytes):
            gradients = torch.zeros(size // 4, device=exchange.device)
            best = float("inf")
            for repeat in range(repeats + 1):
                dist.barrier()
                start = clock()
                exchange.average_(gradients)
                if exchange.device.type == "cuda":
                    torch.cuda.synchronize()
                best = min(best, clock() - start) if repeat else best
            times[row, column] = best
    times = times.to(next(iter(exchanges.values())).device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return {
        algorithm: fit([float(size) for size in sizes_bytes], row)
        for algorithm, row in zip(exchanges, times.tolist(), strict=True)
    }


def choose(costs: Mapping[str, float]) -> str:
    """Returns the cheapest algorithm; of equals the first in `ALGORITHMS`."""
    return min(costs, key=lambda algorithm: (costs[algorithm], ALGORITHMS.index(algorithm)))
