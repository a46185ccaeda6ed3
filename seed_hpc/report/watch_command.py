# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc watch RUN`: a live view of a run in the terminal, through the files that the run writes."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from seed_hpc.errors import UserError
from seed_hpc.report.watch import RunFollower, find_run, render, summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("run", type=Path, help="run directory, or a folder of runs (the newest is taken)")
    parser.add_argument("--once", action="store_true", help="show the present state and end")
    parser.add_argument("--interval", type=float, default=2.0, metavar="S", help="seconds between looks (default 2)")


def run(args: argparse.Namespace) -> int:
    """Shows the run until it ends or the user interrupts; returns 1 where the run failed."""
    if not math.isfinite(args.interval) or args.interval <= 0:
        raise UserError(f"--interval {args.interval} is not allowed: give seconds, more than 0")
    follower = RunFollower(find_run(args.run))
    follower.poll()
    console = Console()
    unicode = (console.encoding or "").lower().startswith("utf")
    if args.once:
        console.print(render(follower, console.width, unicode=unicode))
        return _exit_code(follower)
    try:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    live.update(render(follower, console.width, unicode=unicode), refresh=True)
                    if follower.ended:
                        break
                    time.sleep(args.interval)
                    follower.poll()
        else:
            console.print(summary(follower), highlight=False, soft_wrap=True)
            while not follower.ended:
                time.sleep(args.interval)
                status = follower.status
                if follower.poll() or follower.status != status:
                    console.print(summary(follower), highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        return 0
    return _exit_code(follower)


def _exit_code(follower: RunFollower) -> int:
    return 1 if follower.status == "failed" else 0
