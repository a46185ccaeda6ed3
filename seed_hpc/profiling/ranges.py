# SPDX-License-Identifier: Apache-2.0
"""Names the phases of the training loop, for profilers and for the log.

    timer = ranges.PhaseTimer()
    ranges.start(timer)                      # marks as SEED_HPC_MARKS says: off (default), nvtx or torch
    while training:
        with ranges.phase("inference"):      # costs one dictionary look-up while nothing is on
            ...
        ranges.step()                        # once per iteration: moves the profiler's capture window
        log["phase_seconds"] = timer.take()  # once per log line

The marks reach Nsight Systems as NVTX ranges of the domain "seed-hpc" and torch.profiler as `record_function` blocks.
The process is one: `start` and `stop` switch all threads.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from seed_hpc.errors import MissingDependencyError, UserError, nearest

logger = logging.getLogger(__name__)

PHASES = (
    "environment",  # emulation and observation
    "inference",  # network and sampling of actions
    "actor",  # both of them as one CUDA graph
    "replay",  # append, sample, priorities
    "learner",  # loss, gradient, optimizer
    "exchange",  # collectives of gradients, decisions and metrics; those of gradients run beside the learner
)
DOMAIN = "seed-hpc"  # of the NVTX ranges
CAPTURE_RANGE = "capture"  # the NVTX range that `nsys profile --capture-range=nvtx` records
MARKS_VARIABLE = "SEED_HPC_MARKS"
WINDOW_VARIABLE = "SEED_HPC_CAPTURE"  # "FIRST:COUNT" iterations


# How one kind of mark enters a phase (returning a token) and leaves it.
_Mark = tuple[Callable[[], Any], Callable[[Any], Any]]


class _Off:
    """A context that does nothing; one object serves every phase and thread."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


_OFF = _Off()
_contexts: dict[str, AbstractContextManager[None]] = dict.fromkeys(PHASES, _OFF)
_steps: list[Callable[[], None]] = []


def phase(name: str) -> AbstractContextManager[None]:
    """Returns the context of a phase; contexts nest, and time counts for the innermost.

    Raises:
        ValueError: There is no such phase.
    """
    try:
        return _contexts[name]
    except KeyError:
        raise ValueError(f"no phase is called {name!r}{nearest(name, PHASES)}; known: {', '.join(PHASES)}") from None


def step() -> None:
    """Tells profilers that one iteration of the training loop is over; does nothing while none is on."""
    for callback in _steps:
        callback()


def start(timer: PhaseTimer | None = None, *, marks: str | None = None) -> None:
    """Switches the phases on.

    Args:
        timer: Adds up the time of each phase.
        marks: "off", "nvtx" or "torch"; None takes it from SEED_HPC_MARKS ("off" when unset).

    Raises:
        UserError: The marks are unknown, or SEED_HPC_CAPTURE is not FIRST:COUNT.
        MissingDependencyError: "nvtx" is asked for and neither nvtx nor a CUDA build of torch is installed.
    """
    stop()
    marks = marks or os.environ.get(MARKS_VARIABLE, "off")
    if marks not in ("off", "nvtx", "torch"):
        raise UserError(f"{MARKS_VARIABLE}={marks} is not known: use off, nvtx or torch")
    makers: list[Callable[[str], _Mark]] = []
    if marks == "nvtx":
        push, pop = _nvtx()
        makers.append(lambda name: ((lambda: push(name)), (lambda _: pop())))
        if window := os.environ.get(WINDOW_VARIABLE):
            _steps.append(CaptureWindow(*parse_window(window), push=lambda: push(CAPTURE_RANGE), pop=pop))
    elif marks == "torch":
        makers.append(_torch_marks)
    if timer is not None:
        makers.append(lambda name: ((lambda: timer.push(name)), (lambda _: timer.pop())))
    if makers:
        _contexts.update({name: _Phase([make(name) for make in makers]) for name in PHASES})


def stop() -> None:
    """Switches marks, timer and capture window off again."""
    _contexts.update(dict.fromkeys(PHASES, _OFF))
    _steps[:] = [callback for callback in _steps if not isinstance(callback, CaptureWindow)]


@contextlib.contextmanager
def on_step(callback: Callable[[], None]) -> Iterator[None]:
    """Calls `callback` at every `step` inside the block, whatever `start` and `stop` do."""
    _steps.append(callback)
    try:
        yield
    finally:
        _steps.remove(callback)


class _Phase:
    """Runs the marks of one phase; re-entrant, so one object serves all uses, also nested ones."""

    def __init__(self, marks: list[_Mark]) -> None:
        self._marks = marks
        self._open = threading.local()

    def __enter__(self) -> None:
        tokens = [enter() for enter, _ in self._marks]
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        self._open.stack.append(tokens)

    def __exit__(self, *exception: object) -> None:
        tokens = self._open.stack.pop()
        for (_, leave), token in zip(reversed(self._marks), reversed(tokens), strict=True):
            leave(token)


class PhaseTimer:
    """Adds up host time per phase, each thread on its own; time inside a nested phase counts for that one only.

    On a CUDA device the host only launches work: a phase's host time is then that of launching and waiting, and the
    device's time of a phase comes from a profile.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._local = threading.local()
        self._total_ns: dict[str, int] = {}
        self._taken_at_ns = clock()

    def push(self, name: str) -> None:
        """Begins a phase of the calling thread; the enclosing one pauses."""
        now = self._clock()
        stack = self._stack()
        if stack:
            self._add(stack[-1][0], now - stack[-1][1])
        stack.append([name, now])

    def pop(self) -> None:
        """Ends the calling thread's innermost phase; the enclosing one goes on."""
        now = self._clock()
        stack = self._stack()
        name, since = stack.pop()
        self._add(name, now - since)
        if stack:
            stack[-1][1] = now

    def take(self) -> dict[str, float]:
        """Returns the seconds per phase since the last call, and `other`: the rest of the elapsed time.

        Phases of several threads run at once, so their sum may exceed the elapsed time; `other` is then 0.
        """
        now = self._clock()
        stack = self._stack()
        if stack:  # the caller's own open phase up to now
            self._add(stack[-1][0], now - stack[-1][1])
            stack[-1][1] = now
        with self._lock:
            taken, self._total_ns = self._total_ns, {}
        elapsed_ns, self._taken_at_ns = now - self._taken_at_ns, now
        seconds = {name: total / 1e9 for name, total in taken.items()}
        seconds["other"] = max(0, elapsed_ns - sum(taken.values())) / 1e9
        return seconds

    def _stack(self) -> list[list[Any]]:
        try:
            return self._local.stack  # type: ignore[no-any-return]
        except AttributeError:
            self._local.stack = []
            return self._local.stack  # type: ignore[no-any-return]

    def _add(self, name: str, duration_ns: int) -> None:
        with self._lock:
            self._total_ns[name] = self._total_ns.get(name, 0) + duration_ns


class CaptureWindow:
    """Opens a range before iteration `first` (counted from 0) and closes it after `count` iterations.

    Called once at the end of every iteration. An iteration 0 is captured from the start of the process on.
    """

    def __init__(self, first: int, count: int, *, push: Callable[[], Any], pop: Callable[[], Any]) -> None:
        self._open_at, self._close_at = first, first + count
        self._push, self._pop = push, pop
        self._done = 0
        if first == 0:
            push()

    def __call__(self) -> None:
        """Counts one iteration."""
        self._done += 1
        if self._done == self._open_at:
            self._push()
        elif self._done == self._close_at:
            self._pop()


def parse_window(text: str) -> tuple[int, int]:
    """Returns (first, count) of "FIRST:COUNT".

    Raises:
        UserError: It is not of that form, or the count is 0.
    """
    first, _, count = text.partition(":")
    if not (first.isdigit() and count.isdigit() and int(count) > 0):
        raise UserError(f"a capture window {text!r} is not allowed: give FIRST:COUNT iterations, such as 20:40")
    return int(first), int(count)


def _nvtx() -> tuple[Callable[[str], None], Callable[[], None]]:
    """Returns functions that push and pop a range: of the package nvtx, else of torch."""
    try:
        import nvtx
    except ImportError:
        import torch

        if torch.version.cuda is None:
            raise MissingDependencyError("NVTX ranges need the package nvtx: pip install nvtx") from None
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    if "NVTX_INJECTION64_PATH" in os.environ and type(nvtx.get_domain(DOMAIN)).__name__ == "DummyDomain":
        # Newer nvtx asks the tool whether a domain is enabled; Nsight Systems 2023 does not know the question.
        logger.warning("this Nsight Systems does not see the ranges of this nvtx: pip install nvtx==0.2.11")
    return (lambda name: nvtx.push_range(name, domain=DOMAIN)), (lambda: nvtx.pop_range(domain=DOMAIN))


def _torch_marks(name: str) -> _Mark:
    import torch

    def enter() -> Any:
        block: Any = torch.autograd.profiler.record_function(name)
        block.__enter__()
        return block

    def leave(block: Any) -> None:
        block.__exit__(None, None, None)

    return enter, leave
