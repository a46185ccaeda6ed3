# SPDX-License-Identifier: Apache-2.0
"""CUDA streams and events that are absent on a CPU, where everything runs in order anyway."""

from __future__ import annotations

import contextlib
import time
from contextlib import AbstractContextManager
from typing import Any

import torch


class Stream:
    """A queue of device work beside others.

    Args:
        device: On a CPU the stream does nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self.cuda_stream: Any = None
        if device.type == "cuda":
            self.cuda_stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def use(self) -> AbstractContextManager[Any]:
        """Returns a context in which device work goes to this stream."""
        return contextlib.nullcontext() if self.cuda_stream is None else torch.cuda.stream(self.cuda_stream)


class Signal:
    """A point in one stream's work that other streams can wait for; the host waits in `synchronize` alone.

    Args:
        device: On a CPU the signal does nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event: Any = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def record(self) -> None:
        """Marks the current end of the work of the device's current stream."""
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def wait(self) -> None:
        """The further work of the device's current stream starts after the mark; at once if there is none yet."""
        if self._event is not None:
            self._event.wait(torch.cuda.current_stream(self._device))

    def synchronize(self) -> None:
        """The host waits until the device has reached the mark; not at all if there is none yet."""
        if self._event is not None:
            self._event.synchronize()


class Instant:
    """A moment in the work of the device's current stream; on a CPU, now.

    Args:
        device: Whose time it is.
    """

    def __init__(self, device: torch.device) -> None:
        self._event: Any = None
        self._seconds = time.perf_counter()
        if device.type == "cuda":
            self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(device))

    def seconds_to(self, later: Instant) -> float:
        """Returns the time between two moments; on CUDA it waits for the device to reach the later one."""
        if self._event is None:
            return later._seconds - self._seconds
        later._event.synchronize()
        return float(self._event.elapsed_time(later._event)) / 1000.0
