# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc profile`: reads profiler files of any supported version."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from seed_hpc.errors import UserError
from seed_hpc.profiling.profiler_files import parse_since, read_profiler_file, refuse_stale
from seed_hpc.profiling.tables import Profile, Summary, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parse = actions.add_parser("parse", help="read an nsys, ncu or torch.profiler file")
    parse.add_argument("file", type=Path, help="SQLite export or CSV of nsys, CSV of ncu, or torch.profiler trace")
    parse.add_argument("--json", type=Path, metavar="FILE", help="write the tables to FILE ('-' for the terminal)")
    parse.add_argument("--since", metavar="RUN|TIME", help="refuse a file written before this run or time")
    parse.add_argument("--top", type=int, default=15, metavar="N", help="rows to print (default 15)")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    return _parse(args)


def _parse(args: argparse.Namespace) -> int:
    if args.top < 1:
        raise UserError(f"--top {args.top} is not allowed: give a number of at least 1")
    profile = read_profiler_file(args.file)
    if args.since is not None:
        refuse_stale(args.file, parse_since(args.since))
    if args.json is not None and str(args.json) == "-":
        json.dump(profile.to_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    if args.json is not None:
        try:
            write_json(args.json, profile.to_json())
        except OSError as error:
            raise UserError(f"{args.json} cannot be written: {error.strerror}") from error
    _print(profile, args.top)
    return 0


def _print(profile: Profile, top: int) -> None:
    console = Console()
    console.print(f"{profile.tool} {profile.version or '(version not given)'}: {profile.source}", highlight=False)
    titles = (("kernels", "Kernels"), ("ranges", "Ranges"), ("memory", "Memory operations"), ("api", "API calls"))
    for attribute, title in titles:
        if rows := getattr(profile, attribute):
            console.print(_table(title, rows, top))
    for note in profile.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def _table(title: str, rows: list[Summary], top: int) -> Table:
    table = Table(title=f"{title} ({len(rows)})", title_justify="left")
    for name in ("share %", "total ms", "count", "mean us"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    table.add_column("name", overflow="ellipsis", no_wrap=True)
    for row in rows[:top]:
        table.add_row(
            "-" if row.share_pct is None else f"{row.share_pct:.1f}",
            "-" if row.total_ns is None else f"{row.total_ns / 1e6:.3f}",
            str(row.count),
            "-" if row.total_ns is None else f"{row.total_ns / row.count / 1e3:.2f}",
            row.name,
        )
    return table
