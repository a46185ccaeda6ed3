# SPDX-License-Identifier: Apache-2.0
"""torch.profiler traces (Chrome trace JSON): the fallback where no Nsight tool is installed, also on a CPU."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from seed_hpc.errors import UserError
from seed_hpc.profiling.nsys import Interval
from seed_hpc.profiling.tables import Profile, RangeSummary, Summary, finish_table

CPU_ONLY = "no device kernels: the run was profiled on a CPU; the table lists its operators under `api`"


def read_trace(path: Path) -> Profile:
    """Reads the file of `torch.profiler.profile.export_chrome_trace` (.json or .json.gz).

    Returns:
        `kernels` are device kernels, `api` CPU operators with their own time (without the operators they call), so
        that the shares add up, `ranges` the `record_function` blocks.

    Raises:
        UserError: The file is no such trace, or it is cut off.
    """
    trace = _load(path)
    version = trace.get("schemaVersion")
    profile = Profile(tool="torch", version=None, source=path.name)
    profile.notes.append(f"torch.profiler trace, schema {version}")
    groups: dict[str, defaultdict[str, list[int]]] = {
        category: defaultdict(list) for category in ("kernel", "memory", "user_annotation")
    }
    for event in trace["traceEvents"]:
        category = str(event.get("cat", "")).lower()
        category = "memory" if category in ("gpu_memcpy", "gpu_memset") else category
        if event.get("ph") == "X" and category in groups:
            groups[category][str(event["name"])].append(_duration_ns(event))
    profile.kernels = _table(groups["kernel"])
    profile.api = _table(_own_time(trace["traceEvents"]))
    profile.memory = _table(groups["memory"])
    profile.ranges = finish_table(
        RangeSummary(**vars(Summary.from_durations(name, values)))
        for name, values in groups["user_annotation"].items()
        if not name.startswith("ProfilerStep#")  # the profiler's own mark around everything that an iteration does
    )
    profile.devices = [str(device["name"]) for device in trace.get("deviceProperties", []) if "name" in device]
    if not profile.kernels:
        profile.notes.append(CPU_ONLY)
    return profile


def read_kernel_intervals(path: Path) -> list[Interval]:
    """Returns every device kernel of a trace in order of its start."""
    intervals = []
    for event in _load(path)["traceEvents"]:
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() == "kernel":
            start_ns = round(float(event["ts"]) * 1000)
            arguments = event.get("args", {})
            intervals.append(
                Interval(
                    start_ns,
                    start_ns + _duration_ns(event),
                    str(event["name"]),
                    int(arguments.get("device", 0)),
                    int(arguments.get("stream", 0)),
                )
            )
    return sorted(intervals, key=lambda interval: interval.start_ns)


def _own_time(events: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Returns for each CPU operator the durations of its calls less those of the operators that they call."""
    threads: defaultdict[Any, list[tuple[int, int, str]]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() == "cpu_op":
            start_ns = round(float(event["ts"]) * 1000)
            threads[event.get("tid")].append((start_ns, start_ns + _duration_ns(event), str(event["name"])))
    durations: defaultdict[str, list[int]] = defaultdict(list)
    for calls in threads.values():
        open_calls: list[list[Any]] = []  # [end, name, own time], the innermost last

        def close(before_ns: float, stack: list[list[Any]] = open_calls) -> None:
            while stack and stack[-1][0] <= before_ns:
                _, name, own_ns = stack.pop()
                durations[name].append(max(0, own_ns))

        for start_ns, end_ns, name in sorted(calls, key=lambda call: (call[0], -call[1])):
            close(start_ns)
            if open_calls:
                open_calls[-1][2] -= end_ns - start_ns
            open_calls.append([end_ns, name, end_ns - start_ns])
        close(float("inf"))
    return durations


def _load(path: Path) -> dict[str, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            trace = json.load(file)
    except (json.JSONDecodeError, EOFError, UnicodeDecodeError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is no JSON or is cut off ({error}): profile again") from None
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise UserError(f"{path} is JSON but no torch.profiler trace: it has no list 'traceEvents'")
    return trace


def _duration_ns(event: dict[str, Any]) -> int:
    return round(float(event.get("dur", 0.0)) * 1000)  # a Chrome trace counts microseconds


def _table(durations: dict[str, list[int]]) -> list[Summary]:
    return finish_table(Summary.from_durations(name, values) for name, values in durations.items())
