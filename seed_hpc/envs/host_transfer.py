# SPDX-License-Identifier: Apache-2.0
"""Results of environments that run on the host go to a device while the host goes on.

    shared memory of the simulators -> page-locked buffers, two in turn -> tensors on the device

A row is sent as soon as it is there, so that it travels while the simulators of other rows still run, and the host
never waits for a copy that it has just begun.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from seed_hpc.envs.cuda_device import check_target
from seed_hpc.training.streams import Signal, Stream


class HostTransfer:
    """Copies arrays of the host to tensors of a device, on a stream of its own.

    One transfer is `begin`, any number of `send`, `finish`. Events put it in its place on the caller's current stream:
    copies start after the work before `begin`, which may still read the targets, and the work after `finish` sees what
    they brought. The buffers of a transfer are filled again two transfers later: only then, if its copies have not
    ended by that time, does the host wait. On a CPU the same calls copy at once.

    Args:
        sources: Arrays by name, lanes first; they are read in `send`.
        device: Where the targets are.
    """

    def __init__(self, sources: Mapping[str, NDArray[Any]], device: torch.device) -> None:
        self._device = device
        self._sources = {name: torch.from_numpy(array) for name, array in sources.items()}
        pinned = device.type == "cuda"
        self._buffers = [
            {name: torch.empty_like(source, pin_memory=pinned) for name, source in self._sources.items()}
            for _ in range(2)
        ]
        self._copied = [Signal(device) for _ in self._buffers]
        self._targets_free = Signal(device)
        self._stream = Stream(device)
        self._targets: Mapping[str, Tensor] = {}
        self._turn = 0

    def new_targets(self) -> dict[str, Tensor]:
        """Returns tensors for all sources, with arbitrary contents."""
        return {name: torch.empty_like(source, device=self._device) for name, source in self._sources.items()}

    def begin(self, targets: Mapping[str, Tensor]) -> None:
        """Starts a transfer.

        Args:
            targets: For each source a contiguous tensor of the device with its shape and type.

        Raises:
            UserError: A target is something else.
        """
        for name, target in targets.items():
            source = self._sources[name]
            check_target(target, name, tuple(source.shape), source.dtype, self._device)
        self._targets = targets
        self._turn = 1 - self._turn
        self._copied[self._turn].synchronize()
        with self._current():
            self._targets_free.record()
        with self._stream.use():
            self._targets_free.wait()

    def send(self, name: str, lanes: range) -> None:
        """Copies the rows of neighbouring lanes; the source may change as soon as this returns."""
        rows = slice(lanes.start, lanes.stop)
        buffer = self._buffers[self._turn][name][rows]
        buffer.copy_(self._sources[name][rows])
        with self._stream.use():
            self._targets[name][rows].copy_(buffer, non_blocking=True)

    def finish(self) -> None:
        """Ends a transfer: the current stream's further work waits for its copies, the host does not."""
        with self._stream.use():
            self._copied[self._turn].record()
        with self._current():
            self._copied[self._turn].wait()

    def close(self) -> None:
        """Lets go of the sources, which may be memory that is about to be freed."""
        self._sources = {}

    def _current(self) -> AbstractContextManager[Any]:
        """The caller's stream on the device, whichever device is the current one."""
        return torch.cuda.device(self._device) if self._device.type == "cuda" else contextlib.nullcontext()
