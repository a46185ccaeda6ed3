# SPDX-License-Identifier: Apache-2.0
"""Arrays that are handed out and used again once the caller has dropped them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# How many arrays are looked at before a fresh one is made: callers drop them in the order in which they got them.
_MOST_TRIED = 3


class BufferRing:
    """Hands out arrays of one shape.

    A new large array costs more in page faults than filling it. So an array is handed out again as soon as nothing
    refers to it or to a view of it any more; as long as something does, its contents stay.

    Args:
        shape: Of the arrays.
        dtype: Of the arrays.
        most_kept: Arrays that are kept for reuse; a caller who holds on to more gets fresh ones.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, most_kept: int) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._most_kept = most_kept
        self._entries: list[tuple[NDArray[Any], int]] = []
        self._next = 0
        # What sys.getrefcount says about an array that only the ring holds; depends on the interpreter.
        self._idle_count = self._count((np.empty(0), 0))

    @staticmethod
    def _count(entry: tuple[NDArray[Any], int]) -> int:
        return sys.getrefcount(entry[0])

    def take(self) -> tuple[NDArray[Any], int]:
        """Returns an array with arbitrary contents, and its address."""
        entries = self._entries
        for _ in range(min(_MOST_TRIED, len(entries))):
            self._next = (self._next + 1) % len(entries)
            entry = entries[self._next]
            if self._count(entry) == self._idle_count:
                return entry
        entry = self._make()
        if len(entries) < self._most_kept:
            self._next = len(entries)
            entries.append(entry)
        else:  # forget one that somebody holds
            entries[self._next] = entry
        return entry

    def _make(self) -> tuple[NDArray[Any], int]:
        array = np.empty(self._shape, dtype=self._dtype)
        return array, array.ctypes.data
