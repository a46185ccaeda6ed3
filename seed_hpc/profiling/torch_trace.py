# SPDX-License-Identifier: Apache-2.0
"""torch.profiler traces (Chrome trace JSON): the fallback where no Nsight tool is installed, also on a CPU."""

from __future__ import annotations

import gzip
import json
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
        `kernels` are device kernels, `api` CPU operators (their own calls, nested ones included), `ranges` the
        `record_function` blocks.

    Raises:
        UserError: The file is no such trace, or it is cut off.
    """
    trace = _load(path)
    version = trace.get("schemaVersion")
    profile = Profile(tool="torch", version=None, source=path.name)
    profile.notes.append(f"torch.profiler trace, schema {version}")
    groups: dict[str, defaultdict[str, list[int]]] = {
        category: defaultdict(list) for category in ("kernel", "cpu_op", "memory", "user_annotation")
    }
    for event in trace["traceEvents"]:
        category = str(event.get("cat", "")).lower()
        category = "memory" if category in ("gpu_memcpy", "gpu_memset") else category
        if event.get("ph") == "X" and category in groups:
            groups[category][str(event["name"])].append(_duration_ns(event))
    profile.kernels = _table(groups["kernel"])
    profile.api = _table(groups["cpu_op"])
    profile.memory = _table(groups["memory"])
    profile.ranges = finish_table(
        RangeSummary(**vars(Summary.from_durations(name, values))) for name, values in groups["user_annotation"].items()
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


def _load(path: Path) -> dict[str, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            trace = json.load(file)
    except (json.JSONDecodeError, EOFError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is no JSON or is cut off ({error}): profile again") from None
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise UserError(f"{path} is JSON but no torch.profiler trace: it has no list 'traceEvents'")
    return trace


def _duration_ns(event: dict[str, Any]) -> int:
    return round(float(event.get("dur", 0.0)) * 1000)  # a Chrome trace counts microseconds


def _table(durations: dict[str, list[int]]) -> list[Summary]:
    return finish_table(Summary.from_durations(name, values) for name, values in durations.items())
