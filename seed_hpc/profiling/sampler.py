# SPDX-License-Identifier: Apache-2.0
"""The sampler: one background thread a node writes readings of its GPUs (NVML) and of the host to Parquet.

    with Sampler(run_dir / "profile" / "samples" / socket.gethostname()):
        train()

The folder then holds `gpu.parquet` (a row per device and reading; absent without GPUs), `host.parquet` and
`sampler.json` (devices, unsupported fields with reasons, Xid events, notes). While it runs, and after a crash, the
rows are in complete files `gpu-<first>-<last>.parquet`; `read_samples` reads either state.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from seed_hpc.errors import MissingDependencyError, UserError
from seed_hpc.files import write_json
from seed_hpc.profiling import host, nvml

logger = logging.getLogger(__name__)

DEFAULT_HZ = 10.0
_FLUSH_PERIOD_S = 5.0
_PARTS_PER_MERGE = 32
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_TYPES = {float: pa.float64(), int: pa.int64(), str: pa.string()}


def _schema(identity: list[tuple[str, Any]], fields: dict[str, type]) -> Any:
    return pa.schema([*identity, *((name, _TYPES[kind]) for name, kind in fields.items())])


# time_s is Unix time, so that rows of several nodes and of metrics.jsonl can be put on one axis.
GPU_SCHEMA = _schema([("time_s", pa.float64()), ("uuid", pa.string())], nvml.FIELDS)
HOST_SCHEMA = _schema([("time_s", pa.float64())], host.FIELDS)


@dataclass
class Samples:
    """What `read_samples` returns."""

    info: dict[str, Any]  # sampler.json
    gpu: Any  # pyarrow.Table of GPU_SCHEMA, without rows where there is no GPU
    host: Any  # pyarrow.Table of HOST_SCHEMA


class Sampler:
    """Samples in a daemon thread from `start` to `stop`; a context manager.

    A failure to sample never disturbs the run: it is logged, noted in sampler.json, and sampling ends.

    Args:
        folder: Where the files go; one folder for each node.
        hz: Readings per second, up to 100.

    Raises:
        UserError: The rate is not usable or the folder already holds samples.
    """

    def __init__(self, folder: Path, *, hz: float = DEFAULT_HZ) -> None:
        if not (math.isfinite(hz) and 0 < hz <= 100):
            raise UserError(f"a sampling rate of {hz} Hz is not allowed: give more than 0 and at most 100")
        if any(folder.glob("*.parquet")):
            raise UserError(f"{folder} already holds samples of an earlier run: remove them or choose another folder")
        self.folder = folder
        self.hz = hz
        self._pid: int | None = None
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None
        self._rows: dict[str, list[dict[str, Any]]] = {"gpu": [], "host": []}
        self._parts = {"gpu": 0, "host": 0}
        self._info: dict[str, Any] = {}

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def follow(self, pid: int) -> None:
        """Chooses the process whose CPU time and memory are recorded; before `start`."""
        self._pid = pid

    def start(self) -> None:
        """Starts the thread and waits for its first reading (at most 10 s)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name="seed-hpc-sampler", daemon=True)
        self._thread.start()
        self._ready.wait(10.0)

    def cpu_seconds(self) -> float:
        """Returns the CPU time that the thread has used so far; 0 where it does not run."""
        if self._thread is None or self._thread.ident is None or not self._thread.is_alive():
            return 0.0
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def stop(self) -> None:
        """Takes a last reading, writes everything and ends the thread; a second call does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30.0)
            self._thread = None

    def _run(self) -> None:
        session: nvml.Nvml | None = None
        try:
            session = self._open()
            self._loop(session)
        except Exception as error:  # the run must go on without samples
            logger.warning("sampling ended: %s", error)
            self._info.setdefault("notes", []).append(f"sampling ended: {type(error).__name__}: {error}")
        finally:
            self._ready.set()
            self._finish(session)

    def _open(self) -> nvml.Nvml | None:
        session, backend, reason = None, "nvml", None
        try:
            session = nvml.Nvml()
        except MissingDependencyError as error:
            backend, reason = "host", str(error)
        if session is not None and not session.devices:
            backend, reason = "host", "NVML lists no GPU"
        self._info = {
            "schema_version": 1,
            "host": socket.gethostname(),
            "backend": backend,  # "nvml", or "host" where there is no usable GPU
            "reason": reason,
            "hz": self.hz,
            "started_s": time.time(),
            "ended_s": None,
            "readings": 0,
            "missed": 0,  # readings left out because the one before took too long
            "cpu_s": 0.0,  # CPU time of this thread: what sampling cost, whatever else the machine did
            "driver_version": session.driver_version() if session else None,
            "devices": [],
            "events": [],
            "notes": [f"no GPU readings: {reason}; the host is sampled"] if reason else [],
        }
        return session

    def _loop(self, session: nvml.Nvml | None) -> None:
        reader = host.Host(self._pid)
        period_s = 1.0 / self.hz
        due = time.monotonic()
        flushed = due
        while True:
            last = self._stop.is_set()
            self._read(session, reader)
            if self._info["readings"] == 1:
                self._write_info(session, reader)
                self._ready.set()
            if last:
                return
            now = time.monotonic()
            if now - flushed >= _FLUSH_PERIOD_S:
                self._flush()
                self._write_info(session, reader)
                flushed = now
            due += period_s
            if (late := time.monotonic() - due) > 0:  # keep the rhythm, leave out what is over
                skipped = math.ceil(late / period_s)
                self._info["missed"] += skipped
                due += skipped * period_s
            self._stop.wait(max(0.0, due - time.monotonic()))

    def _read(self, session: nvml.Nvml | None, reader: host.Host) -> None:
        now = time.time()
        if session is not None:
            for device in session.devices:
                self._rows["gpu"].append({"time_s": now, "uuid": device.uuid, **session.read(device)})
            session.poll_events()
        self._rows["host"].append({"time_s": now, **reader.read()})
        self._info["readings"] += 1

    def _write_info(self, session: nvml.Nvml | None, reader: host.Host | None) -> None:
        self._info["cpu_s"] = time.thread_time()
        document = dict(self._info)
        if session is not None:
            document["devices"] = [
                {
                    "uuid": device.uuid,
                    "name": device.name,
                    "index": device.index,
                    "parent_uuid": device.parent_uuid,
                    "lost": device.lost,
                    "unsupported": dict(device.unsupported),
                }
                for device in session.devices
            ]
            document["events"] = [asdict(event) for event in session.events]
            document["notes"] = [*document["notes"], *session.notes]
        if reader is not None:
            document["notes"] = [*document["notes"], *reader.notes]
        write_json(self.folder / "sampler.json", document)

    def _flush(self) -> None:
        """Writes the rows in memory as one complete file for each table."""
        for kind, schema in (("gpu", GPU_SCHEMA), ("host", HOST_SCHEMA)):
            rows, self._rows[kind] = self._rows[kind], []
            if not rows:
                continue
            part = self._parts[kind]
            self._parts[kind] = part + 1
            _write_table(self.folder / _part_name(kind, part, part), pa.Table.from_pylist(rows, schema=schema))
            if self._parts[kind] % _PARTS_PER_MERGE == 0:
                first = self._parts[kind] - _PARTS_PER_MERGE
                _merge(self.folder, kind, self.folder / _part_name(kind, first, part), first, part)

    def _finish(self, session: nvml.Nvml | None) -> None:
        try:
            self._flush()
            for kind in ("gpu", "host"):
                if self._parts[kind]:
                    _merge(self.folder, kind, self.folder / f"{kind}.parquet", 0, self._parts[kind])
            self._info["ended_s"] = time.time()
            self._write_info(session, None)
        except OSError as error:
            logger.warning("samples could not be written to %s: %s", self.folder, error)
        finally:
            if session is not None:
                session.close()


@contextlib.contextmanager
def sample_run(directory: Path, hz: float, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Samples a training run into `<directory>/samples/<host>-<n>`, once for each node; n counts its resumptions.

    Args:
        directory: The run directory.
        hz: Readings per second; 0 samples nothing.
        environ: Tells which of the node's processes this is: only the first one samples.

    Raises:
        UserError: The rate is not usable.
    """
    if hz == 0 or any(environ.get(name, "0") != "0" for name in _LOCAL_RANK_VARIABLES):
        yield
        return
    host = socket.gethostname()
    folders = (directory / "samples" / f"{host}-{number}" for number in itertools.count())
    sampler = Sampler(next(folder for folder in folders if not folder.exists()), hz=hz)
    try:
        sampler.start()
    except OSError as error:  # a full or read-only disk must not end the run here
        logger.warning("the run is not sampled: %s", error)
    try:
        yield
    finally:
        sampler.stop()


def _part_name(kind: str, first: int, last: int) -> str:
    return f"{kind}-{first:06d}-{last:06d}.parquet"


def _write_table(path: Path, table: Any) -> None:
    partial = path.with_name(f".{path.name}.partial")
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def _parts(folder: Path, kind: str) -> list[tuple[int, int, Path]]:
    """Returns (first, last, file) of the parts in order, without those that a merged file already contains."""
    pattern = re.compile(rf"{kind}-(\d+)-(\d+)\.parquet")
    found = [
        (int(match[1]), int(match[2]), path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))
    ]
    return [
        (first, last, path)
        for first, last, path in sorted(found, key=lambda part: (part[0], -part[1]))
        if not any(a <= first and last <= b and (a, b) != (first, last) for a, b, _ in found)
    ]


def _merge(folder: Path, kind: str, target: Path, first: int, last: int) -> None:
    """Writes the parts from `first` to `last` into one file, then removes them."""
    parts = [path for a, b, path in _parts(folder, kind) if first <= a and b <= last]
    _write_table(target, pa.concat_tables([pq.read_table(path) for path in parts]))
    for path in folder.glob(f"{kind}-*.parquet"):
        a, b = (int(number) for number in path.stem.split("-")[1:])
        if path != target and first <= a and b <= last:
            path.unlink()


def read_samples(folder: Path) -> Samples:
    """Reads a sampler's folder, also while it is being written and after a crash.

    Raises:
        UserError: The folder holds no samples.
    """
    info_file = folder / "sampler.json"
    if not info_file.is_file():
        raise UserError(f"{folder} holds no samples: there is no sampler.json")
    tables = {}
    for kind, schema in (("gpu", GPU_SCHEMA), ("host", HOST_SCHEMA)):
        whole = folder / f"{kind}.parquet"
        files = [whole] if whole.is_file() else [path for _, _, path in _parts(folder, kind)]
        tables[kind] = pa.concat_tables([pq.read_table(path) for path in files]) if files else schema.empty_table()
    return Samples(json.loads(info_file.read_text(encoding="utf-8")), tables["gpu"], tables["host"])


def latest_rows(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any] | None]:
    """Returns the newest row of each device (by UUID) and of the host, reading only the newest file: for live views.

    While the sampler runs this is at most five seconds behind. Without samples both are empty.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    for kind in ("gpu", "host"):
        whole = folder / f"{kind}.parquet"
        try:
            files = [whole] if whole.is_file() else [path for _, _, path in _parts(folder, kind)]
            rows[kind] = pq.read_table(files[-1]).to_pylist() if files else []
        except OSError:  # merged into another file just now
            rows[kind] = []
    return {row["uuid"]: row for row in rows["gpu"]}, rows["host"][-1] if rows["host"] else None
