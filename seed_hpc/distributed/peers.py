# SPDX-License-Identifier: Apache-2.0
"""A run's processes as the training loop sees them; a single process is the case of one.

All ranks do the same number of iterations in step, each on its own environments. What may differ between them (a
signal that reached one rank only, a clock, a full disk) is settled by `any_rank`, so that all of them log, save and
stop at the same update. Only rank 0 writes the run's files; each rank saves its own environments.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_hpc.config import DistributedConfig
from seed_hpc.distributed import launch, planner, topology
from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.profiling import ranges

if TYPE_CHECKING:
    import torch
    from torch import nn

    from seed_hpc.distributed.exchange import GradientExchange

logger = logging.getLogger(__name__)


class Peers:
    """A process among the run's processes; made by `join`, or without arguments for a process alone.

    Args:
        place: Its rank and the others.
        config: How gradients are exchanged.
        device: "cpu" or "cuda".
    """

    def __init__(
        self, place: launch.Launch | None = None, config: DistributedConfig | None = None, device: str = "cpu"
    ) -> None:
        self.place = place or launch.Launch()
        self.config = config or DistributedConfig()
        self.device = device
        self.rank, self.world_size = self.place.rank, self.place.world_size
        self.is_main = self.place.is_main
        self.exchange_name: str | None = None
        self._control: Any = None
        self.topology: topology.Topology | None = None
        if self.world_size > 1:
            import torch.distributed as dist

            # Decisions travel over gloo: on NCCL each would make the host wait for the GPU.
            timeout = datetime.timedelta(seconds=self.config.timeout_s)
            self._control = dist.new_group(backend="gloo", timeout=timeout)
            description = Path(self.config.topology) if self.config.topology else None
            self.topology = topology.gather(self.place, device=device, description=description)

    @property
    def groups(self) -> topology.Groups:
        """The ranks by group."""
        if self.topology is None:
            return ((0,),)
        return self.topology.host_groups() if self.config.groups == "host" else self.topology.nvlink_groups()

    @property
    def hosts(self) -> list[str]:
        """Host of each rank."""
        return [device.host for device in self.topology.devices] if self.topology else [socket.gethostname()]

    def gpu_uuids(self, device: torch.device) -> list[str]:
        """NVML's UUIDs of the GPUs that the ranks compute on, this one on `device`; an empty list on CPUs."""
        if self.topology is not None:
            return [found.uuid for found in self.topology.devices if not found.is_cpu]
        return [topology.uuid_of(device.index or 0)] if device.type == "cuda" else []

    def describe(self, device: torch.device) -> dict[str, Any]:
        """What run.json says about the processes, of which this one computes on `device`."""
        return {
            "world_size": self.world_size,
            "hosts": list(dict.fromkeys(self.hosts)),
            "gpu_uuids": self.gpu_uuids(device),
            "launcher": self.place.launcher,
            "job_id": self.place.job_id,
            "groups": [list(group) for group in self.groups],
            "gradient_exchange": self.exchange_name,
            "gradient_compression": self.config.compression if self.world_size > 1 else None,
        }

    def wrap(self, network: nn.Module) -> nn.Module:
        """Returns the network with gradients averaged over all ranks; itself for a process alone."""
        if self.world_size == 1:
            return network
        from seed_hpc.distributed.exchange import wrap

        num_bytes = 4 * sum(parameter.numel() for parameter in network.parameters())
        exchange = self._exchange(num_bytes, next(network.parameters()).device)
        self.exchange_name = exchange.algorithm
        if self.is_main:
            logger.info(
                "%d ranks on %d hosts, %d groups: %s of %.1f MB, compression %s",
                self.world_size,
                len(set(self.hosts)),
                len(self.groups),
                self.exchange_name,
                num_bytes / 1e6,
                self.config.compression,
            )
        return wrap(network, exchange, bucket_megabytes=self.config.bucket_megabytes)

    def _exchange(self, num_bytes: int, device: torch.device) -> GradientExchange:
        """Makes the exchange that the configuration names; "auto" times all of them and keeps the quickest."""
        from seed_hpc.distributed.exchange import GradientExchange

        wanted: str = self.config.exchange
        candidates = {
            name: GradientExchange(
                self.groups,
                algorithm=name,
                compression=self.config.compression,
                device=device,
                timeout_s=self.config.timeout_s,
            )
            for name in (planner.ALGORITHMS if wanted == "auto" else (wanted,))
        }
        if wanted == "auto":
            measured = planner.measure(candidates)
            wanted = planner.choose({name: link.seconds(num_bytes) for name, link in measured.items()})
        chosen = candidates.pop(wanted)
        for other in candidates.values():
            other.close()
        return chosen

    def any_rank(self, *flags: bool) -> list[bool]:
        """Returns, for each flag, whether it is true on any rank; every rank calls it with as many flags."""
        if self.world_size == 1:
            return list(flags)
        import torch
        import torch.distributed as dist

        votes = torch.tensor(flags, dtype=torch.int32)
        with ranges.phase("exchange"):
            dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self._control)
        return [bool(vote) for vote in votes.tolist()]

    def mean(self, values: Mapping[str, float | None]) -> dict[str, float | None]:
        """Returns the means over all ranks, without those that have no value yet."""
        if self.world_size == 1:
            return dict(values)
        gathered = self._gather(dict(values))
        means: dict[str, float | None] = {}
        for name in values:
            known = [rank[name] for rank in gathered if rank.get(name) is not None]
            means[name] = sum(known) / len(known) if known else None
        return means

    def total(self, value: int) -> int:
        """Returns the sum over all ranks."""
        return sum(self._gather(value)) if self.world_size > 1 else value

    def from_main(self, make: Callable[[], Any]) -> Any:
        """Calls `make` on rank 0 only and returns its result on every rank; a `UserError` of it is raised on all."""
        if self.world_size == 1:
            return make()
        import torch.distributed as dist

        answer: list[Any] = [None, None]
        if self.is_main:
            try:
                answer[0] = make()
            except UserError as error:
                answer[1] = str(error)
        dist.broadcast_object_list(answer, src=0, group=self._control)
        if answer[1] is not None:
            raise UserError(answer[1])
        return answer[0]

    def all_succeed(self, act: Callable[[], object]) -> None:
        """Calls `act` on every rank; if it fails on any, a `RunFailedError` is raised on all.

        Raises:
            RunFailedError: This rank's own, or one that says which rank failed.
        """
        own: RunFailedError | None = None
        try:
            act()
        except RunFailedError as error:
            own = error
        if self.world_size == 1:
            if own is not None:
                raise own
            return
        failures = self._gather(None if own is None else str(own))
        if own is not None:
            raise own
        for rank, failure in enumerate(failures):
            if failure is not None:
                raise RunFailedError(f"rank {rank} on {self.hosts[rank]}: {failure}")

    def _gather(self, value: Any) -> list[Any]:
        import torch.distributed as dist

        gathered: list[Any] = [None] * self.world_size
        with ranges.phase("exchange"):
            dist.all_gather_object(gathered, value, group=self._control)
        return gathered


@contextlib.contextmanager
def join(config: DistributedConfig, device: str) -> Iterator[Peers]:
    """Meets the other processes that the launcher started, for the block.

    Args:
        config: The experiment's section `distributed`.
        device: "auto", "cpu" or "cuda", as `training.device` says.

    Raises:
        UserError: The rendezvous address cannot be told, or the device is one GPU for several processes.
        RunFailedError: The others did not come, or one of them died.
    """
    place = launch.detect()
    if place.world_size == 1:
        yield Peers(place, config)
        return
    import torch

    if device.startswith("cuda:"):
        raise UserError(
            f"training.device={device} is one GPU for {place.world_size} processes: write cuda, each takes its own"
        )
    kind = "cuda" if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()) else "cpu"
    if not place.is_main:
        logging.getLogger().setLevel(logging.WARNING)  # one voice is enough
    with launch.process_group(place, device=kind, timeout_s=config.timeout_s):
        yield Peers(place, config, kind)
