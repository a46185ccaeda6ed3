# SPDX-License-Identifier: Apache-2.0
"""The command line `seed-hpc`: finds the subcommand's module, runs it, turns errors into exit codes.

A subcommand's module offers `add_arguments(parser)` and `run(args) -> int`. Exit codes: 0 fine, 1 failed check,
2 wrong usage. This is the only module that exits.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from seed_hpc import __version__
from seed_hpc.errors import RunFailedError, UserError

# Subcommand -> (module, one line of help). Modules load only when they are used.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("seed_hpc.training.train_command", "train an agent"),
    "evaluate": ("seed_hpc.training.evaluate_command", "evaluate a trained agent"),
    "bench": ("seed_hpc.profiling.bench_command", "measure environments, the loop, replay or collectives"),
    "plan": ("seed_hpc.training.plan_command", "predict memory and propose sizes"),
    "parity": ("seed_hpc.envs.parity_command", "compare the emulator with ale-py, bit for bit"),
    "env": ("seed_hpc.envs.env_command", "write your own environment, list environments"),
    "kernels": ("seed_hpc.profiling.kernels_command", "build and inspect the native libraries"),
    "topology": ("seed_hpc.distributed.topology_command", "show GPUs, NVLink groups and predicted costs"),
    "profile": ("seed_hpc.profiling.profile_command", "profile a run, read profiler files"),
    "report": ("seed_hpc.report.report_command", "write or compare performance reports"),
    "doctor": ("seed_hpc.profiling.doctor_command", "check this machine and say what to do"),
    "watch": ("seed_hpc.report.watch_command", "follow a run in the terminal"),
}


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Returns the parser; only `command`'s own arguments are loaded, so that start-up stays quick."""
    parser = argparse.ArgumentParser(
        prog="seed-hpc", description="Deep RL on one accelerator, scaled out by gradients only."
    )
    parser.add_argument("--version", action="version", version=f"seed-hpc {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (module, help_line) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}.")
        if name == command:
            import_module(module).add_arguments(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code.

    Args:
        argv: The arguments after the program's name; None takes them from the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command = next((argument for argument in arguments if argument in COMMANDS), None)
    parser = build_parser(command)
    args, rest = parser.parse_known_args(arguments)
    if hasattr(args, "overrides") and all("=" in word and not word.startswith("-") for word in rest):
        args.overrides = [*args.overrides, *rest]  # argparse leaves over what follows an option
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        code = int(import_module(COMMANDS[args.command][0]).run(args))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"seed-hpc {args.command}: {error}", file=sys.stderr)
        return 2
    except RunFailedError as error:
        print(f"seed-hpc {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read the output has gone: `seed-hpc ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return 141
    except MemoryError as error:
        reason = str(error) or "not enough memory: lower the sizes"
        print(f"seed-hpc {args.command}: {reason}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:
            raise
        print(f"seed-hpc {args.command}: {error.filename} cannot be used ({error.strerror})", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"seed-hpc {args.command}: interrupted", file=sys.stderr)
        return 130


def entry_point() -> None:
    """Exits with `main`'s code; the console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry_point()
