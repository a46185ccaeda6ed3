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

_TRAFFIC_PERIOD_S = 1.0


class Host:
    """Reads the node and one process; rates are differences to the previous reading, so the first has none.

    Args:
        pid: The process to follow; the calling one by default.
    """

    def __init__(self, pid: int | None = None) -> None:
        self.notes: list[str] = []
        self._process: psutil.Process | None = psutil.Process(pid or os.getpid())
        self._before: dict[str, float] | None = None
        self._traffic_before: dict[str, float] | None = None
        self._traffic: dict[str, float] = {}  # rates of the last second

    def read(self) -> dict[str, float | int | None]:
        """Returns one row of `FIELDS`; disk and network rates are renewed once a second."""
        row: dict[str, float | int | None] = dict.fromkeys(FIELDS)
        times = psutil.cpu_times()
        # Guest time is already part of user time; waiting for I/O is idle time of the CPU.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        busy = total - times.idle - getattr(times, "iowait", 0.0)
        now = {"time": time.monotonic(), "total": total, "busy": busy}
        row["load_1min"] = os.getloadavg()[0]
        memory = psutil.virtual_memory()
        row["memory_used_bytes"] = int(memory.total - memory.available)
        row["memory_total_bytes"] = int(memory.total)
        self._read_process(row, now)
        before, self._before = self._before, now
        if before is not None:
            if now["total"] > before["total"]:
                row["cpu_pct"] = 100.0 * (now["busy"] - before["busy"]) / (now["total"] - before["total"])
            if "process" in now and "process" in before and now["time"] > before["time"]:
                row["process_cpu_pct"] = 100.0 * (now["process"] - before["process"]) / (now["time"] - before["time"])
        self._read_traffic(now["time"])
        row.update(self._traffic)
        return row

    def _read_traffic(self, now: float) -> None:
        """Reads the counters of disks and network, which cost more than all the rest, once a second."""
        before = self._traffic_before
        if before is not None and now - before["time"] < _TRAFFIC_PERIOD_S:
            return
        counters = {"time": now}
        disk: Any = psutil.disk_io_counters()
        if disk is not None:
            counters |= {"disk_read": float(disk.read_bytes), "disk_write": float(disk.write_bytes)}
        network: Any = psutil.net_io_counters()
        if network is not None:
            counters |= {"network_sent": float(network.bytes_sent), "network_received": float(network.bytes_recv)}
        self._traffic_before = counters
        if before is not None:
            self._traffic = {
                f"{name}_bytes_per_s": (value - before[name]) / (now - before["time"])
                for name, value in counters.items()
                if name != "time" and name in before and value >= before[name]
            }

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
        now["process"] = times.user + times.system
