# SPDX-License-Identifier: Apache-2.0
"""Performance figures from profiles and samples: pure functions, each with its formula.

Data flow: tables (`profiler_files`), kernel intervals (`nsys`, `torch_trace`) and samples (`sampler`) go in, small
records come out; `findings` turns them into sentences and `analyse_run` writes all of it to profile/analysis.json.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seed_hpc.profiling.nsys import Interval
from seed_hpc.profiling.tables import KernelLaunch, Profile

_COMMUNICATION = re.compile(r"nccl|nvshmem|AllReduce|AllGather|ReduceScatter", re.IGNORECASE)


# ---- communication against computation


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How one device's time divides; all times in nanoseconds of its timeline, kernels that run at once count once."""

    device: int
    span_ns: int  # from the first kernel's start to the last one's end
    compute_ns: int
    communication_ns: int
    overlapped_ns: int  # communication while something is computed
    idle_ns: int  # no kernel runs

    @property
    def hidden_share(self) -> float | None:
        """The part of communication that costs nothing; None without communication."""
        return self.overlapped_ns / self.communication_ns if self.communication_ns else None

    @property
    def exposed_ns(self) -> int:
        """Communication that the device waits for."""
        return self.communication_ns - self.overlapped_ns


def overlap(intervals: Iterable[Interval]) -> list[Overlap]:
    """Returns how communication and computation overlap on each device.

    Args:
        intervals: Kernels; those of NCCL and NVSHMEM count as communication.
    """
    by_device: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for interval in intervals:
        compute, communication = by_device.setdefault(interval.device, ([], []))
        target = communication if _COMMUNICATION.search(interval.name) else compute
        target.append((interval.start_ns, interval.end_ns))
    rows = []
    for device, (compute, communication) in sorted(by_device.items()):
        everything = _union(compute + communication)
        span_ns = everything[-1][1] - everything[0][0]
        compute_ns, communication_ns = _length(_union(compute)), _length(_union(communication))
        busy_ns = _length(everything)
        rows.append(
            Overlap(
                device=device,
                span_ns=span_ns,
                compute_ns=compute_ns,
                communication_ns=communication_ns,
                overlapped_ns=compute_ns + communication_ns - busy_ns,  # inclusion and exclusion
                idle_ns=span_ns - busy_ns,
            )
        )
    return rows


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merges spans that touch or overlap; the result is in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


# ---- efficiency of a parallel run


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """The POP metrics of a run: parallel = load_balance * communication, each from 0 to 1.

    Source: POP Centre of Excellence, "Standard Metrics for Performance Audits".
    """

    ranks: int
    load_balance: float  # mean / maximum of the useful time
    communication: float  # maximum of the useful time / run time
    parallel: float  # mean of the useful time / run time


def pop_efficiency(useful_s: Sequence[float], elapsed_s: float) -> Efficiency:
    """Returns the POP metrics.

    Args:
        useful_s: For each rank the time that it computes: neither communicating nor waiting.
        elapsed_s: Run time of the region, the same for all ranks.

    Raises:
        ValueError: There is no rank, or a time that cannot be: negative, or useful time above the run time.
    """
    if not useful_s or elapsed_s <= 0 or min(useful_s) < 0 or max(useful_s) > elapsed_s * (1 + 1e-9):
        raise ValueError("useful times must lie between 0 and the run time, for one rank or more")
    mean, most = statistics.fmean(useful_s), max(useful_s)
    return Efficiency(
        ranks=len(useful_s),
        load_balance=mean / most if most > 0 else 1.0,
        communication=most / elapsed_s,
        parallel=mean / elapsed_s,
    )


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """Throughput at one number of ranks against the smallest number."""

    ranks: int
    fps: float
    speedup: float
    efficiency: float  # speedup / (ranks / smallest number of ranks)


def scaling(points: Mapping[int, float]) -> list[ScalingPoint]:
    """Returns speed-up and parallel efficiency of {ranks: frames/s} (weak scaling: the work per rank is constant)."""
    if not points:
        return []
    smallest = min(points)
    return [
        ScalingPoint(
            ranks=ranks,
            fps=fps,
            speedup=fps / points[smallest],
            efficiency=fps / points[smallest] * smallest / ranks,
        )
        for ranks, fps in sorted(points.items())
    ]


# ---- kernels


def longest_launches(profile: Profile) -> list[KernelLaunch]:
    """Returns one launch for each kernel name, the longest: what stands for the kernel in tables and plots."""
    chosen: dict[str, KernelLaunch] = {}
    for launch in profile.launches:
        present = chosen.get(launch.name)
        if present is None or (launch.duration_ns or 0.0) > (present.duration_ns or 0.0):
            chosen[launch.name] = launch
    return list(chosen.values())


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """Resident warps of one kernel against what the multiprocessor can hold, in percent."""

    kernel: str
    theoretical_pct: float
    achieved_pct: float | None
    limited_by: tuple[str, ...]  # of registers, shared memory, warps, blocks, barriers; () where nothing limits
    waves: float | None  # launches of whole grids that fill the device; below 1 it is not filled


_LIMITS = {
    "limit_registers_blocks": "registers",
    "limit_shared_memory_blocks": "shared memory",
    "limit_warps_blocks": "warps",
    "limit_blocks_blocks": "blocks",
    "limit_barriers_blocks": "barriers",
}


def occupancy(launch: KernelLaunch) -> Occupancy | None:
    """Returns the occupancy of a launch that ncu measured; None where the section Occupancy is missing."""
    theoretical = launch.values.get("theoretical_occupancy_pct")
    if theoretical is None:
        return None
    limits = {name: launch.values[key] for key, name in _LIMITS.items() if key in launch.values}
    least = min(limits.values(), default=0.0)
    # At 100 % the warps of the multiprocessor are all in use: nothing is to be gained.
    limited_by = tuple(name for name, blocks in limits.items() if blocks == least) if theoretical < 99.5 else ()
    return Occupancy(
        kernel=launch.name,
        theoretical_pct=theoretical,
        achieved_pct=launch.values.get("achieved_occupancy_pct"),
        limited_by=limited_by,
        waves=launch.values.get("waves_per_sm"),
    )


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """What a device reaches: measured (`ceilings.measure`) or, failing that, its peak."""

    flops: float  # single precision operations per second
    bytes_per_s: float  # device memory
    measured: bool

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic is the limit."""
        return self.flops / self.bytes_per_s


@dataclass(frozen=True, kw_only=True)
class RooflinePoint:
    """One kernel in the roofline plot (Williams, Waterman, Patterson 2009)."""

    kernel: str
    intensity: float  # operations per byte of device memory
    flops: float  # achieved operations per second
    bytes_per_s: float
    bound: str  # "memory" or "compute": which ceiling lies above the point
    share: float  # achieved / that ceiling, 0 to 1


def peak_ceilings(launch: KernelLaunch) -> Ceilings | None:
    """Returns the peaks that ncu's raw page states at the clocks of the measurement; None where they are missing."""
    values = launch.values
    needed = ("ffma_peak_per_cycle", "sm_clock_hz", "dram_peak_bytes_per_cycle", "dram_clock_hz")
    if not all(values.get(key) for key in needed):
        return None
    return Ceilings(
        flops=2.0 * values["ffma_peak_per_cycle"] * values["sm_clock_hz"],
        bytes_per_s=values["dram_peak_bytes_per_cycle"] * values["dram_clock_hz"],
        measured=False,
    )


def roofline_point(launch: KernelLaunch, ceilings: Ceilings) -> RooflinePoint | None:
    """Returns a kernel's place under the roof.

    Operations are single precision: additions and multiplications count 1, fused ones 2.

    Returns:
        None where the counters are missing or the kernel does no such operation or moves no byte.
    """
    values = launch.values
    per_cycle = [values.get(f"{name}_per_cycle") for name in ("fadd", "fmul", "ffma")]
    clock_hz, bytes_per_s = values.get("sm_clock_hz"), values.get("dram_bytes_per_s")
    if any(value is None for value in per_cycle) or not clock_hz or not bytes_per_s:
        return None
    additions, multiplications, fused = (value or 0.0 for value in per_cycle)
    flops = (additions + multiplications + 2.0 * fused) * clock_hz
    if flops == 0:
        return None
    intensity = flops / bytes_per_s
    bound = "memory" if intensity < ceilings.ridge else "compute"
    ceiling = min(ceilings.flops, intensity * ceilings.bytes_per_s)
    return RooflinePoint(
        kernel=launch.name,
        intensity=intensity,
        flops=flops,
        bytes_per_s=bytes_per_s,
        bound=bound,
        share=flops / ceiling,
    )


# ---- samples


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy that the GPUs of a node used between two times."""

    joules: float | None
    source: str  # "energy counter", "power" (integrated) or why there is none


def energy(rows: Sequence[Mapping[str, Any]], devices: Sequence[Mapping[str, Any]]) -> Energy:
    """Adds up the energy of physical GPUs from samples in order of time.

    The counter is exact; without it power is integrated by the trapezoid rule.

    Args:
        rows: Samples with time_s, uuid, energy_j and power_w.
        devices: `sampler.json`'s devices; MIG instances are parts of a GPU and are left out.
    """
    physical = [device["uuid"] for device in devices if device.get("parent_uuid") is None]
    if not physical:
        return Energy(joules=None, source="the run used no GPU")
    total, sources = 0.0, set()
    for uuid in physical:
        own = [row for row in rows if row["uuid"] == uuid]
        counter = [row["energy_j"] for row in own if row["energy_j"] is not None]
        power = [(row["time_s"], row["power_w"]) for row in own if row["power_w"] is not None]
        if len(counter) > 1:
            total += counter[-1] - counter[0]
            sources.add("energy counter")
        elif len(power) > 1:
            total += sum(
                (later - earlier) * (before + after) / 2
                for (earlier, before), (later, after) in itertools.pairwise(power)
            )
            sources.add("power")
        else:
            return Energy(joules=None, source=f"{uuid} reports neither energy nor power")
    return Energy(joules=total, source=" and ".join(sorted(sources)))


def frames_between(metrics: Sequence[Mapping[str, Any]], begin_s: float, end_s: float) -> float | None:
    """Returns the frames that a run made between two Unix times, interpolated between log lines.

    Args:
        metrics: Log lines with unix_time_s and frames, both increasing.
        begin_s: Unix time.
        end_s: Unix time.

    Returns:
        None where fewer than two lines are there or the times lie outside of them.
    """
    points = [(float(line["unix_time_s"]), float(line["frames"])) for line in metrics]
    if len(points) < 2:
        return None
    first, last = max(begin_s, points[0][0]), min(end_s, points[-1][0])
    return _interpolate(points, last) - _interpolate(points, first) if last > first else None


def _interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= at <= right:
            return low + (high - low) * ((at - left) / (right - left) if right > left else 1.0)
    return points[-1][1] if at > points[-1][0] else points[0][1]


# Field of a sample -> (metric, unit, factor) of the report's table of utilisation.
_UTILISATION = {
    "gpu_utilization_pct": ("gpu_utilisation", "%", 1.0),
    "memory_used_bytes": ("memory", "GiB", 1 / (1 << 30)),
    "power_w": ("power", "W", 1.0),
    "sm_clock_mhz": ("sm_clock", "MHz", 1.0),
    "temperature_c": ("temperature", "°C", 1.0),
    "pcie_tx_bytes_per_s": ("pcie_sent", "GB/s", 1e-9),
    "pcie_rx_bytes_per_s": ("pcie_received", "GB/s", 1e-9),
    "nvlink_tx_bytes_per_s": ("nvlink_sent", "GB/s", 1e-9),
    "nvlink_rx_bytes_per_s": ("nvlink_received", "GB/s", 1e-9),
    "gpm_sm_occupancy_pct": ("sm_occupancy", "%", 1.0),
    "gpm_tensor_pct": ("tensor_cores", "%", 1.0),
    "gpm_dram_pct": ("memory_bandwidth", "%", 1.0),
    "cpu_pct": ("cpu_utilisation", "%", 1.0),
    "process_cpu_pct": ("process_cpu", "%", 1.0),
    "process_rss_bytes": ("process_memory", "GiB", 1 / (1 << 30)),
    "disk_read_bytes_per_s": ("disk_read", "MB/s", 1e-6),
    "disk_write_bytes_per_s": ("disk_written", "MB/s", 1e-6),
    "network_sent_bytes_per_s": ("network_sent", "MB/s", 1e-6),
    "network_received_bytes_per_s": ("network_received", "MB/s", 1e-6),
}
# Fields that the report shows over time as well, and how many points of each.
_OVER_TIME = ("gpu_utilization_pct", "cpu_pct", "power_w", "sm_clock_mhz")
_TIMELINE_POINTS, _SAMPLES_PER_POINT = 240, 3


def utilisation(device: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Summarises the samples of one device, or of a host.

    Args:
        device: Its name in the table.
        rows: Its samples in order of time.

    Returns:
        A row {device, metric, unit, median, p90, max} for each field that was measured; null values do not count.
    """
    table = []
    for name, (metric, unit, factor) in _UTILISATION.items():
        values = sorted(row[name] * factor for row in rows if row.get(name) is not None)
        if values:
            table.append(
                {
                    "device": device,
                    "metric": metric,
                    "unit": unit,
                    "median": statistics.median(values),
                    "p90": values[math.ceil(0.9 * len(values)) - 1],  # nearest rank
                    "max": values[-1],
                }
            )
    return table


def timeline(device: str, parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Follows a few fields of one device, or of a host, through a run.

    Args:
        device: Its name.
        parts: Its samples in order of time, one part for each time that the run was started; the time between parts
            does not count.

    Returns:
        A row {device, metric, unit, time_s, values} for each field that was measured: means over equal stretches of
        time, None where a stretch has no sample.
    """
    rows: list[Mapping[str, Any]] = []
    times: list[float] = []
    begin_s = 0.0
    for part in parts:
        rows += part
        times += [begin_s + row["time_s"] - part[0]["time_s"] for row in part]
        begin_s = times[-1] if times else 0.0
    if not rows:
        return []
    count = max(1, min(_TIMELINE_POINTS, len(rows) // _SAMPLES_PER_POINT))
    width = times[-1] / count or 1.0
    stretches = [min(count - 1, int(time_s / width)) for time_s in times]
    found = []
    for name in _OVER_TIME:
        metric, unit, factor = _UTILISATION[name]
        values: list[list[float]] = [[] for _ in range(count)]
        for stretch, row in zip(stretches, rows, strict=True):
            if row.get(name) is not None:
                values[stretch].append(row[name] * factor)
        if any(values):
            means = [statistics.fmean(each) if each else None for each in values]
            centres = [(index + 0.5) * width for index in range(count)]
            found.append({"device": device, "metric": metric, "unit": unit, "time_s": centres, "values": means})
    return found


def throttled_shares(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns, for each reason to lower the clocks but idleness and settings, the share of samples that name it."""
    known = [row["throttle_reasons"].split("+") for row in rows if row.get("throttle_reasons") is not None]
    wanted = ("power_cap", "thermal", "hardware_thermal", "hardware_slowdown", "power_brake")
    shares = {name: sum(name in reasons for reasons in known) / len(known) for name in wanted} if known else {}
    return {name: share for name, share in shares.items() if share > 0}
