# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc profile`: reads profiler files of any supported version, profiles a training run, samples a command."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.profiling import profiled_run
from seed_hpc.profiling.profiler_files import parse_since, read_profiler_file, refuse_stale
from seed_hpc.profiling.sampler import Sampler, read_samples
from seed_hpc.profiling.tables import Profile, Summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parse = actions.add_parser("parse", help="read an nsys, ncu or torch.profiler file")
    parse.add_argument("file", type=Path, help="SQLite export or CSV of nsys, CSV of ncu, or torch.profiler trace")
    parse.add_argument("--json", type=new_file, metavar="FILE", help="write the tables to FILE ('-' for the terminal)")
    parse.add_argument("--since", metavar="RUN|TIME", help="refuse a file written before this run or time")
    parse.add_argument("--top", type=int, default=15, metavar="N", help="rows to print (default 15)")

    run_parser = actions.add_parser("run", help="profile a short training run")
    run_parser.add_argument("--config", required=True, metavar="FILE", help="the experiment, as for `seed-hpc train`")
    run_parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY=VALUE", help="passed on to `seed-hpc train`"
    )
    run_parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for tables and traces")
    run_parser.add_argument("--if-possible", action="store_true", help="record a missing tool instead of failing")
    run_parser.add_argument("--results", metavar="DIR", help="where the profiled run goes, as for `seed-hpc train`")
    run_parser.add_argument(
        "--tool", choices=("auto", "torch", "nsys", "ncu"), default="auto", help="auto: nsys if installed, else torch"
    )
    run_parser.add_argument("--window", metavar="FIRST:COUNT", help="iterations to record (default: all)")
    run_parser.add_argument(
        "--max-launches", type=int, default=50, metavar="N", help="kernel launches that ncu measures"
    )
    run_parser.add_argument(
        "--prefix", default="", metavar="CMD", help="put before nsys or ncu: 'apptainer exec --nv X'"
    )
    run_parser.add_argument("--top", type=int, default=15, metavar="N", help="rows to print (default 15)")

    analyse = actions.add_parser("analyse", help="analyse a run's profiles and samples, write profile/analysis.json")
    analyse.add_argument("run", type=Path, help="run directory")

    ceilings_parser = actions.add_parser("ceilings", help="measure the ceilings of the roofline on this device")
    ceilings_parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: cuda")
    ceilings_parser.add_argument(
        "--json", type=new_file, metavar="FILE", help="write them, as RUN/profile/ceilings.json"
    )

    sample = actions.add_parser("sample", help="sample the GPUs and the host while a command runs")
    sample.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the samples")
    sample.add_argument("--hz", type=float, default=10.0, help="readings per second (default 10)")
    sample.add_argument("program", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command to run")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    if getattr(args, "top", 1) < 1:
        raise UserError(f"--top {args.top} is not allowed: give a number of at least 1")
    actions = {"parse": _parse, "run": _run, "analyse": _analyse, "ceilings": _ceilings, "sample": _sample}
    return actions[args.action](args)


def _analyse(args: argparse.Namespace) -> int:
    from seed_hpc.profiling.run_analysis import ANALYSIS_FILE, analyse_run

    document = analyse_run(args.run)
    console = Console()
    for finding in document["findings"]:
        advice = f" -> {finding['advice']}" if finding["advice"] else ""
        console.print(f"{finding['severity']}: {finding['text']}{advice}", highlight=False, markup=False)
    for note in document["notes"]:
        console.print(f"note: {note}", highlight=False, markup=False)
    console.print(f"written: {args.run / ANALYSIS_FILE}", highlight=False, soft_wrap=True)
    return 0


def _ceilings(args: argparse.Namespace) -> int:
    from seed_hpc.profiling import ceilings

    document = ceilings.measure(args.device)
    if args.json is not None:
        write_json(args.json, document)
    console = Console()
    for key, unit in (("bytes_per_s", "GB/s"), ("flops", "GFLOP/s (float32)")):
        low, middle, high = (document[key][name] / 1e9 for name in ("min", "median", "max"))
        console.print(f"{document['device']}: {middle:.1f} {unit} ({low:.1f} to {high:.1f})", highlight=False)
    return 0


def _run(args: argparse.Namespace) -> int:
    if args.max_launches < 1:
        raise UserError(f"--max-launches {args.max_launches} is not allowed: give a number of at least 1")
    window = profiled_run.Window.parse(args.window) if args.window is not None else None
    prefix = shlex.split(args.prefix)
    tool = args.tool
    if tool == "auto":
        tool = "nsys" if prefix or shutil.which("nsys") else "torch"
    results = ["--results", args.results] if args.results is not None else []
    arguments = ["--config", args.config, *results, *args.overrides]
    rank = profiled_run.rank_of(os.environ)
    if tool == "torch":
        from seed_hpc import cli

        statuses: list[int] = []
        profile = profiled_run.profile_with_torch(
            lambda: statuses.append(cli.main(["train", *arguments])), args.output, rank=rank, window=window
        )
        if statuses[0] != 0:
            raise UserError(f"the training ended with status {statuses[0]}: see its message above")
    elif args.if_possible and not prefix and shutil.which(tool) is None:
        note = f"{tool} was asked for and is not installed on this machine: nothing was profiled"
        profile = Profile(tool=tool, version=None, source=tool, notes=[note])
        write_json(args.output / f"{tool}-rank{rank}.json", profile.to_json())
    else:
        command = profiled_run.training_command(arguments)
        if tool == "nsys":
            profile = profiled_run.profile_with_nsys(command, args.output, rank=rank, window=window, prefix=prefix)
        else:
            profile = profiled_run.profile_with_ncu(
                command, args.output, rank=rank, window=window, prefix=prefix, max_launches=args.max_launches
            )
    _print(profile, args.top)
    return 0


def _sample(args: argparse.Namespace) -> int:
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program:
        raise UserError("name the command to run: seed-hpc profile sample --output DIR -- CMD ...")
    sampler = Sampler(args.output, hz=args.hz)
    try:
        process = subprocess.Popen(program)
    except OSError as error:
        raise UserError(f"{program[0]} cannot be started: {error.strerror}") from error
    sampler.follow(process.pid)
    with sampler:
        status = process.wait()
    samples = read_samples(args.output)
    Console().print(
        f"{samples.info['readings']} readings, {len(samples.info['devices'])} devices, status {status}", highlight=False
    )
    return 0 if status == 0 else 1


def _parse(args: argparse.Namespace) -> int:
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
            console.print(_table(title, rows, top, console.width), highlight=False, markup=False, soft_wrap=True)
    for note in profile.notes:
        console.print(f"note: {note}", highlight=False, markup=False)


def _table(title: str, rows: Sequence[Summary], top: int, width: int) -> str:
    cells = [
        (
            "-" if row.share_pct is None else f"{row.share_pct:.1f}",
            "-" if row.total_ns is None else f"{row.total_ns / 1e6:.3f}",
            str(row.count),
            "-" if row.total_ns is None else f"{row.total_ns / row.count / 1e3:.2f}",
        )
        for row in rows[:top]
    ]
    titles = ("share %", "total ms", "count", "mean us")
    # Numbers are never shortened; the name takes what is left of the terminal.
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    room = max(20, width - sum(widths) - 2 * len(widths))
    lines = [f"{title} ({len(rows)})"]
    for line, name in zip((titles, *cells), ("name", *(row.name for row in rows)), strict=False):
        numbers = "  ".join(text.rjust(size) for text, size in zip(line, widths, strict=True))
        lines.append(f"{numbers}  {name if len(name) <= room else name[: room - 1] + '…'}")
    return "\n".join(lines)
