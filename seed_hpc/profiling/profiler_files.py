# SPDX-License-Identifier: Apache-2.0
"""Tells which profiler wrote a file and reads it; refuses files that are cut off, foreign or left by an earlier run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from seed_hpc.errors import UserError
from seed_hpc.profiling import csv_text, ncu, nsys, torch_trace
from seed_hpc.profiling.tables import Profile

_REPORT_SUFFIXES = {
    ".nsys-rep": "nsys export --type sqlite {0}",
    ".qdrep": "nsys export --type sqlite {0}",
    ".qdstrm": "QdstrmImporter -i {0}",
    ".ncu-rep": "ncu --import {0} --csv --page raw > {0}.csv",
}


def read_profiler_file(path: Path) -> Profile:
    """Reads an nsys SQLite export, an `nsys stats` CSV, an ncu CSV page or a torch.profiler trace.

    Raises:
        UserError: The file is missing, empty, cut off, stale or none of these.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder: name one profiler file in it")
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if (command := _REPORT_SUFFIXES.get(path.suffix)) is not None:
        raise UserError(f"{path} is a report in NVIDIA's own format: export it first with `{command.format(path)}`")
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if head.startswith(nsys.SQLITE_MAGIC[: len(head)]) and head:
        return nsys.read_sqlite(path)
    if path.name.endswith(".json.gz") or head.lstrip().startswith(b"{"):
        return torch_trace.read_trace(path)
    text = csv_text.read_text(path)
    if ncu.looks_like_ncu(text):
        return ncu.read_csv(path)
    if nsys.looks_like_stats(text):
        return nsys.read_stats_csv(path)
    raise UserError(
        f"{path} is no profiler file that can be read: give an nsys SQLite export, a CSV of `nsys stats`, a CSV of "
        "`ncu --csv` or a torch.profiler trace"
    )


def refuse_stale(path: Path, since: datetime) -> None:
    """Raises `UserError` where `path` was last written before `since`: an earlier run's file is never reported."""
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    if written < since:
        raise UserError(
            f"{path} is stale: it was written at {written:%Y-%m-%d %H:%M:%S} UTC, before the run began at "
            f"{since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC; profile this run again"
        )


def parse_since(text: str) -> datetime:
    """Returns the time after which a file must have been written: an ISO 8601 time, or when the run of a folder began.

    Raises:
        UserError: It is neither.
    """
    run_file = Path(text) / "run.json"
    if run_file.is_file():
        try:
            text = str(json.loads(run_file.read_text(encoding="utf-8"))["started"])
        except (json.JSONDecodeError, KeyError, TypeError):
            raise UserError(f"{run_file} has no 'started': it is no run's file") from None
    try:
        since = datetime.fromisoformat(text) if not _is_number(text) else datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        raise UserError(f"{text!r} is neither a run's folder nor a time like 2026-01-31T12:00:00") from None
    return since if since.tzinfo else since.astimezone()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
