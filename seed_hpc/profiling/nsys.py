# SPDX-License-Identifier: Apache-2.0
"""Nsight Systems: reads its SQLite exports and `nsys stats` CSV reports, and builds the command that profiles a run.

Differences between versions that the readers absorb: the metadata table is EXPORT_META_DATA up to 2023.2 and
META_DATA_EXPORT since; tables are created only when there is data, so the kernel table may be absent; the kernel
report was called gpukernsum before 2022.4; columns lost and gained units ("Average", "Avg (ns)"); `nsys stats` prints
"Processing [...]" or "Running [...]" first and exits 0 after "SKIPPED ... does not contain CUDA kernel data".
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seed_hpc.errors import UserError
from seed_hpc.profiling import csv_text
from seed_hpc.profiling.quantities import NumberStyle, nanoseconds
from seed_hpc.profiling.tables import Profile, RangeSummary, Summary, finish_table

SQLITE_MAGIC = b"SQLite format 3\0"
NO_KERNELS = "no CUDA kernel data: the program launched no kernel while it was traced, or -t cuda was not given"

_METADATA_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPH_TABLE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75  # NVTX event types


@dataclass(frozen=True)
class Interval:
    """One kernel or memory copy on the device's time axis."""

    start_ns: int
    end_ns: int
    name: str
    device: int
    stream: int


# ---- SQLite ----------------------------------------------------------------------------------------------------


def read_sqlite(path: Path) -> Profile:
    """Reads an export of `nsys export --type sqlite`.

    Raises:
        UserError: The file is no nsys export, is cut off, or is older than the report beside it.
    """
    with _database(path) as database:
        tables = _table_names(database)
        profile = Profile(tool="nsys", version=_product_version(database, tables), source=path.name)
        if profile.version is None:
            profile.notes.append("the export does not name the version of nsys")
        kernels = _kernel_intervals(database, tables)
        profile.kernels = _summaries(kernels)
        if _KERNEL_TABLE not in tables:
            profile.notes.append(f"there is no kernel table ({_KERNEL_TABLE}): {NO_KERNELS}")
        elif not kernels:
            profile.notes.append(f"the kernel table is empty: {NO_KERNELS}")
        profile.notes.extend(_graph_notes(database, tables))
        profile.api = _named_rows(database, tables, "CUPTI_ACTIVITY_KIND_RUNTIME")
        profile.memory = _memory_operations(database, tables)
        profile.ranges = _ranges(database, tables)
        profile.devices = _devices(database, tables)
        profile.notes.extend(_diagnostics(database, tables))
    return profile


def read_kernel_intervals(path: Path) -> list[Interval]:
    """Returns every kernel of an SQLite export in order of its start: what the overlap analysis works on."""
    with _database(path) as database:
        return _kernel_intervals(database, _table_names(database))


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens an export for reading; checks that it is complete, current, and made by nsys."""
    check_complete_sqlite(path)
    report = path.with_suffix(".nsys-rep")
    if report.is_file() and report.stat().st_mtime > path.stat().st_mtime:
        raise UserError(
            f"{path} is stale: {report.name} beside it is newer; run `nsys export --type sqlite "
            f"--force-overwrite true {report}` again"
        )
    try:
        # immutable: no lock or journal file is written beside an export in a read-only folder.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            tables = _table_names(database)
            if not tables.intersection(_METADATA_TABLES) and "StringIds" not in tables:
                raise UserError(
                    f"{path} is an SQLite database but no nsys export: make one with "
                    "`nsys export --type sqlite REPORT.nsys-rep`"
                )
            yield database
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} is a damaged SQLite file ({error}): export it again") from error


def check_complete_sqlite(path: Path) -> None:
    """Raises `UserError` where the file is shorter than its header says (page size at byte 16, pages at byte 28)."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(SQLITE_MAGIC):
        raise UserError(f"{path} is no complete SQLite file: export it again")
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    expected_bytes = page_bytes * int.from_bytes(header[28:32], "big")
    if (found_bytes := path.stat().st_size) < expected_bytes:
        raise UserError(
            f"{path} is cut off: {found_bytes} of {expected_bytes} bytes are there; export or copy it again"
        )


def _table_names(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}


def _product_version(database: sqlite3.Connection, tables: set[str]) -> str | None:
    for table in _METADATA_TABLES:
        if table in tables:
            query = f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'"
            if row := database.execute(query).fetchone():
                return str(row[0])
    return None


def _name_expression(column: str) -> str:
    """Names are ids of StringIds; very old exports held the text itself."""
    return f"COALESCE((SELECT value FROM StringIds WHERE id = {column}), {column})"


def _kernel_intervals(database: sqlite3.Connection, tables: set[str]) -> list[Interval]:
    if _KERNEL_TABLE not in tables:
        return []
    columns = _columns(database, _KERNEL_TABLE)
    name = next((column for column in ("demangledName", "shortName", "name") if column in columns), "'unnamed'")
    device = "deviceId" if "deviceId" in columns else "0"
    stream = "streamId" if "streamId" in columns else "0"
    query = (
        f"SELECT start, end, {_name_expression(name)}, {device}, {stream} FROM {_KERNEL_TABLE} "
        "WHERE end IS NOT NULL ORDER BY start"
    )
    return [Interval(start, end, str(text), dev, str_id) for start, end, text, dev, str_id in database.execute(query)]


def _summaries(intervals: list[Interval]) -> list[Summary]:
    durations: defaultdict[str, list[int]] = defaultdict(list)
    for interval in intervals:
        durations[interval.name].append(interval.end_ns - interval.start_ns)
    return finish_table(Summary.from_durations(name, values) for name, values in durations.items())


def _named_rows(database: sqlite3.Connection, tables: set[str], table: str) -> list[Summary]:
    if table not in tables:
        return []
    durations: defaultdict[str, list[int]] = defaultdict(list)
    query = f"SELECT {_name_expression('nameId')}, end - start FROM {table} WHERE end IS NOT NULL"
    for name, duration in database.execute(query):
        durations[re.sub(r"_v\d+$", "", str(name))].append(duration)  # cudaLaunchKernel_v7000 as nsys prints it
    return finish_table(Summary.from_durations(name, values) for name, values in durations.items())


def _memory_operations(database: sqlite3.Connection, tables: set[str]) -> list[Summary]:
    labels = {}
    if "ENUM_CUDA_MEMCPY_OPER" in tables:
        labels = dict(database.execute("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"))
    durations: defaultdict[str, list[int]] = defaultdict(list)
    if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
        for kind, duration in database.execute("SELECT copyKind, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY"):
            durations[f"[CUDA memcpy {labels.get(kind, kind)}]"].append(duration)
    if "CUPTI_ACTIVITY_KIND_MEMSET" in tables:
        for (duration,) in database.execute("SELECT end - start FROM CUPTI_ACTIVITY_KIND_MEMSET"):
            durations["[CUDA memset]"].append(duration)
    return finish_table(Summary.from_durations(name, values) for name, values in durations.items())


def _graph_notes(database: sqlite3.Connection, tables: set[str]) -> list[str]:
    if _GRAPH_TABLE not in tables:
        return []
    count, total_ns = database.execute(f"SELECT COUNT(*), COALESCE(SUM(end - start), 0) FROM {_GRAPH_TABLE}").fetchone()
    if not count:
        return []
    return [
        f"{count} CUDA graph launches ({total_ns} ns) were traced as a whole, their kernels are not in the table: "
        "profile with --cuda-graph-trace=node"
    ]


def _ranges(database: sqlite3.Connection, tables: set[str]) -> list[RangeSummary]:
    """Summarises NVTX ranges by "domain:name" and adds up the kernels that were launched inside each."""
    if "NVTX_EVENTS" not in tables:
        return []
    columns = _columns(database, "NVTX_EVENTS")
    text = "text"
    if "textId" in columns:
        text = "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))"
    domain = "domainId" if "domainId" in columns else "0"
    domains = dict(
        database.execute(f"SELECT {domain}, {text} FROM NVTX_EVENTS WHERE eventType = ? AND {domain} != 0", (_DOMAIN,))
    )
    query = (
        f"SELECT start, end, {text}, {domain}, globalTid FROM NVTX_EVENTS "
        "WHERE eventType IN (?, ?) AND end IS NOT NULL ORDER BY start"
    )
    ranges = [
        (start, end, f"{domains[dom]}:{name}" if domains.get(dom) else str(name), thread)
        for start, end, name, dom, thread in database.execute(query, (_PUSH_POP, _START_END))
    ]
    gpu_ns = _launched_inside(database, tables, [(start, end, thread) for start, end, _, thread in ranges])
    durations: defaultdict[str, list[int]] = defaultdict(list)
    device: defaultdict[str, int] = defaultdict(int)
    for index, (start, end, name, _) in enumerate(ranges):
        durations[name].append(end - start)
        device[name] += gpu_ns[index] if gpu_ns else 0
    rows = []
    for name, values in durations.items():
        summary = Summary.from_durations(name, values)
        rows.append(RangeSummary(**vars(summary), gpu_ns=device[name] if gpu_ns else None))
    return finish_table(rows)


def _launched_inside(
    database: sqlite3.Connection, tables: set[str], ranges: list[tuple[int, int, int]]
) -> list[int] | None:
    """Returns, for each (start, end, thread), the duration of all kernels whose launch call began inside it."""
    if not {_KERNEL_TABLE, "CUPTI_ACTIVITY_KIND_RUNTIME"} <= tables:
        return None
    query = (
        "SELECT call.globalTid, call.start, kernel.end - kernel.start FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call "
        f"JOIN {_KERNEL_TABLE} AS kernel ON kernel.correlationId = call.correlationId ORDER BY call.start"
    )
    starts: defaultdict[int, list[int]] = defaultdict(list)
    sums: defaultdict[int, list[int]] = defaultdict(lambda: [0])  # sums[i]: device time of the first i launches
    for thread, start, duration in database.execute(query):
        starts[thread].append(start)
        sums[thread].append(sums[thread][-1] + duration)
    result = []
    for start, end, thread in ranges:
        calls, total = starts[thread], sums[thread]
        result.append(total[bisect_right(calls, end)] - total[bisect_right(calls, start - 1)])
    return result


def _devices(database: sqlite3.Connection, tables: set[str]) -> list[str]:
    if "TARGET_INFO_GPU" not in tables:
        return []
    return [str(name) for (name,) in database.execute("SELECT name FROM TARGET_INFO_GPU ORDER BY id")]


def _diagnostics(database: sqlite3.Connection, tables: set[str]) -> list[str]:
    """Returns what nsys itself reports as lost or missing, each sentence once."""
    if "DIAGNOSTIC_EVENT" not in tables:
        return []
    texts = [str(text) for (text,) in database.execute("SELECT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3)")]
    wanted = [text for text in texts if re.search(r"not all|no .* events|dropped|lost|permission|fail", text, re.I)]
    return [f"nsys: {text}" for text in dict.fromkeys(wanted) if "symbols" not in text]


# ---- `nsys stats` CSV -------------------------------------------------------------------------------------------

_PREAMBLE = re.compile(r"^(Processing|Running|NOTICE|Generating|Exporting|WARNING|Using|\*\*|\[\d+/\d+\])[ :\[]?")
_REPORT = re.compile(r"([A-Za-z0-9_]+)\.py\b")
_VERSION = re.compile(r"nsight-systems[-/](\d{4}\.\d+(?:\.\d+)*)")
_SKIPPED = re.compile(r"^SKIPPED:\s*(.*)$")
# Column title (lower case, without unit) -> field of Summary. "Average" was "Avg" from 2021.4.
_COLUMNS = {
    "total time": "total_ns",
    "duration": "total_ns",
    "instances": "count",
    "num calls": "count",
    "calls": "count",
    "count": "count",
    "operations": "count",
    "avg": "avg_ns",
    "average": "avg_ns",
    "med": "med_ns",
    "median": "med_ns",
    "min": "min_ns",
    "minimum": "min_ns",
    "max": "max_ns",
    "maximum": "max_ns",
    "stddev": "stddev_ns",
    "name": "name",
    "kernel name": "name",
    "operation": "name",
    "range": "name",
    "time": "share_pct",
    "category": "category",
    "style": "style",
    "nvtx range": "nvtx range",
    "start": "start",
}
_TEXT_FIELDS = frozenset({"name", "category", "style", "nvtx range"})
_INTEGER_FIELDS = frozenset({"total_ns", "min_ns", "max_ns"})
_REQUIRED = {"total_ns", "name"}


def looks_like_stats(text: str) -> bool:
    """Tells whether the text begins as `nsys stats --format csv` writes it."""
    for line in text.splitlines()[:50]:
        if _SKIPPED.match(line) or re.match(r"^(Processing|Running) \[", line):
            return True
        if _is_header(line):
            return True
    return False


def read_stats_csv(path: Path) -> Profile:
    """Reads one or more reports of `nsys stats --format csv`, as printed or as written by `--output`.

    Raises:
        UserError: The file is none, or it is cut off.
    """
    text = csv_text.read_text(path)
    profile = Profile(tool="nsys", version=None, source=path.name)
    if match := _VERSION.search(text):
        profile.version = match[1]
    else:
        profile.notes.append("a CSV report does not name the version of nsys")
    lines = text.splitlines(keepends=True)
    index, report, found = 0, "", False
    while index < len(lines):
        line = lines[index].strip()
        if match := _SKIPPED.match(line):
            profile.notes.append(f"nsys skipped the report: {match[1]}")
            found = True
        elif _is_header(line):
            end = _block_end(lines, index)
            _add_block(profile, path, lines[index:end], report)
            index, found = end, True
            continue
        elif _PREAMBLE.match(line) and (names := _REPORT.findall(line)):
            report = names[-1]
        elif line.startswith("ERROR"):
            profile.notes.append(f"nsys reported: {line}")
            found = True
        index += 1
    if not found:
        raise UserError(f"{path} holds no table: `nsys stats` was interrupted or the file is cut off; make it again")
    if not profile.kernels and not any("kernel" in note.lower() for note in profile.notes):
        profile.notes.append("there is no kernel table in this file: make one with `nsys stats -r cuda_gpu_kern_sum`")
    profile.kernels, profile.api = finish_table(profile.kernels), finish_table(profile.api)
    profile.memory, profile.ranges = finish_table(profile.memory), finish_table(profile.ranges)
    return profile


def _title(field: str) -> tuple[str, str]:
    """Splits "Total Time (ns)" or "Time(%)" into the lower-case title and the unit."""
    match = re.fullmatch(r"\s*([^()]*?)\s*(?:\(([^)]*)\))?\s*", field)
    return (match[1].lower(), match[2] or "") if match else (field.lower(), "")


def _is_header(line: str) -> bool:
    fields = [_title(field) for field in csv_text.split_line(line, csv_text.delimiter(line))]
    titles = {title for title, _ in fields}
    known = {_COLUMNS[title] for title in titles if title in _COLUMNS}
    return len(fields) >= 3 and known >= _REQUIRED and bool(known & {"count", "start"})


def _block_end(lines: list[str], start: int) -> int:
    """Returns the index after the table's last line: the next blank, "Processing" or "SKIPPED" line outside quotes."""
    quotes = 0
    for index in range(start, len(lines)):
        line = lines[index]
        if quotes % 2 == 0 and index > start:
            stripped = line.strip()
            if (
                not stripped
                or _SKIPPED.match(stripped)
                or re.match(r"^(Processing|Running|\[\d+/\d+\]) ?\[?", stripped)
            ):
                return index
        quotes += line.count('"')
    return len(lines)


def _add_block(profile: Profile, path: Path, lines: list[str], report: str) -> None:
    separator = csv_text.delimiter(lines[0])
    header, *rows = csv_text.rows(path, lines, separator)
    fields = [(_COLUMNS.get(title), unit) for title, unit in map(_title, header)]
    csv_text.check_widths(path, rows, len(header), len(header))
    numeric = [i for i, (name, _) in enumerate(fields) if name and name not in _TEXT_FIELDS]
    style = NumberStyle.detect((row[i] for row in rows for i in numeric), default="," if separator == ";" else ".")
    entries = [_entry(path, row, fields, style) for row in rows]
    _check_shares(profile, path, entries, ends=lines[-1].endswith("\n"))
    names = {name for name, _ in fields}
    if not rows:
        profile.notes.append(f"the table {report or 'of this file'} is empty")
    if "start" in names:
        _add_trace(profile, entries)
    elif "nvtx range" in names:
        profile.notes.append(f"the report {report or 'by NVTX range and kernel'} is not read: use nvtx_sum")
    elif any(_title(field)[0] == "range" for field in header):
        profile.ranges += [RangeSummary(**_strip(entry)) for entry in entries]
    elif "category" in names:
        for entry in entries:
            target = profile.kernels if "KERNEL" in str(entry.get("category")).upper() else profile.memory
            target.append(Summary(**_strip(entry)))
    elif any(_title(field)[0] == "operation" for field in header):
        profile.memory += [Summary(**_strip(entry)) for entry in entries]
    elif any(_title(field)[0] == "instances" for field in header):
        profile.kernels += _merge(Summary(**_strip(entry)) for entry in entries)
    else:
        profile.api += [Summary(**_strip(entry)) for entry in entries]


def _check_shares(profile: Profile, path: Path, entries: list[dict[str, Any]], *, ends: bool) -> None:
    """Detects lost rows: the column "Time (%)" adds up to 100, apart from rounding to one decimal."""
    shares = [entry["share_pct"] for entry in entries if entry.get("share_pct") is not None]
    found = sum(shares)
    short = bool(shares) and found < 100.0 - 0.05 * len(shares) - 0.5
    if short and not ends:
        raise UserError(f"{path} is cut off: its rows hold {found:.1f} % of the time; export it again")
    if short:
        profile.notes.append(f"the rows hold {found:.1f} % of the time: the others were left out of the file")
    elif not ends:
        profile.notes.append("the last line has no line end: the file may be cut")


def _entry(path: Path, row: list[str], fields: list[tuple[str | None, str]], style: NumberStyle) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for text, (name, unit) in zip(row, fields, strict=True):
        if name is None:
            continue
        if name in _TEXT_FIELDS:
            entry[name] = text.strip()
            continue
        value = style.parse(text)
        if value is not None and name.endswith("_ns") and unit not in ("", "%"):
            value = nanoseconds(value, unit.replace("nsec", "ns").replace("usec", "us").replace("msec", "ms"))
        if value is not None and (name in _INTEGER_FIELDS or name == "count"):
            value = round(value)
        entry[name] = value
    if entry.get("count") == 1:
        entry["stddev_ns"] = None  # nsys prints 0 where one execution has no deviation
    if "start" not in entry and (not isinstance(entry.get("count"), int) or entry.get("total_ns") is None):
        raise UserError(f"{path}: the row of {entry.get('name')!r} has no number in its count or time: export it again")
    return entry


def _strip(entry: dict[str, Any]) -> dict[str, Any]:
    """Keeps the fields of Summary; the share is worked out again, from unrounded values."""
    return {
        key: value
        for key, value in entry.items()
        if key not in ("category", "style", "nvtx range", "share_pct", "start")
    }


def _merge(rows: Iterable[Summary]) -> list[Summary]:
    """Adds up rows of one name (cuda_gpu_kern_gb_sum has one for each grid and block size)."""
    merged: dict[str, Summary] = {}
    for row in rows:
        if (first := merged.get(row.name)) is None:
            merged[row.name] = row
            continue
        first.count += row.count
        first.total_ns = (first.total_ns or 0) + (row.total_ns or 0)
        first.avg_ns = first.total_ns / first.count
        first.min_ns = min((v for v in (first.min_ns, row.min_ns) if v is not None), default=None)
        first.max_ns = max((v for v in (first.max_ns, row.max_ns) if v is not None), default=None)
        first.med_ns = first.stddev_ns = None  # cannot be known from the parts
    return list(merged.values())


def _add_trace(profile: Profile, entries: list[dict[str, Any]]) -> None:
    """Summarises a trace report (one row an event); names in brackets are memory operations."""
    durations: defaultdict[str, list[int]] = defaultdict(list)
    for entry in entries:
        durations[str(entry["name"])].append(int(entry["total_ns"] or 0))
    for name, values in durations.items():
        target = profile.memory if name.startswith("[CUDA mem") else profile.kernels
        target.append(Summary.from_durations(name, values))
