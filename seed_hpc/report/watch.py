# SPDX-License-Identifier: Apache-2.0
"""Follows a run through its files, also from another machine: what `seed-hpc watch` shows.

`RunFollower.poll` reads what was added since the last call to metrics.jsonl, run.json and the sampler's files; any of
them may be missing, and the last line may be half written. `render` turns its state into a terminal view.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seed_hpc.errors import UserError

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.,-=+*#"
_STALE_AFTER_S = 60.0  # a run logs every 10 s
# Key of metrics.jsonl -> (title, decimals).
_CURVES = {
    "fps": ("frames/s", 0),
    "mean_return": ("return", 2),
    "loss": ("loss", 4),
    "entropy": ("entropy", 3),
    "policy_lag": ("policy lag", 2),
    "learning_rate": ("learning rate", 6),
}


@dataclass
class RunFollower:
    """The state of one run as its files tell it."""

    directory: Path
    info: dict[str, Any] = field(default_factory=dict)  # run.json
    lines: list[dict[str, Any]] = field(default_factory=list)  # metrics.jsonl, frames increasing
    total_frames: float | None = None
    devices: dict[str, dict[str, Any]] = field(default_factory=dict)  # "host:uuid" -> newest sample, with its name
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)  # node -> newest sample
    damaged: int = 0  # lines that are no JSON object
    _offset: int = 0
    _inode: int = 0

    def poll(self) -> bool:
        """Reads what is new; returns whether a log line came."""
        self._read_info()
        self._read_samples()
        return self._read_lines()

    @property
    def status(self) -> str:
        """The status of run.json, or "waiting" while there is none."""
        return str(self.info.get("status", "waiting"))

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ("finished", "interrupted", "failed")

    def series(self, key: str) -> list[float | None]:
        """One metric of all lines; None where it is missing, null, NaN or no number."""
        return [finite(line.get(key)) for line in self.lines]

    def last(self, key: str) -> float | None:
        """The newest value of a metric."""
        return next((value for value in reversed(self.series(key)) if value is not None), None)

    def phase_shares(self) -> dict[str, float]:
        """Shares of the newest line's `phase_seconds`, largest first."""
        recorded = next((line["phase_seconds"] for line in reversed(self.lines) if "phase_seconds" in line), None)
        seconds = {name: finite(value) for name, value in recorded.items()} if isinstance(recorded, dict) else {}
        known = {name: value for name, value in seconds.items() if value is not None and value > 0}
        total = sum(known.values())
        return {name: value / total for name, value in sorted(known.items(), key=lambda item: -item[1])}

    def age_s(self, now: float | None = None) -> float | None:
        """Seconds since metrics.jsonl was last written."""
        try:
            written = (self.directory / "metrics.jsonl").stat().st_mtime
        except OSError:
            return None
        return max(0.0, (time.time() if now is None else now) - written)

    def _read_info(self) -> None:
        document = _read_json(self.directory / "run.json")
        if isinstance(document, dict):  # half written: keep what was read before
            self.info = document
        if self.total_frames is None:
            try:
                config = yaml.safe_load((self.directory / "config.yaml").read_text(encoding="utf-8"))
                self.total_frames = finite(config["training"]["total_frames"])
            except (OSError, yaml.YAMLError, KeyError, TypeError):
                self.total_frames = None

    def _read_lines(self) -> bool:
        path = self.directory / "metrics.jsonl"
        try:
            with path.open("rb") as file:
                status = path.stat()
                if status.st_ino != self._inode or status.st_size < self._offset:  # written anew
                    self._inode, self._offset, self.lines, self.damaged = status.st_ino, 0, [], 0
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return False
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        before = len(self.lines)
        for text in complete.splitlines():
            if text.strip():
                self._add(text)
        return len(self.lines) != before or bool(complete.strip())

    def _add(self, text: bytes) -> None:
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            self.damaged += 1
            return
        frames = finite(line.get("frames"))
        if frames is not None:  # a resumed run repeats what came after its checkpoint
            while self.lines and (finite(self.lines[-1].get("frames")) or 0.0) >= frames:
                self.lines.pop()
        self.lines.append(line)

    def _read_samples(self) -> None:
        # Samples are optional, and so is the library that reads them.
        samples = self.directory / "samples"
        if not samples.is_dir():
            return
        from seed_hpc.profiling.sampler import latest_rows

        newest: dict[str, tuple[int, Path]] = {}  # node -> its last resumption
        for folder in samples.iterdir():
            node, _, number = folder.name.rpartition("-")
            if number.isdigit() and int(number) >= newest.get(node, (0, folder))[0]:
                newest[node] = (int(number), folder)
        for node, (_, folder) in sorted(newest.items()):
            info = _read_json(folder / "sampler.json")
            names = {device["uuid"]: device["name"] for device in (info or {}).get("devices", [])}
            devices, host = latest_rows(folder)
            for uuid, row in devices.items():
                self.devices[f"{node}:{uuid}"] = {**row, "name": names.get(uuid, uuid), "host": node}
            if host is not None:
                self.hosts[node] = host


def find_run(path: Path) -> Path:
    """Returns the run directory that `path` means: itself, or the newest run inside it.

    Raises:
        UserError: There is none.
    """
    if not path.is_dir():
        raise UserError(f"{path} is no folder: name a run directory, results/<experiment>/<run_id>")
    if any((path / name).exists() for name in ("run.json", "metrics.jsonl", "config.yaml")):
        return path
    runs = [*path.glob("*/run.json"), *path.glob("*/*/run.json")]
    if not runs:
        raise UserError(f"{path} holds no run: name a run directory, results/<experiment>/<run_id>")
    return max(runs, key=lambda file: file.stat().st_mtime).parent


def finite(value: Any) -> float | None:
    """Returns a finite number as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def sparkline(values: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """Draws values as one line of bars; each bar is the mean of its stretch, a gap where there is no value."""
    if not values or width < 1:
        return ""
    columns: list[float | None] = []
    count = min(width, len(values))
    for column in range(count):
        stretch = values[column * len(values) // count : (column + 1) * len(values) // count]
        known = [value for value in stretch if value is not None]
        columns.append(sum(known) / len(known) if known else None)
    known = [value for value in columns if value is not None]
    if not known:
        return " " * count
    low, high = min(known), max(known)
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else bars[round((value - low) * scale)] for value in columns)


def render(run: RunFollower, width: int, *, unicode: bool = True, now: float | None = None) -> RenderableType:
    """Returns the view of a run, at most `width` columns wide."""
    parts: list[RenderableType] = [_headline(run, now)]
    frames = run.last("frames")
    if run.total_frames and frames is not None:
        share = min(1.0, frames / run.total_frames)
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(total=1.0, completed=share, width=max(10, min(60, width - 45))),
            f"{100 * share:.1f} %",
            f"{_count(frames)} of {_count(run.total_frames)} frames{_remaining(run, frames)}",
        )
        parts.append(bar)
    parts.append(Text())
    if not run.lines:
        parts.append(Text("no log line yet: waiting for metrics.jsonl", style="dim"))
    else:
        parts.append(_curves(run, width, BARS if unicode else ASCII_BARS))
    if shares := run.phase_shares():
        text = "  ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
        parts += [Text(), Text(f"time in phases: {text}")]
    if run.hosts or run.devices:
        parts += [Text(), _usage(run)]
    if run.damaged:
        parts.append(Text(f"{run.damaged} damaged lines of metrics.jsonl were left out", style="yellow"))
    return Group(*parts)


def summary(run: RunFollower) -> str:
    """One line of plain text for output that is no terminal."""
    parts = [f"{_count(run.last('frames'))} frames"]
    parts += [f"{title} {_number(run.last(key), decimals)}" for key, (title, decimals) in _CURVES.items()]
    return f"{run.status}: " + ", ".join(part for part in parts if not part.endswith(" -"))


def _headline(run: RunFollower, now: float | None) -> Text:
    colors = {"running": "green", "finished": "blue", "interrupted": "yellow", "failed": "red"}
    text = Text()
    experiment = run.info.get("experiment", run.directory.parent.name)
    text.append(f"{experiment}/{run.info.get('run_id', run.directory.name)}", style="bold")
    text.append(f"  {run.status}", style=colors.get(run.status, "dim"))
    if (elapsed := run.last("time_s")) is not None:
        text.append(f"  {_duration(elapsed)}")
    hosts = run.info.get("hosts")
    if isinstance(hosts, list) and hosts:
        ranks = run.info.get("world_size", len(hosts))
        text.append(f"  {ranks} rank{'' if ranks == 1 else 's'} on {', '.join(map(str, hosts[:4]))}", style="dim")
    age = run.age_s(now)
    if run.status == "running" and age is not None and age > _STALE_AFTER_S:
        text.append(f"\nno log line for {_duration(age)}: the run may hang or have been killed", style="yellow")
    return text


def _curves(run: RunFollower, width: int, bars: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for key, (title, decimals) in _CURVES.items():
        series = run.series(key)
        if any(value is not None for value in series):
            line = sparkline(series, max(8, min(60, width - 36)), bars)
            table.add_row(title, _number(run.last(key), decimals), Text(line, style="cyan"))
    episodes = run.last("episodes")
    if episodes is not None:
        table.add_row("episodes", _count(episodes), "")
    return table


def _usage(run: RunFollower) -> Table:
    table = Table.grid(padding=(0, 2))
    for host, row in run.hosts.items():
        memory = f"{_gib(row.get('memory_used_bytes'))} of {_gib(row.get('memory_total_bytes'))}"
        table.add_row(host, f"CPU {_number(row.get('cpu_pct'), 0)} %", f"memory {memory}", "", "")
    for row in run.devices.values():
        table.add_row(
            f"  {row['name']}",
            f"GPU {_number(row.get('gpu_utilization_pct'), 0)} %",
            f"memory {_gib(row.get('memory_used_bytes'))} of {_gib(row.get('memory_total_bytes'))}",
            f"{_number(row.get('power_w'), 0)} W",
            str(row.get("throttle_reasons") or ""),
        )
    return table


def _remaining(run: RunFollower, frames: float) -> str:
    fps = run.last("fps")
    if run.ended or not fps or run.total_frames is None or frames >= run.total_frames:
        return ""
    return f", {_duration((run.total_frames - frames) / fps)} left"


def _number(value: Any, decimals: int) -> str:
    number = finite(value)
    if number is None:
        return "-"
    if decimals >= 4 and number != 0 and abs(number) < 10.0 ** -(decimals - 2):
        return f"{number:.2e}"
    return f"{number:,.{decimals}f}"


def _count(value: float | None) -> str:
    if value is None:
        return "-"
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if suffix == 'k' else size):.4g} {suffix}"
    return f"{value:.0f}"


def _gib(value: Any) -> str:
    number = finite(value)
    return "-" if number is None else f"{number / (1 << 30):.1f} GiB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
