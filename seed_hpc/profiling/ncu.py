# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute: reads the CSV that `ncu --csv` prints (raw, details, --metrics and --print-summary pages).

Differences between versions and pages that the reader absorbs: the raw page has one row a launch and a row of units
under the header; the details page has one row a metric, and rule rows without a metric; units are spelled usecond or
us, cycle/nsecond or Ghz, Gbyte/second or GB/s; numbers have thousands separators and, in some locales, decimal commas;
unknown values are n/a; a log printed to a terminal has "==PROF==" lines first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from seed_hpc.errors import UserError
from seed_hpc.profiling import csv_text
from seed_hpc.profiling.quantities import NumberStyle, base_unit, scale
from seed_hpc.profiling.tables import KernelLaunch, Profile, Summary, finish_table

COUNTERS_FORBIDDEN = (
    "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): ask the administrator to load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0"
)

# Metric name on the raw page, or (section, metric) on the details page -> the name that the analysis uses.
# Units: _ns, _pct, _bytes, _bytes_per_s, _hz; limits are in blocks per SM.
_RAW_METRICS = {
    "gpu__time_duration.sum": "duration_ns",
    "gpu__time_duration.avg": "duration_ns",
    "gpu__time_duration_measured_user.sum": "duration_ns",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved_occupancy_pct",
    "sm__maximum_warps_per_active_cycle_pct": "theoretical_occupancy_pct",
    "launch__occupancy_limit_registers": "limit_registers_blocks",
    "launch__occupancy_limit_shared_mem": "limit_shared_memory_blocks",
    "launch__occupancy_limit_warps": "limit_warps_blocks",
    "launch__occupancy_limit_blocks": "limit_blocks_blocks",
    "launch__occupancy_limit_barriers": "limit_barriers_blocks",
    "launch__registers_per_thread": "registers_per_thread",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__waves_per_multiprocessor": "waves_per_sm",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute_throughput_pct",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory_throughput_pct",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram_throughput_pct",
    "dram__bytes.sum.per_second": "dram_bytes_per_s",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "l1tex__t_sector_hit_rate.pct": "l1_hit_rate_pct",
    "lts__t_sector_hit_rate.pct": "l2_hit_rate_pct",
    "smsp__cycles_elapsed.avg.per_second": "sm_clock_hz",
    "gpc__cycles_elapsed.max": "elapsed_cycles",
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": "fadd_per_cycle",
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": "fmul_per_cycle",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": "ffma_per_cycle",
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": "ffma_peak_per_cycle",
    "dram__bytes.sum.peak_sustained": "dram_peak_bytes_per_cycle",
    "dram__cycles_elapsed.avg.per_second": "dram_clock_hz",
}
_DETAILS_METRICS = {
    "Duration": "duration_ns",
    "Achieved Occupancy": "achieved_occupancy_pct",
    "Theoretical Occupancy": "theoretical_occupancy_pct",
    "Block Limit Registers": "limit_registers_blocks",
    "Block Limit Shared Mem": "limit_shared_memory_blocks",
    "Block Limit Warps": "limit_warps_blocks",
    "Block Limit SM": "limit_blocks_blocks",
    "Block Limit Barriers": "limit_barriers_blocks",
    "Registers Per Thread": "registers_per_thread",
    "Static Shared Memory Per Block": "static_shared_bytes",
    "Dynamic Shared Memory Per Block": "dynamic_shared_bytes",
    "Waves Per SM": "waves_per_sm",
    "Compute (SM) Throughput": "compute_throughput_pct",
    "Compute (SM) [%]": "compute_throughput_pct",
    "SOL SM": "compute_throughput_pct",
    "SOL Memory": "memory_throughput_pct",
    "DRAM Throughput": "dram_throughput_pct",
    "SOL DRAM": "dram_throughput_pct",
    "L1/TEX Hit Rate": "l1_hit_rate_pct",
    "L2 Hit Rate": "l2_hit_rate_pct",
    "SM Frequency": "sm_clock_hz",
    "DRAM Frequency": "dram_clock_hz",
    "Elapsed Cycles": "elapsed_cycles",
}

_MISSING_TEXTS = frozenset({"", "n/a", "(!) n/a", "nan"})
_IDENTITY = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Invocations",
    "Section Name",
)


def looks_like_ncu(text: str) -> bool:
    """Tells whether the text has the header of an ncu table or the messages of an ncu log."""
    return bool(re.search(r"^==(PROF|ERROR|WARNING|LOG)==", text, re.M)) or _header_index(text.splitlines()) is not None


def read_csv(path: Path) -> Profile:
    """Reads one page of `ncu --csv`.

    Returns:
        `launches` has every measured launch, `kernels` the sum of each name; `total_ns` is None where no duration was
        measured.

    Raises:
        UserError: The file is no such page, or it is cut off.
    """
    text = csv_text.read_text(path)
    profile = Profile(tool="ncu", version=None, source=path.name)
    profile.notes.append("an ncu CSV page does not name the version of ncu")
    profile.notes.extend(_log_notes(text))
    lines = text.splitlines(keepends=True)
    start = _header_index(lines)
    if start is None:
        if len(profile.notes) > 1:
            profile.notes.append("there is no kernel table: nothing was measured")
            return profile
        raise UserError(f"{path} holds no ncu table: the run was interrupted or the file is cut off; make it again")
    separator = csv_text.delimiter(lines[start])
    body = [line for line in lines[start:] if line.strip() and not line.startswith("==")]
    header, *rows = csv_text.rows(path, body, separator)
    if not text.endswith("\n"):
        profile.notes.append("the last line has no line end: the file may be cut")
    default = "," if separator == ";" else "."
    if "Metric Name" in header:
        profile.launches = _read_details(path, header, rows, default)
    else:
        profile.launches = _read_raw(path, header, rows, default)
    if not profile.launches:
        profile.notes.append("the kernel table is empty: no launch matched the filter")
    elif any(launch.duration_ns is None for launch in profile.launches):
        profile.notes.append("some launches have no duration: add gpu__time_duration.sum or --section SpeedOfLight")
    profile.kernels = _summarise(profile.launches)
    return profile


def _header_index(lines: list[str]) -> int | None:
    for index, line in enumerate(lines):
        if "Kernel Name" in line:
            fields = csv_text.split_line(line, csv_text.delimiter(line))
            if "Kernel Name" in fields and ("ID" in fields or "Invocations" in fields):
                return index
    return None


def _log_notes(text: str) -> list[str]:
    messages = re.findall(r"^==(?:ERROR|WARNING)==\s*(.+?)\s*$", text, re.M)
    notes = [f"ncu: {message}" for message in dict.fromkeys(messages)]
    return [COUNTERS_FORBIDDEN, *notes] if "ERR_NVGPUCTRPERM" in text else notes


def _read_raw(path: Path, header: list[str], rows: list[list[str]], default: str) -> list[KernelLaunch]:
    """One row a launch; the first row holds the units (identity columns are empty in it)."""
    csv_text.check_widths(path, rows, len(header), len(header))
    kernel_column = header.index("Kernel Name")
    units = [""] * len(header)
    if rows and not rows[0][kernel_column].strip():
        units, *rows = rows
    metric_columns = [i for i, name in enumerate(header) if name not in _IDENTITY]
    style = NumberStyle.detect((row[i] for row in rows for i in metric_columns), default=default)
    launches = []
    for row in rows:
        launch = _new_launch(dict(zip(header, row, strict=True)), style)
        for i in metric_columns:
            _add_metric(launch, header[i], _RAW_METRICS.get(header[i]), row[i], units[i], style)
        launches.append(_finish(launch))
    return launches


def _read_details(path: Path, header: list[str], rows: list[list[str]], default: str) -> list[KernelLaunch]:
    """One row a metric; rule rows have no metric name. Rows may lack the empty rule columns at their end."""
    value_name = "Metric Value" if "Metric Value" in header else "Average"
    if value_name not in header:
        raise UserError(f"{path} has neither a 'Metric Value' nor an 'Average' column: it is no page of `ncu --csv`")
    value_column = header.index(value_name)
    csv_text.check_widths(path, rows, value_column + 1, len(header))
    style = NumberStyle.detect((row[value_column] for row in rows), default=default)
    launches: dict[tuple[str, ...], KernelLaunch] = {}
    for row in rows:
        fields = dict(zip(header, row, strict=False))
        # --print-summary has no ID: a name in one shape is one row group.
        key = (
            (fields.get("Process ID", ""), fields["ID"])
            if "ID" in fields
            else (fields["Kernel Name"], fields.get("Block Size", ""), fields.get("Grid Size", ""))
        )
        launch = launches.get(key) or launches.setdefault(key, _new_launch(fields, style))
        if advice := fields.get("Rule Description"):
            launch.advice.append(advice)
        if name := fields["Metric Name"]:
            section, unit = fields.get("Section Name", ""), fields.get("Metric Unit", "")
            canonical = _RAW_METRICS.get(name) or _details_name(section, name, unit)
            label = f"{section}: {name}" if section else name
            _add_metric(launch, label, canonical, row[value_column], unit, style)
    return [_finish(launch) for launch in launches.values()]


def _details_name(section: str, name: str, unit: str) -> str | None:
    """Two sections print a "Memory Throughput", one in percent and one in bytes per second."""
    if name == "Memory Throughput":
        return "memory_throughput_pct" if unit == "%" else "dram_bytes_per_s"
    return _DETAILS_METRICS.get(name)


def _new_launch(fields: dict[str, str], style: NumberStyle) -> KernelLaunch:
    return KernelLaunch(
        launch_id=fields.get("ID", ""),
        name=fields["Kernel Name"],
        block=_extents(fields.get("Block Size", "")),
        grid=_extents(fields.get("Grid Size", "")),
        device=fields.get("Device"),
        compute_capability=fields.get("CC"),
        count=round(style.parse(fields.get("Invocations", "1")) or 1),
        duration_ns=None,
    )


def _extents(text: str) -> tuple[int, ...] | None:
    numbers = re.findall(r"\d+", text)
    return tuple(int(number) for number in numbers) if numbers else None


def _add_metric(
    launch: KernelLaunch, label: str, canonical: str | None, text: str, unit: str, style: NumberStyle
) -> None:
    value = style.parse(text)
    if value is None:
        launch.metrics[label] = None if text.strip().lower() in _MISSING_TEXTS else text
        return
    exponent, _ = base_unit(unit)
    launch.metrics[label] = scale(value, exponent)
    if canonical == "duration_ns":
        launch.values[canonical] = scale(value, 9 + exponent)
    elif canonical is not None:
        launch.values[canonical] = scale(value, exponent)


def _finish(launch: KernelLaunch) -> KernelLaunch:
    launch.duration_ns = launch.values.get("duration_ns")
    return launch


def _summarise(launches: Iterable[KernelLaunch]) -> list[Summary]:
    groups: dict[str, list[KernelLaunch]] = {}
    for launch in launches:
        groups.setdefault(launch.name, []).append(launch)
    rows = []
    for name, group in groups.items():
        count = sum(launch.count for launch in group)
        durations = [launch.duration_ns for launch in group if launch.duration_ns is not None]
        if len(durations) < len(group):
            rows.append(Summary(name=name, count=count, total_ns=None))
        elif count == len(group):
            rows.append(Summary.from_durations(name, [round(duration) for duration in durations]))
        else:
            total_ns = round(sum(launch.count * (launch.duration_ns or 0.0) for launch in group))
            rows.append(Summary(name=name, count=count, total_ns=total_ns, avg_ns=total_ns / count))
    return finish_table(rows)
