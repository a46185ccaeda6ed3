# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench sampler`: what the sampler costs a training loop, from interleaved runs with and without it.

The workload is a loop of a small convolutional policy: inference on a batch and one gradient step, the pattern of the
real loop, in which Python holds the interpreter's lock about half of the time. A pair is one run with and one
without; which of the two goes first alternates, so that a machine that slows down or warms up does not decide.
The ratio of elapsed times is the verdict on a machine of one's own. Where other programs run it says little, and two
measures say more: the ratio of the process's CPU times, and the CPU time of the sampler's own thread per second. That
one depends on nothing else, but leaves out what waiting for the interpreter's lock costs the loop.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.profiling.sampler import DEFAULT_HZ, Sampler, read_samples


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("--hz", type=float, default=DEFAULT_HZ, help="readings per second (default 10)")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs (default 9)")
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="about how long one run takes (default 6: it then writes a file)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--limit", type=float, metavar="PERCENT", help="exit 1 where the median overhead is above")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="also write the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Measures, prints the ratio, returns 1 where it exceeds the limit."""
    if args.pairs < 1:
        raise UserError(f"--pairs {args.pairs} is not allowed: give 1 or more")
    if not math.isfinite(args.seconds) or args.seconds <= 0:
        raise UserError(f"--seconds {args.seconds} is not allowed: give more than 0")
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device: use --device cpu")
    result = measure(_workload(device), hz=args.hz, pairs=args.pairs, seconds=args.seconds)
    result["device"] = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    if args.json is not None:
        write_json(args.json, result)
    overhead, cpu = result["overhead_pct"], result["cpu_overhead_pct"]
    Console().print(
        f"sampler at {args.hz:g} Hz ({result['backend']}): overhead {overhead['median']:+.2f} % "
        f"({overhead['min']:+.2f} to {overhead['max']:+.2f} % in {args.pairs} interleaved pairs of "
        f"{result['iterations']} iterations); CPU time {cpu['median']:+.2f} % ({cpu['min']:+.2f} to "
        f"{cpu['max']:+.2f} %), {result['cpu_ms_per_reading']:.2f} ms a reading; the sampler's thread used "
        f"{result['thread_cpu_pct']:.2f} % of one core",
        highlight=False,
        soft_wrap=True,
    )
    return 1 if args.limit is not None and overhead["median"] > args.limit else 0


def measure(
    iteration: Callable[[], Any],
    *,
    hz: float,
    pairs: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """Runs the loop `pairs` times with the sampler and as often without, interleaved; see the module's docstring.

    Args:
        iteration: One iteration of the loop, synchronous.
        hz: Readings per second.
        pairs: Pairs of runs.
        seconds: About how long one run takes; fixes the number of iterations before the first pair.
        clock: Elapsed time in seconds.
        cpu_clock: CPU time of the process in seconds.

    Returns:
        Ratios with / without of each pair, their minimum, median and maximum and the same as overhead in percent, of
        elapsed time (`ratio`, `overhead_pct`) and of CPU time (`cpu_ratio`, `cpu_overhead_pct`); CPU time of a reading;
        the sampler thread's CPU time while the loop ran, in percent of that time (`thread_cpu_pct`).
    """
    iterations = _iterations(iteration, seconds, clock)
    ratios: list[float] = []
    cpu_ratios: list[float] = []
    readings, missed, backend = 0, 0, ""
    thread_cpu_s, sampled_s = 0.0, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for pair in range(pairs):
            times: dict[bool, tuple[float, float]] = {}
            for sampled in (True, False) if pair % 2 == 0 else (False, True):
                if not sampled:
                    times[False] = _time(iteration, iterations, clock, cpu_clock)
                    continue
                folder = Path(scratch) / str(pair)
                with Sampler(folder, hz=hz) as sampler:
                    thread_began_s = sampler.cpu_seconds()
                    times[True] = _time(iteration, iterations, clock, cpu_clock)
                    thread_cpu_s += sampler.cpu_seconds() - thread_began_s
                    sampled_s += times[True][0]
                info = read_samples(folder).info
                readings, missed, backend = readings + info["readings"], missed + info["missed"], info["backend"]
            ratios.append(times[True][0] / times[False][0])
            cpu_ratios.append(times[True][1] / times[False][1])
        cpu_ms = _cpu_ms_per_reading(Path(scratch) / "cpu")
    return {
        "schema_version": 1,
        "hz": hz,
        "pairs": pairs,
        "iterations": iterations,
        "cores": os.cpu_count(),
        "backend": backend,
        "readings": readings,
        "missed": missed,
        "ratios": ratios,
        "cpu_ratios": cpu_ratios,
        "ratio": _spread(ratios),
        "overhead_pct": _percent(_spread(ratios)),
        "cpu_ratio": _spread(cpu_ratios),
        "cpu_overhead_pct": _percent(_spread(cpu_ratios)),
        "cpu_ms_per_reading": cpu_ms,
        "thread_cpu_pct": 100.0 * thread_cpu_s / sampled_s,
    }


def _loop(iteration: Callable[[], Any], iterations: int) -> None:
    for _ in range(iterations):
        iteration()


def _time(
    iteration: Callable[[], Any], iterations: int, clock: Callable[[], float], cpu_clock: Callable[[], float]
) -> tuple[float, float]:
    begun, cpu_begun = clock(), cpu_clock()
    _loop(iteration, iterations)
    return clock() - begun, cpu_clock() - cpu_begun


def _iterations(iteration: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> int:
    _loop(iteration, 3)  # warm-up
    count, spent = 1, 0.0
    while spent < 0.2 * seconds:
        count *= 2
        begun = clock()
        _loop(iteration, count)
        spent = clock() - begun
    return max(1, round(count * seconds / spent))


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def _percent(ratios: dict[str, float]) -> dict[str, float]:
    return {name: 100.0 * (value - 1.0) for name, value in ratios.items()}


def _cpu_ms_per_reading(folder: Path) -> float:
    """CPU time of the process per reading while nothing else runs in it: sampling as fast as is allowed."""
    sampler = Sampler(folder, hz=100.0)
    sampler.start()
    begun = time.process_time()
    time.sleep(1.0)
    spent = time.process_time() - begun
    sampler.stop()
    return 1000.0 * spent / max(1, int(read_samples(folder).info["readings"]) - 1)


def _workload(device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    policy = torch.nn.Sequential(
        torch.nn.Conv2d(4, 16, 8, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 4, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 9 * 9, 6),
    ).to(device)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-4)
    obs_BCHW = torch.randint(0, 256, (16, 4, 84, 84), dtype=torch.uint8, device=device)

    def iteration() -> None:
        with torch.no_grad():
            for _ in range(4):
                torch.multinomial(policy(obs_BCHW.float() / 255.0).softmax(-1), 1)
        loss = policy(obs_BCHW.float() / 255.0).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return iteration
