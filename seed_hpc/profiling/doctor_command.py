# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc doctor`: checks this machine and says what to do; exit code 1 where a needed thing does not work."""

from __future__ import annotations

import argparse
import json
import math
import sys

from rich.console import Console
from rich.table import Table

from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.profiling.doctor import GIB, Check, Machine, Plan, examine, to_json

_MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[bold red]FAIL[/]", "absent": "[dim]absent[/]"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write the checks to FILE ('-' for the terminal)")
    parser.add_argument("--host-memory", type=float, default=0.0, metavar="GIB", help="main memory that the run needs")
    parser.add_argument("--gpu-memory", type=float, default=0.0, metavar="GIB", help="memory that it needs on each GPU")
    parser.add_argument("--results", default="results", metavar="DIR", help="where runs write (default: results)")


def run(args: argparse.Namespace) -> int:
    """Examines the machine, prints the table, returns 1 where a check failed."""
    for option, value in (("--host-memory", args.host_memory), ("--gpu-memory", args.gpu_memory)):
        if not math.isfinite(value) or value < 0:
            raise UserError(f"{option} {value} is not allowed: give a number of GiB, 0 or more")
    plan = Plan(int(args.host_memory * GIB), int(args.gpu_memory * GIB), args.results)
    checks = examine(Machine(), plan)
    if args.json is not None and str(args.json) == "-":
        json.dump(to_json(checks), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        if args.json is not None:
            try:
                write_json(args.json, to_json(checks))
            except OSError as error:
                raise UserError(f"{args.json} cannot be written: {error.strerror}") from error
        _print(checks)
    return 1 if any(check.status == "fail" for check in checks) else 0


def _print(checks: list[Check]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("found and what to do", overflow="fold")
    for check in checks:
        table.add_row(check.name, _MARKS[check.status], check.found + (f"\n-> {check.advice}" if check.advice else ""))
    console = Console()
    console.print(table, highlight=False)
    failed = [check.name for check in checks if check.status == "fail"]
    warned = sum(check.status == "warn" for check in checks)
    text = f"needs attention: {', '.join(failed)}" if failed else "nothing that is needed is missing"
    console.print(f"\n{text}; {warned} warning{'' if warned == 1 else 's'}" if warned else f"\n{text}", highlight=False)
