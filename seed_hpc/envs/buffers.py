# SPDX-License-Identifier: Apache-2.0
"""Arrays that are handed out and used again once the caller has dropped them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Arrays that are kept for reuse; a caller who holds on to more gets fresh ones.
_MOST_KEPT = 6


class BufferRing:
    """Hands out arrays of one shape.

    A new large array costs more in page faults than filling it. So an array is handed out again as soon as nothing
    refers to it or to a view of it any more; as long as something does, its contents stay.

    Args:
        shape: Of the arrays.
        dtype: Of the arrays.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self._shape = shape
        self._dtype = np.dtype(dtype)
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
        for i in range(len(entries)):
            entry = entries[(self._next + i) % len(entries)]
            if self._count(entry) == self._idle_count:
                self._next += i + 1
                return entry
        array = np.empty(self._shape, dtype=self._dtype)
        fresh = (array, array.ctypes.data)
        del array
        if len(entries) < _MOST_KEPT:
            entries.append(fresh)
        else:  # forget one that somebody holds
            entries[self._next % _MOST_KEPT] = fresh
            self._next += 1
        return fresh
