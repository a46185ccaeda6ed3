# SPDX-License-Identifier: Apache-2.0
"""`order_book` in plain Python: a sorted list of orders, and a gymnasium environment around it.

It is slow and short on purpose: the oracle of the native book and environment in the tests, and the comparison of
`seed-hpc bench env`. The rules are those of cuda/envs/limit_order_book.h and cuda/envs/order_book.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

BUY, SELL = 1, -1
OWN = -1
NEW, CANCEL, DELETE, EXECUTE = 1, 2, 3, 4
CAPACITY = 384
START_PRICE, UNSOLD_PENALTY = 10000, 10


@dataclass
class Order:
    """A resting order; `arrival` counts the orders of the book."""

    number: int
    side: int
    size: int
    price: int
    arrival: int


@dataclass
class PlainOrderBook:
    """Matches by price, then time."""

    orders: list[Order] = field(default_factory=list)
    arrivals: int = 0

    def queue(self, side: int) -> list[Order]:
        """Returns the orders of a side in the order in which they will be hit."""
        return sorted((o for o in self.orders if o.side == side), key=lambda o: (-side * o.price, o.arrival))

    def take(self, side: int, size: int, limit: int | None) -> list[tuple[int, int, int]]:
        """Matches an order that does not rest; returns (number of the resting order, size, price) of each trade."""
        trades = []
        for order in self.queue(-side):
            if size == 0 or (limit is not None and side * (limit - order.price) < 0):
                break
            traded = min(size, order.size)
            trades.append((order.number, traded, order.price))
            size -= traded
            self._shrink(order, traded)
        return trades

    def add(self, number: int, side: int, size: int, price: int) -> list[tuple[int, int, int]]:
        """Matches a limit order; its rest rests."""
        trades = self.take(side, size, price)
        size -= sum(traded for _, traded, _ in trades)
        if size > 0 and len(self.orders) < CAPACITY:
            self.orders.append(Order(number, side, size, price, self.arrivals))
            self.arrivals += 1
        return trades

    def cancel(self, number: int, side: int, size: int | None) -> bool:
        """Takes from an order, all of it if `size` is None; returns whether it is known."""
        for order in self.queue(side):
            if order.number == number:
                self._shrink(order, order.size if size is None else min(size, order.size))
                return True
        return False

    def cancel_at(self, side: int, price: int, size: int) -> None:
        """Takes from the oldest orders at a price that are not the agent's."""
        for order in self.queue(side):
            if order.price == price and order.number != OWN and size > 0:
                taken = min(size, order.size)
                size -= taken
                self._shrink(order, taken)

    def apply(self, kind: int, number: int, size: int, price: int, side: int) -> list[tuple[int, int, int]]:
        """Applies a message of a stream; returns the trades."""
        if kind == NEW:
            return self.add(number, side, size, price)
        if kind == EXECUTE:
            return self.take(-side, size, price)
        if not self.cancel(number, side, None if kind == DELETE else size):
            self.cancel_at(side, price, size)
        return []

    def _shrink(self, order: Order, size: int) -> None:
        order.size -= size
        if order.size == 0:
            self.orders.remove(order)


class PlainOrderBookEnv(gymnasium.Env[NDArray[np.float32], Any]):
    """`order_book` as a gymnasium environment.

    Args:
        messages: Recorded messages (n,) of type `seed_hpc.envs.order_data.MESSAGE`; None generates them.
        parent: Lots to sell.
        clip: Lots of one order.
        horizon: Steps until the close.
        num_messages: Messages between two steps.
        persistence: Of the direction of generated market orders.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (18,), np.float32)
    action_space = spaces.Discrete(6)

    def __init__(
        self,
        messages: NDArray[Any] | None = None,
        *,
        parent: int = 60,
        clip: int = 2,
        horizon: int = 60,
        num_messages: int = 10,
        persistence: float = 0.98,
    ) -> None:
        self.messages, self.parent, self.clip, self.horizon = messages, parent, clip, horizon
        self.num_messages, self.persistence = num_messages, persistence
        self.book = PlainOrderBook()
        self.fills: list[tuple[int, int]] = []  # of this step: size and price
        self.working_price: int | None = None
        self.flow = self.seen_flow = 0.0
        self.last_price, self.mid2, self.last_mid2, self.arrival_mid2 = START_PRICE, 0, 0, 0

    # ---- The market --------------------------------------------------------------------------------------------------

    def _note(self, trades: list[tuple[int, int, int]], direction: int) -> None:
        for number, size, price in trades:
            if number == OWN:
                self.fills.append((size, price))
        if trades:
            value, size = sum(s * p for _, s, p in trades), sum(s for _, s, _ in trades)
            self.last_price = value // size
            self.seen_flow += 0.1 * (direction - self.seen_flow)

    def _best(self, side: int) -> Order | None:
        queue = self.book.queue(side)
        return queue[0] if queue else None

    def _generate(self) -> None:
        random = self.np_random
        drift = (1 - self.persistence) * 4 * random.uniform(-1, 1)
        self.flow = float(np.clip(self.persistence * self.flow + drift, -1, 1))
        drawn = random.uniform() * (0.7 + 0.005 * len(self.book.orders))
        if drawn < 0.55:
            side = BUY if random.integers(2) == 0 else SELL
            opposite = self._best(-side)
            origin = opposite.price if opposite else self.last_price
            size = int(random.integers(1, 6))
            depth = min(12, int(random.geometric(0.3)) - 1)
            self._note(self.book.add(self.next_number, side, size, origin - side * (1 + depth)), side)
            self.next_number += 1
        elif drawn < 0.7 or not self.book.orders:
            side = BUY if random.uniform() < 0.5 + 0.4 * self.flow else SELL
            self._note(self.book.take(side, int(random.integers(1, 7)), None), side)
        else:
            order = self.book.orders[int(random.integers(len(self.book.orders)))]
            if order.number != OWN:
                self.book.cancel(order.number, order.side, None)

    def _advance_market(self) -> None:
        for _ in range(self.num_messages):
            if self.messages is None:
                self._generate()
            else:
                self._replay()
        self._update_mid()

    def _replay(self) -> None:
        assert self.messages is not None
        kind, number, size, price, side = self.messages[self.next_message].tolist()
        self.next_message += 1
        self._note(self.book.apply(kind, number, size, price, side), -side if kind == EXECUTE else side)

    def _update_mid(self) -> None:
        bid, ask = self._best(BUY), self._best(SELL)
        self.last_mid2 = self.mid2
        if bid and ask:
            self.mid2 = bid.price + ask.price

    # ---- An episode  -----------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; recorded ones begin at the second message."""
        super().reset(seed=seed)
        self.book, self.fills = PlainOrderBook(), []
        self.time = self.sold = self.next_message = 0
        self.working_price = None
        self.next_number, self.flow, self.seen_flow = 1, 0.0, 0.0
        self.last_price, self.mid2 = START_PRICE, 2 * START_PRICE
        if self.messages is None:
            for distance in range(1, 11):
                for side in (BUY, SELL, BUY, SELL):
                    size = int(self.np_random.integers(1, 6))
                    self.book.add(self.next_number, side, size, START_PRICE - side * distance)
                    self.next_number += 1
            for _ in range(200):
                self._generate()
        else:
            self._replay()
        self._update_mid()
        self.last_mid2 = self.arrival_mid2 = self.mid2
        self.seen_flow = 0.0
        self.fills = []
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One decision of the agent, then the market's messages."""
        self.fills = []
        self._trade(action)
        self._advance_market()
        self.sold += sum(size for size, _ in self.fills)
        self.time += 1
        if self.fills and self._own_size() == 0:
            self.working_price = None
        if self.time >= self.horizon and self.sold < self.parent:
            self._sell_the_rest()
        gain = sum(size * (2 * price - self.arrival_mid2) for size, price in self.fills)
        closed = self.time >= self.horizon or self.sold >= self.parent
        return self._observe(), 0.5 * gain / self.parent, closed, False, {}

    def _own_size(self) -> int:
        return sum(order.size for order in self.book.orders if order.number == OWN)

    def _cancel_working(self) -> None:
        self.book.cancel(OWN, SELL, None)
        self.working_price = None

    def _sell_at_market(self, size: int) -> int:
        trades = self.book.take(SELL, size, None)
        self._note([(0, traded, price) for _, traded, price in trades], SELL)
        self.fills += [(traded, price) for _, traded, price in trades]
        return sum(traded for _, traded, _ in trades)

    def _trade(self, action: int) -> None:
        left = self.parent - self.sold
        if action == 1:
            self._cancel_working()
        if action in (2, 3):
            self._work(min(left, self.clip), action == 3)
        if action >= 4:
            wanted = self.clip if action == 4 else 2 * self.clip
            if wanted > left - self._own_size():
                self._cancel_working()
            self._sell_at_market(min(wanted, left))

    def _work(self, size: int, improve: bool) -> None:
        bid, ask = self._best(BUY), self._best(SELL)
        price = ask.price if ask else self.last_price + 1
        own_best = ask is not None and ask.number == OWN
        if improve and not own_best and (bid is None or bid.price < price - 1):
            price -= 1
        if self.working_price == price and self._own_size() > 0:
            return
        self._cancel_working()
        if bid and bid.price >= price:
            price = bid.price + 1
        self.book.add(OWN, SELL, size, price)
        self.working_price = price

    def _sell_the_rest(self) -> None:
        self._cancel_working()
        self.sold += self._sell_at_market(self.parent - self.sold)
        if unsold := self.parent - self.sold:
            self.fills.append((unsold, self.last_price - UNSOLD_PENALTY))
            self.sold += unsold

    def _observe(self) -> NDArray[np.float32]:
        bids, asks = self.book.queue(BUY), self.book.queue(SELL)
        best = [sum(o.size for o in queue if o.price == queue[0].price) for queue in (bids, asks)]
        near = [sum(o.size for o in queue if abs(o.price - queue[0].price) <= 3) for queue in (bids, asks)]
        two_sided = bool(bids and asks)
        own = self._own_size()
        ahead = next((i for i, order in enumerate(asks) if order.number == OWN), None)
        share_left, time_left = 1 - self.sold / self.parent, 1 - self.time / self.horizon
        return np.array(
            [
                share_left,
                time_left,
                4 * (share_left - time_left),
                min(asks[0].price - bids[0].price, 10) / 5 if two_sided else 2,
                np.clip(0.05 * (self.mid2 - self.arrival_mid2), -5, 5),
                np.clip(0.25 * (self.mid2 - self.last_mid2), -5, 5),
                (best[0] - best[1]) / max(sum(best), 1),
                (near[0] - near[1]) / max(sum(near), 1),
                *(min(0.1 * size, 5) for size in best),
                *(min(0.05 * size, 5) for size in near),
                self.seen_flow,
                own / max(self.clip, 1),
                np.clip(0.5 * ((self.working_price or 0) - asks[0].price), 0, 5) if own else -1,
                min(0.1 * sum(order.size for order in asks[:ahead]), 5) if own else -1,
                two_sided,
                0.1 * sum(size for size, _ in self.fills),
            ],
            np.float32,
        )
