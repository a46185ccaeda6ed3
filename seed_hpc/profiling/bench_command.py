# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench TARGET`: hands over to the benchmark of one part. Only that part is imported."""

from __future__ import annotations

import argparse
from importlib import import_module

# Target -> (module with add_arguments and run, one line of help).
TARGETS: dict[str, tuple[str, str]] = {
    "env": ("seed_hpc.envs.bench_env", "frames a second of the environments, beside ale-py and EnvPool"),
    "loop": ("seed_hpc.training.bench_loop", "environments, inference and learning of a training run"),
    "replay": ("seed_hpc.replay.bench_replay", "transitions a second of the replay, beside torchrl and NumPy"),
    "architectures": ("seed_hpc.baselines.bench_architectures", "the closed loop beside actor processes with ale-py"),
    "collectives": ("seed_hpc.distributed.bench_collectives", "collectives and gradient exchanges"),
    "scaling": ("seed_hpc.distributed.bench_scaling", "training with 1, 2, 4 ... ranks, and a projection"),
    "sampler": ("seed_hpc.profiling.bench_sampler", "overhead of the GPU and host sampler"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the target; everything behind it belongs to the target's own parser."""
    lines = [f"{name}: {help_line}" for name, (_, help_line) in TARGETS.items()]
    parser.add_argument("target", choices=TARGETS, help="; ".join(lines))
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="options of the target (TARGET --help lists them)")


def run(args: argparse.Namespace) -> int:
    """Runs the target and returns its exit code."""
    module_name, help_line = TARGETS[args.target]
    module = import_module(module_name)
    parser = argparse.ArgumentParser(prog=f"seed-hpc bench {args.target}", description=f"Measures: {help_line}.")
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(args.arguments)))
