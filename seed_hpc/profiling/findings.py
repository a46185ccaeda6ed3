# SPDX-License-Identifier: Apache-2.0
"""Rules that say in plain words what a profile and the samples show, and what to do about it.

A rule is a function from `Evidence` to findings. It says nothing where its figures were not measured. A finding has
the fields of the report's findings (seed_hpc.report), which shows them beside those on learning and throughput.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from seed_hpc.profiling.analysis import Efficiency, Occupancy, Overlap, RooflinePoint
from seed_hpc.profiling.tables import Profile, Summary

Severity = Literal["good", "info", "warning", "serious"]
_ORDER: tuple[Severity, ...] = ("serious", "warning", "info", "good")

# Thresholds, one place for all rules. Shares run from 0 to 1.
EXPOSED_SHARE = 0.10  # of the device's time in which it waits for communication
HIDDEN_SHARE = 0.80  # of communication behind computation: nothing to gain
IDLE_SHARE = 0.30  # of the device's time without a kernel
SHORT_KERNEL_NS = 5_000.0  # about what a launch costs: many of these are bound by the CPU
THROTTLED_SHARE = 0.05  # of the samples
OCCUPANCY_PCT = 50.0
ACHIEVED_RATIO = 0.6  # achieved against theoretical occupancy
ROOF_SHARE = 0.7  # of the ceiling: the kernel is at its roof
LOAD_BALANCE = 0.85
COMMUNICATION = 0.80
MEMORY_SHARE = 0.92  # of device memory
HOST_MEMORY_SHARE = 0.92
CPU_PCT = 95.0
COPY_SHARE = 0.10  # of kernel time that copies between host and device take
PROMINENT_SHARE_PCT = 5.0  # of kernel time below which a kernel is not worth a finding


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence, with what to do about it."""

    rule: str
    severity: Severity
    subject: str
    text: str
    advice: str | None = None


@dataclass(kw_only=True)
class Evidence:
    """What was measured of one run; anything may be missing."""

    subject: str  # the run's name
    profiles: list[Profile] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    efficiency: Efficiency | None = None
    occupancies: list[Occupancy] = field(default_factory=list)
    roofline: list[RooflinePoint] = field(default_factory=list)
    throttled: dict[str, float] = field(default_factory=dict)  # "device: reason" -> share of samples
    utilisation: list[dict[str, Any]] = field(default_factory=list)
    device_memory: dict[str, tuple[float, float]] = field(default_factory=dict)  # device -> (used, total) GiB
    host_memory: dict[str, tuple[float, float]] = field(default_factory=dict)
    events: list[Mapping[str, Any]] = field(default_factory=list)  # Xid
    lost: list[str] = field(default_factory=list)  # devices
    ecc_uncorrected: dict[str, int] = field(default_factory=dict)  # device -> errors during the run


def find(evidence: Evidence) -> list[Finding]:
    """Applies every rule; the worst findings come first."""
    found = [finding for rule in RULES for finding in rule(evidence)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def gpu_failures(evidence: Evidence) -> list[Finding]:
    """Critical errors, lost devices, memory errors."""
    found = []
    for event in evidence.events:
        text = f"GPU {event['uuid']} reported Xid {event['xid']}, a critical error."
        found.append(_finding("gpu_xid", "serious", evidence, text, "look the number up in NVIDIA's Xid table"))
    for uuid in evidence.lost:
        text = f"GPU {uuid} was lost during the run."
        found.append(_finding("gpu_lost", "serious", evidence, text, "take the node out of service and run again"))
    for device, count in evidence.ecc_uncorrected.items():
        if count > 0:
            text = f"{device} had {_count(count, 'memory error')} that ECC could not correct."
            found.append(_finding("gpu_ecc", "serious", evidence, text, "do not trust the run; reset the GPU"))
    return found


def throttling(evidence: Evidence) -> list[Finding]:
    """Clocks lowered by power or heat."""
    words = {
        "power_cap": ("its power limit", "raise the power limit, or compare runs at a fixed clock only"),
        "power_brake": ("the power supply", "have the node's power supply checked"),
        "thermal": ("heat", "have the node's cooling checked"),
        "hardware_thermal": ("heat", "have the node's cooling checked"),
        "hardware_slowdown": ("a hardware slowdown", "have the node's power and cooling checked"),
    }
    found = []
    for key, share in evidence.throttled.items():
        device, _, reason = key.rpartition(": ")
        if share >= THROTTLED_SHARE and reason in words:
            cause, advice = words[reason]
            text = f"{device} lowered its clocks because of {cause} in {_percent(share)} of the samples."
            severity: Severity = "info" if reason == "power_cap" else "warning"
            found.append(_finding("throttling", severity, evidence, text, advice))
    return found


def exposed_communication(evidence: Evidence) -> list[Finding]:
    """The device waits for collectives, or hides them."""
    found = []
    for row in evidence.overlaps:
        if row.communication_ns == 0 or row.hidden_share is None:
            continue
        exposed = row.exposed_ns / row.span_ns
        if exposed >= EXPOSED_SHARE:
            text = (
                f"Device {row.device} waits {_percent(exposed)} of its time for communication; "
                f"{_percent(row.hidden_share)} of the communication is hidden behind computation."
            )
            advice = (
                "raise the batch a rank or exchange in larger buckets; `seed-hpc topology --measure` ranks the ways"
            )
            found.append(_finding("exposed_communication", "warning", evidence, text, advice))
        elif row.hidden_share >= HIDDEN_SHARE:
            text = f"Device {row.device} hides {_percent(row.hidden_share)} of its communication behind computation."
            found.append(_finding("exposed_communication", "good", evidence, text))
    return found


def idle_device(evidence: Evidence) -> list[Finding]:
    """Time without any kernel."""
    found = []
    for row in evidence.overlaps:
        share = row.idle_ns / row.span_ns if row.span_ns else 0.0
        if share >= IDLE_SHARE:
            text = f"Device {row.device} runs no kernel in {_percent(share)} of the recorded time."
            advice = "raise env.num_envs, or capture the loop in a CUDA graph so that launches cost less"
            found.append(_finding("idle_device", "warning", evidence, text, advice))
    return found


def short_kernels(evidence: Evidence) -> list[Finding]:
    """So many tiny kernels that launching them is the work."""
    found = []
    for profile in evidence.profiles:
        timed = [kernel for kernel in profile.kernels if kernel.total_ns]
        count = sum(kernel.count for kernel in timed)
        if profile.tool == "ncu" or count < 100:
            continue
        mean_ns = sum(kernel.total_ns or 0 for kernel in timed) / count
        if mean_ns < SHORT_KERNEL_NS:
            text = f"The mean kernel takes {mean_ns / 1000:.1f} us, about as long as its launch ({profile.source})."
            found.append(
                _finding(
                    "short_kernels", "warning", evidence, text, "use CUDA graphs or torch.compile, or larger batches"
                )
            )
    return found


def copies(evidence: Evidence) -> list[Finding]:
    """Copies between host and device inside the loop."""
    found = []
    for profile in evidence.profiles:
        kernel_ns = sum(kernel.total_ns or 0 for kernel in profile.kernels)
        moved = [row for row in profile.memory if _crosses_pcie(row)]
        copy_ns = sum(row.total_ns or 0 for row in moved)
        if kernel_ns and copy_ns >= COPY_SHARE * kernel_ns:
            text = (
                f"Copies between host and device take {_percent(copy_ns / kernel_ns)} of the kernels' time "
                f"({_count(sum(row.count for row in moved), 'copy')}, {profile.source})."
            )
            advice = "keep the data on the device; use pinned memory and a stream of their own for what must move"
            found.append(_finding("copies", "warning", evidence, text, advice))
    return found


def _crosses_pcie(row: Summary) -> bool:
    name = row.name.lower().replace("-to-", "to")
    return any(word in name for word in ("htod", "dtoh", "hosttodevice", "devicetohost"))


def low_occupancy(evidence: Evidence) -> list[Finding]:
    """Kernels whose resources leave the multiprocessor half empty, or that do not reach what they could."""
    found = []
    for row in evidence.occupancies:
        name = _short(row.kernel)
        if row.waves is not None and row.waves < 1.0:
            text = f"{name} has too few blocks to fill the device ({row.waves:.2f} waves)."
            found.append(_finding("small_grid", "info", evidence, text, "raise env.num_envs or the batch"))
        elif row.theoretical_pct < OCCUPANCY_PCT:
            limits = " and ".join(row.limited_by)
            text = f"{name} can occupy {row.theoretical_pct:.0f} % of the device, limited by {limits}."
            advice = {
                "registers": "fewer registers: __launch_bounds__, or a smaller state in registers",
                "shared memory": "use less shared memory a block, or larger blocks that share it",
                "blocks": "use larger blocks",
            }.get(row.limited_by[0] if row.limited_by else "", "try other block sizes")
            found.append(_finding("low_occupancy", "info", evidence, text, advice))
        elif row.achieved_pct is not None and row.achieved_pct < ACHIEVED_RATIO * row.theoretical_pct:
            text = f"{name} reaches {row.achieved_pct:.0f} % occupancy of {row.theoretical_pct:.0f} % possible."
            found.append(
                _finding("uneven_blocks", "info", evidence, text, "blocks end at different times: balance their work")
            )
    return found


def roof(evidence: Evidence) -> list[Finding]:
    """Kernels at a ceiling, or far below both."""
    found = []
    for point in evidence.roofline:
        name = _short(point.kernel)
        what = "memory bandwidth" if point.bound == "memory" else "arithmetic"
        if point.share >= ROOF_SHARE:
            text = f"{name} runs at {_percent(point.share)} of the device's {what}: it is at its roof."
            found.append(_finding("roofline", "good", evidence, text))
        elif point.share < 0.3:
            text = f"{name} reaches {_percent(point.share)} of the device's {what}: latency, not a ceiling, limits it."
            advice = "more work in flight: higher occupancy, more independent loads a thread"
            found.append(_finding("roofline", "info", evidence, text, advice))
    return found


def parallel_efficiency(evidence: Evidence) -> list[Finding]:
    """Load balance and communication efficiency of a parallel run."""
    row = evidence.efficiency
    if row is None or row.ranks < 2:
        return []
    found = []
    if row.load_balance < LOAD_BALANCE:
        text = f"The {row.ranks} ranks are unevenly loaded: load balance {_percent(row.load_balance)}."
        found.append(_finding("load_balance", "warning", evidence, text, "give every rank as many environments"))
    if row.communication < COMMUNICATION:
        text = f"Ranks compute only {_percent(row.communication)} of the time, the rest is communication and waiting."
        found.append(_finding("communication", "warning", evidence, text, "raise the batch a rank, or use fewer ranks"))
    if not found:
        text = f"Parallel efficiency on {row.ranks} ranks is {_percent(row.parallel)}."
        found.append(_finding("parallel_efficiency", "good", evidence, text))
    return found


def memory_pressure(evidence: Evidence) -> list[Finding]:
    """Device or main memory nearly full."""
    found = []
    for memory, limit, advice in (
        (
            evidence.device_memory,
            MEMORY_SHARE,
            "lower env.num_envs or the replay's capacity before the next larger run",
        ),
        (evidence.host_memory, HOST_MEMORY_SHARE, "ask for more memory, or lower the replay's capacity"),
    ):
        for device, (used, total) in memory.items():
            if total > 0 and used >= limit * total:
                text = f"{device} used {used:.1f} of {total:.1f} GiB of memory."
                found.append(_finding("memory_pressure", "warning", evidence, text, advice))
    return found


def cpu_bound(evidence: Evidence) -> list[Finding]:
    """All cores of a node with a GPU are busy."""
    gpus = [row for row in evidence.utilisation if row["metric"] == "gpu_utilisation"]
    found = []
    for row in evidence.utilisation:
        if gpus and row["metric"] == "cpu_utilisation" and row["median"] >= CPU_PCT:
            text = f"The cores of {row['device']} are busy {row['median']:.0f} % of the time while the GPU has room."
            if max(gpu["median"] for gpu in gpus) < 80.0:
                found.append(_finding("cpu_bound", "warning", evidence, text, "run the environments on the device"))
    return found


def counters_forbidden(evidence: Evidence) -> list[Finding]:
    """A profile without counters because of permissions."""
    return [
        _finding("counters_forbidden", "info", evidence, f"{profile.source}: {note}.")
        for profile in evidence.profiles
        for note in profile.notes
        if "ERR_NVGPUCTRPERM" in note and not note.startswith("ncu:")
    ]


RULES: tuple[Callable[[Evidence], list[Finding]], ...] = (
    gpu_failures,
    throttling,
    exposed_communication,
    idle_device,
    short_kernels,
    copies,
    low_occupancy,
    roof,
    parallel_efficiency,
    memory_pressure,
    cpu_bound,
    counters_forbidden,
)


def _finding(rule: str, severity: Severity, evidence: Evidence, text: str, advice: str | None = None) -> Finding:
    return Finding(rule=rule, severity=severity, subject=evidence.subject, text=text, advice=advice)


def prominent(profile: Profile) -> set[str]:
    """Returns the names of kernels that take enough of the time to be worth a finding."""
    return {kernel.name for kernel in profile.kernels if (kernel.share_pct or 0.0) >= PROMINENT_SHARE_PCT}


def _short(name: str, limit: int = 60) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
