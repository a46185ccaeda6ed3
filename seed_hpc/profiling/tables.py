# SPDX-License-Identifier: Apache-2.0
"""What every profiler file becomes: one small set of records with base units, and their JSON form.

The readers (`nsys`, `ncu`, `torch_trace`) fill a `Profile`; the analysis and the report read it. Times are
nanoseconds, sizes bytes, rates per second; a value that the tool did not give is None, never 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

SCHEMA_VERSION = 1

SummaryT = TypeVar("SummaryT", bound="Summary")


@dataclass(kw_only=True)
class Summary:
    """All executions of one name: a kernel, an API function, a memory operation or an NVTX range."""

    name: str
    count: int  # executions
    total_ns: int | None  # None: the file holds no duration
    avg_ns: float | None = None
    med_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    stddev_ns: float | None = None  # sample standard deviation; None for fewer than two executions
    share_pct: float | None = None  # of the total of its table

    @classmethod
    def from_durations(cls, name: str, durations_ns: Sequence[int]) -> Summary:
        """Summarises durations of at least one execution."""
        return cls(
            name=name,
            count=len(durations_ns),
            total_ns=sum(durations_ns),
            avg_ns=statistics.fmean(durations_ns),
            med_ns=float(statistics.median(durations_ns)),
            min_ns=min(durations_ns),
            max_ns=max(durations_ns),
            stddev_ns=statistics.stdev(durations_ns) if len(durations_ns) > 1 else None,
        )


@dataclass(kw_only=True)
class RangeSummary(Summary):
    """An NVTX range (or `record_function` block) by name, with the device time launched inside it."""

    gpu_ns: int | None = None  # sum over the kernels that were launched inside; None: the file has no kernels


@dataclass(kw_only=True)
class KernelLaunch:
    """One kernel launch that ncu measured with hardware counters."""

    launch_id: str
    name: str
    block: tuple[int, ...] | None
    grid: tuple[int, ...] | None
    device: str | None
    compute_capability: str | None
    count: int  # launches that this row stands for (more than one with --print-summary)
    duration_ns: float | None
    # The metrics that the analysis uses, under one name whatever the version and the page (see ncu.CANONICAL).
    values: dict[str, float] = field(default_factory=dict)
    # Every metric as the tool names it, in base units (second, byte, cycle, %); text stays text, n/a is None.
    metrics: dict[str, float | str | None] = field(default_factory=dict)
    # What the tool's own rules say about this launch.
    advice: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Profile:
    """Everything read from one profiler file."""

    tool: str  # "nsys", "ncu" or "torch"
    version: str | None  # of the tool; None where the file does not say
    source: str  # name of the file
    kernels: list[Summary] = field(default_factory=list)
    ranges: list[RangeSummary] = field(default_factory=list)
    api: list[Summary] = field(default_factory=list)
    memory: list[Summary] = field(default_factory=list)
    launches: list[KernelLaunch] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what is missing and why, in plain words

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; keys are the fields' names and `schema_version`."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Profile:
        """Rebuilds what `to_json` wrote."""
        known = dict(document)
        known.pop("schema_version", None)
        for key in ("kernels", "api", "memory"):
            known[key] = [Summary(**entry) for entry in known.get(key, [])]
        known["ranges"] = [RangeSummary(**entry) for entry in known.get("ranges", [])]
        known["launches"] = [
            KernelLaunch(
                **{**entry, **{axis: tuple(entry[axis]) if entry[axis] else None for axis in ("block", "grid")}}
            )
            for entry in known.get("launches", [])
        ]
        return cls(**known)


def finish_table(rows: Iterable[SummaryT]) -> list[SummaryT]:
    """Sorts by total time, longest first, and fills in each row's share of the table."""
    table = sorted(rows, key=lambda row: (-(row.total_ns or 0), row.name))
    total_ns = sum(row.total_ns or 0 for row in table)
    for row in table:
        if total_ns > 0 and row.total_ns is not None:
            row.share_pct = 100.0 * row.total_ns / total_ns
    return table
