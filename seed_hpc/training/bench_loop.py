# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench loop`: what environments, inference and learning cost a training run.

The same run is timed three ways, one after the other in each repeat, with the same environments and network:

    environment               steps with the same random actions every time
    environment + inference   the actor's unrolls, nothing is learned
    closed loop               unrolls and updates, as in training
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from seed_hpc.config import Experiment, default_experiment, load_experiment
from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.profiling import ranges
from seed_hpc.training.latency import StepToGradient
from seed_hpc.training.loop import ClosedLoop
from seed_hpc.training.process import prepare_process
from seed_hpc.training.run_directory import command_line, commit, hardware, versions

ENVIRONMENT, INFERENCE, CLOSED_LOOP = "environment", "environment + inference", "closed loop"
WARM_UP_ROLLOUTS = 4


@dataclass(kw_only=True)
class Measurement:
    """One way to run.

    Attributes:
        name: Which.
        frames_per_s: Emulated frames a second, one a repeat.
        seconds: Of each phase, all repeats together.
    """

    name: str
    frames_per_s: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, float]:
        """Share of the time of each phase."""
        total = sum(self.seconds.values())
        return {phase: value / total for phase, value in self.seconds.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `seed-hpc bench loop`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="FILE", help="experiment: a file, or a name of config/experiments")
    what.add_argument("--agent", metavar="NAME", help="an agent with its defaults, on Pong")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats (default 5)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="at least so long is each way of a repeat (default 5)"
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="for example env.num_envs=64")


def run(args: argparse.Namespace) -> int:
    """Measures, prints a table, returns 0."""
    if args.repeats < 1 or not 0 < args.seconds < float("inf"):
        raise UserError("--repeats must be at least 1 and --seconds more than 0")
    prepare_process()
    if args.config is not None:
        experiment = load_experiment(args.config, args.overrides)
    else:
        experiment = default_experiment(args.agent, args.overrides)
    loop = ClosedLoop(experiment)
    measurements, step_to_gradient = measure(loop, args.repeats, args.seconds)
    latency = step_to_gradient.quantiles()
    loop.envs.close()
    print(table(experiment, measurements, latency))
    if args.json is not None:
        write_json(args.json, document(experiment, str(loop.device), args, measurements, latency))
    return 0


def measure(loop: ClosedLoop, repeats: int, seconds: float) -> tuple[list[Measurement], StepToGradient]:
    """Times the three ways in turn, `repeats` times; returns their figures, and the latency of the closed loop.

    Args:
        loop: A run that has not begun; replay agents learn from the first rollout on if agent.learning_starts allows.
        repeats: Of all three.
        seconds: At least so long is each.
    """
    learn = _iteration(loop)
    actor = loop.actor
    ways = {ENVIRONMENT: _steps(loop), INFERENCE: lambda: actor.synchronize(actor.unroll()), CLOSED_LOOP: learn}
    updates_wanted = loop.learner.num_updates + 1
    for _ in range(WARM_UP_ROLLOUTS):
        learn()
    while loop.learner.num_updates < updates_wanted:  # a replay fills up first
        learn()
    measurements = {name: Measurement(name=name) for name in ways}
    latency = StepToGradient()
    frames_each = loop.options.unroll_length * loop.envs.num_envs * loop.experiment.env.frameskip
    for _ in range(repeats):
        for name, once in ways.items():
            result = measurements[name]
            if name == CLOSED_LOOP:
                for _ in range(loop.rollouts_ahead):  # those that have waited while the other ways ran
                    learn()
                loop.learner.latency = latency
            rate, phases = _time(once, frames_each, seconds, loop.device)
            loop.learner.latency = StepToGradient()
            result.frames_per_s.append(rate)
            for phase, value in phases.items():
                result.seconds[phase] = result.seconds.get(phase, 0.0) + value
    return list(measurements.values()), latency


def _time(
    once: Callable[[], Any], frames_each: int, seconds: float, device: torch.device
) -> tuple[float, dict[str, float]]:
    """Calls `once` for at least `seconds`; returns frames a second and the seconds of each phase."""
    timer = ranges.PhaseTimer()
    _synchronize(device)
    ranges.start(timer)
    began, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - began < seconds:
        once()
        calls += 1
    _synchronize(device)
    elapsed = time.perf_counter() - began
    phases = timer.take()
    ranges.stop()
    return calls * frames_each / elapsed, phases


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _steps(loop: ClosedLoop) -> Callable[[], None]:
    """Returns a function that steps environments of its own, as many times as a rollout does."""
    rollout = loop.actor.unroll()
    envs, length = loop.envs, loop.options.unroll_length
    generator = torch.Generator().manual_seed(loop.options.seed)
    high = loop.agent.num_actions
    if loop.agent.continuous:
        actions = [2.0 * torch.rand(envs.num_envs, high, generator=generator) - 1.0 for _ in range(length)]
    else:
        actions = [torch.randint(high, (envs.num_envs,), generator=generator) for _ in range(length)]
    actions = [action.to(loop.device) for action in actions]
    observation = torch.empty_like(rollout.inputs.obs_TBX[0])
    reward = torch.empty(envs.num_envs, dtype=getattr(envs, "reward_dtype", torch.int32), device=loop.device)
    terminated, truncated = torch.empty(2, envs.num_envs, dtype=torch.bool, device=loop.device)

    def steps() -> None:
        for action in actions:
            with ranges.phase("environment"):
                envs.step_into(
                    action, observations=observation, rewards=reward, terminations=terminated, truncations=truncated
                )

    return steps


def _iteration(loop: ClosedLoop) -> Callable[[], None]:
    def iteration() -> None:
        while len(loop.pending) <= loop.rollouts_ahead:
            loop.pending.append(loop.actor.unroll())
        loop.learn_from(loop.pending.popleft())

    return iteration


def table(experiment: Experiment, measurements: list[Measurement], latency: dict[str, float]) -> str:
    """Returns the figures for people."""
    lines = [
        f"{experiment.agent.name} on {experiment.env.game}, {experiment.env.num_envs} environments, "
        f"unrolls of {experiment.training.unroll_length}",
        f"{'':24} {'frames/s (median)':>18}   time in",
    ]
    for item in measurements:
        shares = ", ".join(f"{phase} {100 * share:.0f} %" for phase, share in item.shares.items() if share >= 0.005)
        lines.append(f"{item.name:24} {statistics.median(item.frames_per_s):18,.0f}   {shares}")
    p50, p95 = latency["step_to_gradient_p50_s"], latency["step_to_gradient_p95_s"]
    lines.append(f"from an environment step to the end of its updates: median {p50:.3f} s, 95 % within {p95:.3f} s")
    return "\n".join(lines)


def document(
    experiment: Experiment,
    device: str,
    args: argparse.Namespace,
    measurements: list[Measurement],
    latency: dict[str, float],
) -> dict[str, Any]:
    """Returns all figures with what they depend on, as plain JSON values."""
    return {
        "schema_version": 1,
        "command": command_line(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(device),
        "experiment": experiment.to_dict(),
        "num_threads": torch.get_num_threads(),
        "repeats": args.repeats,
        "seconds": args.seconds,
        "measurements": [{**asdict(item), "shares": item.shares} for item in measurements],
        **latency,
    }
