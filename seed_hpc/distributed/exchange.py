# SPDX-License-Identifier: Apache-2.0
"""Averages gradients over all ranks, shaped to the links between them; plugs into DDP as a communication hook.

Data flow: backward fills a DDP bucket -> `GradientExchange.hook` -> every rank holds the same mean, bit for bit.

With ranks (0 1 | 2 3) in two groups and two slots, slice k of the gradients belongs to slot k:

    flat_all_reduce          one all_reduce over 0 1 2 3
    grouped_all_gather       all_gather in each group, sum in rank order; all_reduce of slice 0 over 0 2 and of slice 1
                             over 1 3; all_gather of the slices in each group
    grouped_reduce_scatter   the same with reduce_scatter in the first step: fewer bytes, the library's order of sums

Each byte crosses between two groups once per direction, however many ranks they have, and the first sum does not
depend on the algorithm the library picks. In a group larger than the smallest one, the ranks beyond the slots only
give their gradients and receive the mean.

Exchanges run in bucket order, so the collectives of all ranks match: on CUDA on a stream of their own, on CPU in one
thread. Backward goes on meanwhile.
"""

# No `from __future__ import annotations` here: DDP reads the hook's annotations as objects.
import datetime
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from seed_hpc.distributed.launch import TIMEOUT_S
from seed_hpc.distributed.planner import check_algorithm, num_slots
from seed_hpc.distributed.topology import Groups
from seed_hpc.errors import UserError
from seed_hpc.profiling import ranges

Compression = Literal["none", "bf16"]

# Renamed in torch 2.13; the old names warn there.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class GradientExchange:
    """Averages flat gradients over the ranks of `groups`.

    Every rank constructs it with the same arguments, in the same order as its other process groups.

    Args:
        groups: All ranks, by group; sizes may differ.
        algorithm: One of `planner.ALGORITHMS`.
        compression: "bf16" sends bfloat16; sums inside a group are still float32.
        device: Where the gradients are.
        timeout_s: How long to wait for a peer; process groups do not inherit it from the first one.

    Raises:
        UserError: Unknown algorithm or compression, or the groups are not a partition of the ranks.
    """

    def __init__(
        self,
        groups: Groups,
        *,
        algorithm: str = "grouped_all_gather",
        compression: Compression = "none",
        device: torch.device | str = "cpu",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        check_algorithm(algorithm)
        if compression not in ("none", "bf16"):
            raise UserError(f"unknown gradient compression '{compression}', known: none, bf16")
        self.world_size = dist.get_world_size()
        if sorted(rank for group in groups for rank in group) != list(range(self.world_size)):
            raise UserError(f"the groups {groups} must hold each of the {self.world_size} ranks once")
        self.algorithm, self.compression, self.groups = algorithm, compression, groups
        self.device = torch.device(device)

        rank = dist.get_rank()
        self._group = next(group for group in groups if rank in group)
        self._slots = num_slots(groups)
        self._place = self._group.index(rank)
        # Every rank creates every process group, its own or not: new_group is collective.
        timeout = datetime.timedelta(seconds=timeout_s)
        self._world_pg: Any = None
        self._inner_pg: Any = None
        self._outer_pg: Any = None
        if algorithm == "flat_all_reduce":
            self._world_pg = dist.new_group(range(self.world_size), timeout=timeout)
        else:
            for group in groups:
                created = dist.new_group(group, timeout=timeout)
                self._inner_pg = created if rank in group else self._inner_pg
            for slot in range(self._slots):
                members = [group[slot] for group in groups]
                created = dist.new_group(members, timeout=timeout)
                self._outer_pg = created if rank in members else self._outer_pg
        self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._thread = None if self._stream else ThreadPoolExecutor(1, thread_name_prefix="gradient-exchange")

    def close(self) -> None:
        """Frees process groups and thread; every rank calls it, in the same order as its other collective calls."""
        for group in (self._inner_pg, self._outer_pg, self._world_pg):
            if group is not None:
                dist.destroy_process_group(group)
        self._inner_pg = self._outer_pg = self._world_pg = None
        if self._thread is not None:
            self._thread.shutdown()

    def hook(self, state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """DDP communication hook (`DistributedDataParallel.register_comm_hook`); `state` is not used."""
        del state
        gradients = bucket.buffer()
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(self._stream):
                # A future with a device records an event on the current stream, and DDP's wait waits for that event.
                future = torch.futures.Future[torch.Tensor](devices=[self.device])
                with ranges.phase("exchange"):
                    future.set_result(self.average_(gradients))
            return future
        assert self._thread is not None
        future = torch.futures.Future[torch.Tensor]()
        self._thread.submit(self._complete, future, gradients)
        return future

    def _complete(self, future: torch.futures.Future[torch.Tensor], gradients: torch.Tensor) -> None:
        try:
            with ranges.phase("exchange"):
                average = self.average_(gradients)
            future.set_result(average)
        except Exception as error:
            future.set_exception(error)  # type: ignore[arg-type]

    def average_(self, gradients: torch.Tensor) -> torch.Tensor:
        """Replaces flat `gradients` (N,) by their mean over all ranks and returns them."""
        if self.algorithm == "flat_all_reduce":
            wire = self._to_wire(gradients)
            dist.all_reduce(wire, group=self._world_pg)
            return gradients.copy_(wire).div_(self.world_size)
        # The slices of all slots must have one size: pad to a multiple of it.
        slice_size = -(-gradients.numel() // self._slots)
        total = gradients.new_zeros(self._slots * slice_size)
        total[: gradients.numel()] = gradients
        slices = list(total.view(self._slots, slice_size))
        if len(self._group) > 1:
            if self.algorithm == "grouped_all_gather":
                self._sum_gathered_(total)
            else:
                self._reduce_scatter_(slices)
        if len(self.groups) > 1 and self._place < self._slots:
            wire = self._to_wire(slices[self._place])
            dist.all_reduce(wire, group=self._outer_pg)
            slices[self._place].copy_(wire)
        if len(self._group) > 1 and (len(self.groups) > 1 or self.algorithm == "grouped_reduce_scatter"):
            self._spread_(slices)
        return gradients.copy_(total[: gradients.numel()]).div_(self.world_size)

    @property
    def _has_even_slots(self) -> bool:
        return len(self._group) == self._slots

    def _to_wire(self, tensor: torch.Tensor) -> torch.Tensor:
        """A contiguous copy in the type that travels."""
        return tensor.to(torch.bfloat16 if self.compression == "bf16" else tensor.dtype, copy=True)

    def _sum_gathered_(self, total: torch.Tensor) -> None:
        """Total := sum over the group, in rank order whatever the library's algorithm."""
        wire = self._to_wire(total)
        gathered = wire.new_empty(len(self._group) * wire.numel())
        all_gather_single(gathered, wire, group=self._inner_pg)
        first, *others = gathered.view(len(self._group), -1)
        total.copy_(first)
        for other in others:
            total.add_(other)

    def _reduce_scatter_(self, slices: list[torch.Tensor]) -> None:
        """Slice k := sum over the group, on the rank of slot k only."""
        if self._has_even_slots:
            wire = self._to_wire(torch.cat(slices))
            own = wire.new_empty(slices[0].numel())
            reduce_scatter_single(own, wire, group=self._inner_pg)
            slices[self._place].copy_(own)
            return
        for slot, part in enumerate(slices):
            wire = self._to_wire(part)
            dist.reduce(wire, dst=self._group[slot], group=self._inner_pg)
            if slot == self._place:
                part.copy_(wire)

    def _spread_(self, slices: list[torch.Tensor]) -> None:
        """Slice k := the slice of slot k's rank, on every rank of the group, as it travelled."""
        if self._has_even_slots:
            own = self._to_wire(slices[self._place])
            gathered = own.new_empty(self._slots * own.numel())
            all_gather_single(gathered, own, group=self._inner_pg)
            for part, received in zip(slices, gathered.view(self._slots, -1), strict=True):
                part.copy_(received)
            return
        for slot, part in enumerate(slices):
            wire = self._to_wire(part)
            dist.broadcast(wire, src=self._group[slot], group=self._inner_pg)
            part.copy_(wire)


def wrap(
    module: torch.nn.Module, exchange: GradientExchange, *, bucket_megabytes: float = 25.0
) -> torch.nn.parallel.DistributedDataParallel:
    """Returns `module` in DDP with `exchange` as its communication hook; rank 0's parameters are sent to all.

    Args:
        module: On the exchange's device.
        exchange: Over all ranks.
        bucket_megabytes: Gradients are exchanged as soon as this many have been computed.
    """
    wrapped = torch.nn.parallel.DistributedDataParallel(
        module,
        device_ids=[exchange.device] if exchange.device.type == "cuda" else None,
        bucket_cap_mb=bucket_megabytes,
        gradient_as_bucket_view=True,
    )
    wrapped.register_comm_hook(None, exchange.hook)
    return wrapped
