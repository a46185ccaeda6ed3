# SPDX-License-Identifier: Apache-2.0
"""Slow plain-Python statements of what the replay must do: timelines as a vector environment delivers them, and a
replay that keeps every step for ever and decides by definition what can be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np


class Timeline:
    """One environment with autoreset `NextStep`: steps of (stacked observation, first, last, action, reward, ...).

    Frames are random; an episode ends after a random number of transitions, by the game's rules or by truncation. The
    stack is kept the way the vector environments do it: zeros, then the newest frame at the end.
    """

    def __init__(self, rng: np.random.Generator, frame_shape: tuple[int, ...], stack_num: int, mean_length: float):
        self.rng, self.frame_shape, self.stack_num, self.mean_length = rng, frame_shape, stack_num, mean_length
        self.last = False
        self._begin()

    def _begin(self) -> None:
        self.stack = np.zeros((self.stack_num, *self.frame_shape), np.uint8)
        self.left = int(self.rng.geometric(1.0 / self.mean_length))
        self.first = True
        self._see()

    def restart(self) -> None:
        """The environment is made anew: an episode begins though none has ended."""
        self.last = False
        self._begin()

    def _see(self) -> None:
        self.stack = np.concatenate([self.stack[1:], self.rng.integers(1, 256, (1, *self.frame_shape), np.uint8)])

    def step(self) -> dict:
        """Returns the present entry and moves on."""
        rng = self.rng
        entry = {
            "obs": self.stack if self.stack_num > 1 else self.stack[0],
            "first": self.first,
            "last": self.last,
            "action": 0,
            "reward": 0.0,
            "terminated": False,
        }
        if self.last:  # the action is ignored, the next observation begins an episode
            self.last = False
            self._begin()
            return entry
        self.left -= 1
        self.first, self.last = False, self.left == 0
        entry |= {"action": int(rng.integers(-5, 100)), "reward": float(np.float32(rng.normal()))}
        entry["terminated"] = self.last and bool(rng.integers(2))
        self._see()
        return entry


@dataclass
class ReferenceReplay:
    """Keeps all steps of all lanes; everything else is computed from them by definition."""

    kind: str  # "transitions" or "sequences"
    num_lanes: int
    steps_per_lane: int
    stack_num: int
    period: int
    reach: int
    discount: float
    exponent: float
    epsilon: float
    lanes: list[list[dict]] = field(default_factory=list)
    priority: dict[tuple[int, int], float] = field(default_factory=dict)  # (lane, item number) -> priority
    max_priority: float = 0.0

    def __post_init__(self) -> None:
        self.lanes = [[] for _ in range(self.num_lanes)]

    @property
    def items_per_lane(self) -> int:
        return self.steps_per_lane // self.period

    def is_complete(self, item: int) -> bool:
        return item * self.period + self.reach < len(self.lanes[0])

    def is_whole(self, item: int) -> bool:
        """Nothing that the item may need has left the ring."""
        oldest = max(0, len(self.lanes[0]) - self.steps_per_lane)
        return oldest == 0 or item * self.period - max(self.stack_num - 1, 1) >= oldest

    def is_known(self, lane: int, item: int) -> bool:
        """The item's first observation can be rebuilt, though the recording may have begun inside of an episode."""
        start = item * self.period
        back = max(self.stack_num - 1, 1)
        return start >= back or any(step["first"] for step in self.lanes[lane][: start + 1])

    def is_void(self, lane: int, item: int) -> bool:
        return self.kind == "transitions" and self.lanes[lane][item * self.period]["last"]

    def is_broken(self, lane: int, item: int) -> bool:
        """An episode begins inside of the item though none has ended."""
        steps = self.lanes[lane][item * self.period : item * self.period + self.reach + 1]
        for before, after in pairwise(steps):
            if self.kind == "transitions" and before["last"]:
                return False
            if after["first"] and not before["last"]:
                return True
        return False

    def is_drawable(self, lane: int, item: int) -> bool:
        return not self.is_void(lane, item) and not self.is_broken(lane, item) and self.is_known(lane, item)

    def append(self, entries: list[list[dict]], priorities: list[list[float]] | None) -> None:
        """`entries[lane]` are T steps; `priorities[m][lane]` those of the items that become complete."""
        before = sum(1 for _ in iter(self._complete_items()))
        for lane, more in zip(self.lanes, entries, strict=True):
            lane.extend(more)
        fresh = list(self._complete_items())[before:]
        for lane in range(self.num_lanes):
            for row, item in enumerate(fresh):
                if not self.is_whole(item) or not self.is_drawable(lane, item):
                    continue
                if priorities is None:
                    self.priority[lane, item] = self.max_priority or 1.0
                else:
                    self.priority[lane, item] = priorities[row][lane]
                    self.max_priority = max(self.max_priority, priorities[row][lane])
        self.priority = {key: value for key, value in self.priority.items() if self.is_whole(key[1])}

    def _complete_items(self):
        item = 0
        while self.is_complete(item):
            yield item
            item += 1

    def index(self, lane: int, item: int) -> tuple[int, int]:
        """(index, generation) of an item."""
        return lane * self.items_per_lane + item % self.items_per_lane, item // self.items_per_lane

    def names(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(index, generation) -> (lane, item) of everything that can be drawn."""
        return {self.index(*key): key for key in self.priority}

    def leaves(self) -> np.ndarray:
        """What the tree's leaves must be, exactly."""
        values = np.zeros(self.num_lanes * self.items_per_lane)
        for key, priority in self.priority.items():
            values[self.index(*key)[0]] = (np.float64(np.float32(priority)) + self.epsilon) ** self.exponent
        return values

    def update(self, names: list[tuple[int, int]], priorities: list[float]) -> int:
        """Applies priorities to items that still exist; the largest of several counts."""
        known = self.names()
        best: dict[tuple[int, int], float] = {}
        for name, priority in zip(names, priorities, strict=True):
            if name in known:
                best[known[name]] = max(best.get(known[name], 0.0), priority)
        self.priority.update(best)
        self.max_priority = max([self.max_priority, *best.values()])
        return sum(name in known for name in names)

    def arrival(self, lane: int, step: int) -> tuple[int, float]:
        steps = self.lanes[lane]
        return (0, 0.0) if steps[step]["first"] else (steps[step - 1]["action"], steps[step - 1]["reward"])

    def transition(self, lane: int, item: int) -> dict:
        """(observation, action, n-step return, discount, observation to bootstrap from)."""
        steps, total, discount = self.lanes[lane], 0.0, 1.0
        at = item
        for _ in range(self.reach):
            total += discount * steps[at]["reward"]
            discount *= self.discount
            at += 1
            if steps[at]["last"]:
                break
        if steps[at - 1]["terminated"]:
            discount = 0.0
        return {"steps": [item, at], "action": steps[item]["action"], "reward": total, "discount": discount}
