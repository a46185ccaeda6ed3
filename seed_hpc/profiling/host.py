# SPDX-License-Identifier: Apache-2.0
"""Readings of the host: CPU, memory, disk and network of the node, and CPU and memory of one process."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

# Readings of one row, with their units in the names; None where the system does not tell.
FIELDS: dict[str, type] = {
    "cpu_pct": float,  # of all cores of the node
    "load_1min": float,
    "memory_used_bytes": int,
    "memory_total_bytes": int,
    "disk_read_bytes_per_s": float,
    "disk_write_bytes_per_s": float,
    "network_sent_bytes_per_s": float,
    "network_received_bytes_per_s": float,
    "process_cpu_pct": float,  # of one core: 400 is four cores
    "process_rss_bytes": int,
    "process_threads": int,
}


class Host:
    """Reads the node and one process; rates are differences to the previous reading, so the first has none.

    Args:
        pid: The process to follow; the calling one by default.
    """

    def __init__(self, pid: int | None = None) -> None:
        self.notes: list[str] = []
        self._process: psutil.Process | None = psutil.Process(pid or os.getpid())
        self._before: dict[str, float] | None = None

    def read(self) -> dict[str, float | int | None]:
        """Returns one row of `FIELDS`."""
        row: dict[str, float | int | None] = dict.fromkeys(FIELDS)
        now = {"time": time.monotonic(), **self._counters()}
        row["load_1min"] = os.getloadavg()[0]
        memory = psutil.virtual_memory()
        row["memory_used_bytes"] = int(memory.total - memory.available)
        row["memory_total_bytes"] = int(memory.total)
        self._read_process(row, now)
        before, self._before = self._before, now
        if before is not None and (elapsed := now["time"] - before["time"]) > 0:
            total = now["cpu_total"] - before["cpu_total"]
            if total > 0:
                row["cpu_pct"] = 100.0 * (now["cpu_busy"] - before["cpu_busy"]) / total
            for name in ("disk_read", "disk_write", "network_sent", "network_received"):
                if name in now and name in before and now[name] >= before[name]:
                    row[f"{name}_bytes_per_s"] = (now[name] - before[name]) / elapsed
            if "process_cpu" in now and "process_cpu" in before:
                row["process_cpu_pct"] = 100.0 * (now["process_cpu"] - before["process_cpu"]) / elapsed
        return row

    def _counters(self) -> dict[str, float]:
        times = psutil.cpu_times()
        # Guest time is already part of user time; waiting for I/O is idle time of the CPU.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        values = {"cpu_total": total, "cpu_busy": total - times.idle - getattr(times, "iowait", 0.0)}
        disk: Any = psutil.disk_io_counters()
        if disk is not None:
            values |= {"disk_read": float(disk.read_bytes), "disk_write": float(disk.write_bytes)}
        network: Any = psutil.net_io_counters()
        if network is not None:
            values |= {"network_sent": float(network.bytes_sent), "network_received": float(network.bytes_recv)}
        return values

    def _read_process(self, row: dict[str, float | int | None], now: dict[str, float]) -> None:
        if self._process is None:
            return
        try:
            with self._process.oneshot():
                times = self._process.cpu_times()
                row["process_rss_bytes"] = int(self._process.memory_info().rss)
                row["process_threads"] = int(self._process.num_threads())
        except psutil.Error as error:
            self.notes.append(f"process {self._process.pid} is not read any more: {type(error).__name__}")
            self._process = None
            return
        now["process_cpu"] = times.user + times.system
