# SPDX-License-Identifier: Apache-2.0
"""Runs a program under a profiler: torch.profiler in this process, or nsys and ncu around a command.

Every rank profiles itself into files that carry its rank, so `srun seed-hpc profile run ...` needs no other wiring:

    <folder>/<tool>-rank<r>.json            the tables (see tables.Profile), what the report reads
    <folder>/traces/<tool>-rank<r>.*        what the tool wrote

A file of an earlier run is refused before the program starts, and a tool that leaves no new file afterwards is an
error: a report never shows another run's figures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from seed_hpc.errors import MissingDependencyError, UserError
from seed_hpc.files import write_json
from seed_hpc.profiling import ranges
from seed_hpc.profiling.profiler_files import read_profiler_file, refuse_stale
from seed_hpc.profiling.tables import Profile

# Slurm's last: what mpirun starts inside a batch script inherits the script's SLURM_PROCID, 0.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
# ncu replays a kernel several times, and a replayed NCCL kernel waits for peers that do not replay: it hangs. NCCL's
# kernels are the functions whose names begin with "nccl"; written without look-ahead, which not every engine has.
NOT_NCCL = "regex:^([^n]|n[^c]|nc[^c]|ncc[^l]|.{1,3}$)"
_NCU_SECTIONS = ("SpeedOfLight", "SpeedOfLight_RooflineChart", "Occupancy", "LaunchStats", "MemoryWorkloadAnalysis")


@dataclass(frozen=True, kw_only=True)
class Window:
    """Which iterations of the training loop are recorded, counted from 0."""

    first: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Window:
        """Reads "FIRST:COUNT"."""
        first, count = ranges.parse_window(text)
        return cls(first=first, count=count)


def rank_of(environ: Mapping[str, str]) -> int:
    """Returns the rank that torchrun, srun or mpirun gave this process; 0 outside of them."""
    for name in _RANK_VARIABLES:
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return 0


def nsys_command(output: Path, command: Sequence[str], *, cuda: bool, window: Window | None) -> list[str]:
    """Returns the command line of `nsys profile` around `command`.

    Args:
        output: The report's path without suffix.
        command: The program and its arguments.
        cuda: Whether to trace CUDA; on a machine without a driver nsys refuses to.
        window: Which iterations to record; None records everything.
    """
    options = [
        "nsys",
        "profile",
        f"--output={output}",
        "--force-overwrite=false",
        "--trace=cuda,nvtx,osrt" if cuda else "--trace=nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--backtrace=none",  # of blocking calls: they would be most of the report
    ]
    if cuda:
        options.append("--cuda-graph-trace=node")  # kernels inside graphs, not the graph as a whole
    if window is not None:
        options += [
            "--capture-range=nvtx",
            f"--nvtx-capture={ranges.CAPTURE_RANGE}@{ranges.DOMAIN}",
            "--capture-range-end=stop",
        ]
    return [*options, *command]


def ncu_command(output: Path, command: Sequence[str], *, window: Window | None, max_launches: int) -> list[str]:
    """Returns the command line of `ncu` around `command`: the kernels of the window, NCCL's left out.

    Args:
        output: The report's path without suffix.
        command: The program and its arguments.
        window: Which iterations to look into; None takes the first launches of the program.
        max_launches: Launches to measure; each is replayed about twenty times.
    """
    options = [
        "ncu",
        f"--export={output}",
        "--target-processes=all",
        f"--kernel-name={NOT_NCCL}",
        "--graph-profiling=node",
        f"--launch-count={max_launches}",
        *(f"--section={section}" for section in _NCU_SECTIONS),
    ]
    if window is not None:
        options += ["--nvtx", f"--nvtx-include={ranges.DOMAIN}@{ranges.CAPTURE_RANGE}/"]
    return [*options, *command]


def mark_environment(environ: Mapping[str, str], window: Window | None) -> dict[str, str]:
    """Returns the environment in which the program marks its phases with NVTX and opens the capture window."""
    result = {**environ, ranges.MARKS_VARIABLE: "nvtx"}
    # nsys compares --nvtx-capture with registered strings only, unless told otherwise.
    result["NSYS_NVTX_PROFILER_REGISTER_ONLY"] = "0"
    if window is not None:
        result[ranges.WINDOW_VARIABLE] = f"{window.first}:{window.count}"
    return result


def profile_with_torch(function: Callable[[], Any], folder: Path, *, rank: int = 0, window: Window | None) -> Profile:
    """Calls `function` under torch.profiler and writes its tables.

    Args:
        function: The program, in this process; it calls `ranges.start` itself and finds the marks set to "torch".
        folder: Where the files go.
        rank: Of this process.
        window: Which iterations to record (the program calls `ranges.step`); None records everything.

    Raises:
        UserError: The folder holds an earlier profile of this rank, or the window was never reached.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    tables, trace = _claim(folder, "torch", rank, ".json.gz")
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    written: list[Path] = []

    def save(profiler: Any) -> None:
        # torch writes a gzip file only under a name that ends in .gz.
        partial = trace.with_name(f".{trace.name.removesuffix('.json.gz')}.partial.json.gz")
        profiler.export_chrome_trace(str(partial))
        partial.replace(trace)
        written.append(trace)

    plan = None
    if window is not None:
        warmup = min(1, window.first)
        plan = schedule(wait=window.first - warmup, warmup=warmup, active=window.count, repeat=1)
    before = os.environ.get(ranges.MARKS_VARIABLE)
    os.environ[ranges.MARKS_VARIABLE] = "torch"
    try:
        with profile(activities=activities, schedule=plan, on_trace_ready=save) as profiler:
            if plan is None:
                function()
            else:
                with ranges.on_step(profiler.step):
                    function()
    finally:
        _restore(ranges.MARKS_VARIABLE, before)
    if not written:
        raise UserError(
            f"the program ended before iteration {window.first if window else 0}: nothing was recorded; give a smaller "
            "--window or let it run longer"
        )
    result = read_profiler_file(trace)
    result.version = str(torch.__version__)
    result.notes.insert(0, _window_note(window))
    write_json(tables, result.to_json())
    return result


def profile_with_nsys(
    command: Sequence[str], folder: Path, *, rank: int = 0, window: Window | None, prefix: Sequence[str] = ()
) -> Profile:
    """Runs `command` under `nsys profile`, exports the report and writes its tables.

    Args:
        command: The program and its arguments.
        folder: Where the files go.
        rank: Of this process.
        window: Which iterations to record; None records everything.
        prefix: What to put before nsys, such as `apptainer exec --nv IMAGE`.

    Raises:
        MissingDependencyError: nsys is not installed.
        UserError: The folder holds an earlier profile of this rank, or nsys left no report.
    """
    _need_tool("nsys", prefix)
    tables, report = _claim(folder, "nsys", rank, ".nsys-rep")
    begun = datetime.now(UTC)
    line = nsys_command(report.with_suffix(""), command, cuda=_cuda_is_there(), window=window)
    status = subprocess.run([*prefix, *line], env=mark_environment(os.environ, window), check=False).returncode
    _check_written(report, begun, "nsys", status)
    database = report.with_suffix(".sqlite")
    export = ["nsys", "export", "--type=sqlite", f"--output={database}", "--force-overwrite=true", str(report)]
    status = subprocess.run([*prefix, *export], stdout=subprocess.DEVNULL, check=False).returncode
    _check_written(database, begun, "nsys export", status)
    result = read_profiler_file(database)
    result.notes.insert(0, _window_note(window))
    write_json(tables, result.to_json())
    return result


def profile_with_ncu(
    command: Sequence[str],
    folder: Path,
    *,
    rank: int = 0,
    window: Window | None,
    prefix: Sequence[str] = (),
    max_launches: int = 50,
) -> Profile:
    """Runs `command` under `ncu`, exports the raw page and writes its tables; see `profile_with_nsys`.

    Forbidden counters are no error: the tables are empty then and a note says what the administrator must do.
    """
    _need_tool("ncu", prefix)
    tables, report = _claim(folder, "ncu", rank, ".ncu-rep")
    begun = datetime.now(UTC)
    line = ncu_command(report.with_suffix(""), command, window=window, max_launches=max_launches)
    log = report.with_suffix(".log")
    line.insert(1, f"--log-file={log}")
    status = subprocess.run([*prefix, *line], env=mark_environment(os.environ, window), check=False).returncode
    if not report.is_file():
        _check_written(log, begun, "ncu", status)
        result = read_profiler_file(log)  # says why: forbidden counters, no kernel
    else:
        _check_written(report, begun, "ncu", status)
        page = report.with_suffix(".csv")
        with page.open("wb") as file:
            subprocess.run(
                [*prefix, "ncu", "--import", str(report), "--csv", "--page", "raw"], stdout=file, check=False
            )
        _check_written(page, begun, "ncu --import", status)
        result = read_profiler_file(page)
    result.notes.insert(0, _window_note(window))
    write_json(tables, result.to_json())
    return result


def training_command(arguments: Sequence[str]) -> list[str]:
    """Returns the command line of `seed-hpc train` with this interpreter."""
    return [sys.executable, "-m", "seed_hpc.cli", "train", *arguments]


def _claim(folder: Path, tool: str, rank: int, suffix: str) -> tuple[Path, Path]:
    """Returns the files for tables and trace; refuses to mix with an earlier run's."""
    traces = folder / "traces"
    stem = f"{tool}-rank{rank}"
    old = [folder / f"{stem}.json", *traces.glob(f"{stem}.*")]
    for path in old:
        if path.exists():
            raise UserError(f"{path} is there from an earlier run: remove it or choose another --output")
    try:
        traces.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    return folder / f"{stem}.json", traces / f"{stem}{suffix}"


def _check_written(path: Path, begun: datetime, tool: str, status: int) -> None:
    if not path.is_file():
        raise UserError(
            f"{tool} ended with status {status} and left no {path}: see what it printed above; a window that the run "
            "never reached leaves none either"
        )
    refuse_stale(path, begun - timedelta(seconds=2))  # file systems round times


def _need_tool(tool: str, prefix: Sequence[str]) -> None:
    if not prefix and shutil.which(tool) is None:
        name = {"nsys": "Nsight Systems", "ncu": "Nsight Compute"}[tool]
        raise MissingDependencyError(f"{tool} is not on the PATH: install or load {name}, or use --tool torch")


def _cuda_is_there() -> bool:
    from seed_hpc.profiling.nvml import Nvml

    try:
        with Nvml() as session:
            return bool(session.devices)
    except MissingDependencyError:
        return False


def _window_note(window: Window | None) -> str:
    if window is None:
        return "the whole run was recorded"
    return f"iterations {window.first} to {window.first + window.count - 1} were recorded"


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
