# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the distributed tests do; called by forked_ranks."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from seed_hpc.distributed import planner
from seed_hpc.distributed.exchange import GradientExchange, wrap
from seed_hpc.distributed.launch import Launch

BATCH, FEATURES = 12, 40


def small_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, 33), torch.nn.Tanh(), torch.nn.Linear(33, 7))


def batch(update: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + update)
    return torch.randn(BATCH, FEATURES, generator=generator), torch.randn(BATCH, 7, generator=generator)


def train_single(updates: int) -> torch.Tensor:
    """The same updates in one process on the whole batch."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for update in range(updates):
        inputs, targets = batch(update)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def train(launch: Launch, groups: list, cases: list, updates: int) -> dict:
    """Trains on this rank's share of each batch with each (algorithm, compression); returns parameters and digests."""
    results = {}
    for algorithm, compression in cases:
        exchange = GradientExchange(
            tuple(map(tuple, groups)), algorithm=algorithm, compression=compression, device="cpu"
        )
        model = wrap(small_model(), exchange, bucket_megabytes=0.002)  # several buckets
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for update in range(updates):
            share = slice(launch.rank, None, launch.world_size)
            inputs, targets = (part[share] for part in batch(update))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        parameters = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        digest = hashlib.sha256(parameters.numpy().tobytes()).hexdigest()
        results[f"{algorithm} {compression}"] = (digest, parameters.tolist())
    return results


def average_sizes(launch: Launch, groups: list, sizes: list) -> list:
    """Averages rank-dependent integers, whose float sums are exact, in tensors of awkward sizes."""
    errors = []
    for algorithm in planner.ALGORITHMS:
        exchange = GradientExchange(tuple(map(tuple, groups)), algorithm=algorithm)
        for size in sizes:
            values = torch.arange(size, dtype=torch.float32) * (launch.rank + 1)
            exchange.average_(values)
            factor = sum(range(1, launch.world_size + 1)) / launch.world_size
            expected = torch.arange(size, dtype=torch.float32) * factor
            errors.append(float((values - expected).abs().max()))
        exchange.close()
        assert len(dist.distributed_c10d._world.pg_map) == 1, "process groups were left behind"
    return errors


def measure(launch: Launch, groups: list) -> dict:
    exchanges = {
        algorithm: GradientExchange(tuple(map(tuple, groups)), algorithm=algorithm) for algorithm in planner.ALGORITHMS
    }
    links = planner.measure(exchanges, sizes_bytes=(4096, 1 << 18), repeats=2)
    return {algorithm: (link.latency_s, link.bytes_per_s) for algorithm, link in links.items()}


def gathered_groups(launch: Launch) -> tuple:
    from seed_hpc.distributed import topology

    found = topology.gather(launch)
    return found.nvlink_groups(), found.host_groups(), [device.index for device in found.devices]


def train_catch(
    launch: Launch,
    config: str,
    results: str,
    overrides: list = (),
    resume: bool = False,
    signal_rank: int = -1,
    signal_iteration: int = 0,
) -> tuple:
    """Trains on Catch in the run directory results/catch/run; returns (status or error, frames, parameters)."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from doubles.catch_env import CatchEnvs

    from seed_hpc.config import load_experiment
    from seed_hpc.distributed.peers import Peers
    from seed_hpc.errors import RunFailedError
    from seed_hpc.training.loop import ClosedLoop
    from seed_hpc.training.loop import train as train_run
    from seed_hpc.training.run_directory import RunDirectory

    experiment = load_experiment(config, overrides)
    peers = Peers(launch, experiment.distributed)
    loop = ClosedLoop(experiment, CatchEnvs(experiment.env.num_envs), peers)
    path = Path(results) / "catch" / "run"
    if not resume:
        peers.from_main(lambda: RunDirectory.create(Path(results), experiment, run_id="run").path)
    unroll, count = loop.actor.unroll, 0

    def unroll_and_signal():
        nonlocal count
        count += 1
        if launch.rank == signal_rank and count == signal_iteration:
            os.kill(os.getpid(), signal.SIGUSR1)
        return unroll()

    loop.actor.unroll = unroll_and_signal
    try:
        status = train_run(RunDirectory(path), loop, resume=resume)
    except RunFailedError as error:
        return f"failed: {error}", 0, []
    parameters = torch.nn.utils.parameters_to_vector(loop.learner.network.parameters()).detach()
    return status, loop.statistics.frames, parameters.tolist()
