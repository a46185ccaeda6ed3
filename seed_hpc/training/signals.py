# SPDX-License-Identifier: Apache-2.0
"""Turns SIGTERM, SIGUSR1, SIGURG and Ctrl-C into a wish to stop that the training loop grants at its next iteration.

Slurm sends SIGTERM to a job that is preempted or cancelled, and the signal of `--signal` before its time is up. Slurm
signals every process of a job step, also those that would end with it: SIGURG is the one to choose there, since all
others ignore it by default (Snakemake, and the FUSE mount that an image may live on).
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """Remembers the first signal while the block runs; a second Ctrl-C ends the process at once."""

    def __init__(self) -> None:
        self.signal_name: str | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal came."""
        return self.signal_name is not None

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():  # the only one that may set handlers
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGURG, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal_name = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
