# SPDX-License-Identifier: Apache-2.0
"""Writes a run's log lines: to the log, to metrics.jsonl, to TensorBoard, and to a live display on a terminal."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

# What a person wants to see, in this order: key, label, format.
_SHOWN = (
    ("frames", "frames", "{:,.0f}"),
    ("fps", "frames/s", "{:,.0f}"),
    ("mean_return", "return", "{:.2f}"),
    ("episodes", "episodes", "{:,.0f}"),
    ("loss", "loss", "{:.4f}"),
    ("entropy", "entropy", "{:.3f}"),
    ("epsilon", "epsilon", "{:.3f}"),
    ("policy_lag", "lag", "{:.2f}"),
)


class MetricsWriter:
    """Appends log lines.

    Args:
        folder: The run directory.
        frames: Position of the run: lines beyond it were written after the checkpoint that is resumed, and go.
        total_frames: Where the run ends, for the display.
        title: Of the display.
        tensorboard: Whether to write events.
    """

    def __init__(
        self, folder: Path, *, frames: int = 0, total_frames: int, title: str = "", tensorboard: bool = True
    ) -> None:
        self.path = folder / "metrics.jsonl"
        self.total_frames = total_frames
        _cut_off(self.path, frames)
        self._file = self.path.open("a", encoding="utf-8")
        self._events: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(  # type: ignore[no-untyped-call]
                str(folder / "tensorboard"), purge_step=frames + 1 if frames else None
            )
        self._display = _Display(title, total_frames) if sys.stderr.isatty() else None

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes one line; `line["frames"]` is its position, numbers that are not finite become null."""
        clean = {name: _finite(value) for name, value in line.items()}
        self._file.write(json.dumps(clean) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._events is not None:
            for name, value in clean.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(name, value, global_step=clean["frames"])
            self._events.flush()
        if self._display is not None:
            self._display.show(clean)
        else:
            logger.info(summary(clean))

    def close(self) -> None:
        """Closes the files and the display."""
        self._file.close()
        if self._events is not None:
            self._events.close()
        if self._display is not None:
            self._display.close()


def summary(line: Mapping[str, Any]) -> str:
    """Returns a log line for people."""
    parts = [f"{label} {form.format(line[key])}" for key, label, form in _SHOWN if line.get(key) is not None]
    return "  ".join(parts)


class _Display:
    """A bar and the newest numbers, on standard error."""

    def __init__(self, title: str, total_frames: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=total_frames, numbers="")
        self._progress.start()

    def show(self, line: Mapping[str, Any]) -> None:
        self._progress.update(self._task, completed=line["frames"], numbers=summary(line))

    def close(self) -> None:
        self._progress.stop()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return value


def _cut_off(path: Path, frames: int) -> None:
    """Removes lines beyond `frames`, and a half line that a killed process left."""
    if not path.is_file():
        return
    kept = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["frames"] <= frames:
            kept.append(text + "\n")
    path.write_text("".join(kept), encoding="utf-8")
