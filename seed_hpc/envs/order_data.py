# SPDX-License-Identifier: Apache-2.0
"""Reads recorded order streams in LOBSTER's CSV format into what the environment `order_book` replays.

Source: R. Huang, T. Polak, "LOBSTER: limit order book reconstruction system" (2011), https://lobsterdata.com. A message
file has no header and the columns time (seconds after midnight), type, order number, size, price (dollars times 10000)
and direction (1 buys, -1 sells; of an execution, that of the order that rested). Types: 1 new order, 2 part of an order
cancelled, 3 order deleted, 4 execution of a visible order, 5 of a hidden one, 6 cross trade, 7 halt. The orders that
rest before the first message are known from the first row of the orderbook file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seed_hpc.errors import UserError

ENVIRONMENT = "order_book"

# `OrderMessage` of cuda/envs/limit_order_book.h.
MESSAGE = np.dtype([("kind", "<i4"), ("order", "<i4"), ("size", "<i4"), ("price", "<i4"), ("side", "<i4")])

NEW, CANCEL, DELETE, EXECUTE = 1, 2, 3, 4
_EMPTY_LEVEL = 10**9  # LOBSTER writes +-9999999999 as the price of a level that does not exist


def read_messages(messages: str | Path, orderbook: str | Path | None = None, *, tick: int = 100) -> NDArray[Any]:
    """Reads a message file.

    Hidden executions, cross trades and halts change nothing that can be seen and are left out. Order numbers are
    replaced by 1, 2, and so on in the order of their appearance.

    Args:
        messages: LOBSTER's message file.
        orderbook: The orderbook file that belongs to it; its first row becomes new orders before the first message.
            None looks for the message file's name with "orderbook" in place of "message", and goes without.
        tick: Smallest difference of prices, in LOBSTER's units (100 = one cent).

    Returns:
        Messages of type `MESSAGE` (n,), prices in ticks.

    Raises:
        UserError: A file cannot be read, or a line is no message; the line is named.
    """
    messages = Path(messages)
    rows = _read_rows(messages, 6)
    if orderbook is None:
        guess = messages.with_name(messages.name.replace("message", "orderbook"))
        orderbook = guess if guess != messages and guess.is_file() else None
    kinds = rows[:, 1].astype(np.int64)
    unknown = np.flatnonzero((kinds < 1) | (kinds > 7))
    if len(unknown):
        raise UserError(f"{messages}, line {unknown[0] + 1}: the type is {kinds[unknown[0]]}, it must be 1 to 7")
    directions = rows[:, 5].astype(np.int64)
    visible = kinds <= EXECUTE
    bad = np.flatnonzero(visible & ((np.abs(directions) != 1) | (rows[:, 3] < 1) | (rows[:, 4] < 0)))
    if len(bad):
        raise UserError(f"{messages}, line {bad[0] + 1}: sizes are at least 1, prices at least 0, directions 1 or -1")
    kept = rows[visible]
    first, numbers = _resting_orders(Path(orderbook), tick) if orderbook is not None else (np.empty(0, MESSAGE), 0)
    stream = np.empty(len(kept), MESSAGE)
    stream["kind"] = kinds[visible]
    stream["order"] = _renumbered(kept[:, 2].astype(np.int64)) + numbers
    stream["size"] = kept[:, 3]
    stream["price"] = kept[:, 4].astype(np.int64) // tick
    stream["side"] = directions[visible]
    return np.concatenate((first, stream))


def _renumbered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns 1, 2, ... by first appearance."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(1, len(first) + 1)
    return np.asarray(rank[inverse], dtype=np.int64)


def _resting_orders(path: Path, tick: int) -> tuple[NDArray[Any], int]:
    """Returns the first row of an orderbook file as new orders, best first, and how many there are."""
    row = _read_rows(path, None, most=1)[0]
    if len(row) == 0 or len(row) % 4:
        raise UserError(f"{path} is no orderbook file: its rows must hold ask price, ask size, bid price, bid size")
    orders: list[tuple[int, int, int, int, int]] = []
    for ask_price, ask_size, bid_price, bid_size in row.reshape(-1, 4).astype(np.int64).tolist():
        for price, size, side in ((ask_price, ask_size, -1), (bid_price, bid_size, 1)):
            if size > 0 and abs(price) < _EMPTY_LEVEL:
                orders.append((NEW, len(orders) + 1, size, price // tick, side))
    return np.array(orders, MESSAGE), len(orders)


def _read_rows(path: Path, columns: int | None, most: int | None = None) -> NDArray[np.float64]:
    try:
        with path.open(encoding="utf-8") as file:
            rows = np.loadtxt(file, delimiter=",", ndmin=2, max_rows=most, usecols=range(columns) if columns else None)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no LOBSTER file: {str(error).splitlines()[0]}") from error
    if not len(rows):
        raise UserError(f"{path} is empty")
    return np.asarray(rows, dtype=np.float64)
