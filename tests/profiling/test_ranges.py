# SPDX-License-Identifier: Apache-2.0
"""Phases of the training loop: free when off, times of nested phases, marks, the capture window."""

import threading

import nvtx
import pytest
import torch

from seed_hpc.errors import UserError
from seed_hpc.profiling import ranges


@pytest.fixture(autouse=True)
def off_afterwards(monkeypatch):
    monkeypatch.delenv(ranges.MARKS_VARIABLE, raising=False)
    monkeypatch.delenv(ranges.WINDOW_VARIABLE, raising=False)
    yield
    ranges.stop()


class Clock:
    """A clock that a test sets by hand, in nanoseconds."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def test_a_phase_is_one_shared_object_that_does_nothing_while_off():
    first, second = ranges.phase("inference"), ranges.phase("learner")
    assert first is second
    with first:
        pass
    ranges.start(ranges.PhaseTimer())
    assert ranges.phase("inference") is not first
    ranges.stop()
    assert ranges.phase("inference") is first


def test_unknown_phase_names_the_nearest():
    with pytest.raises(ValueError, match=r"did you mean 'inference'\?"):
        ranges.phase("inferense")


def test_timer_gives_nested_time_to_the_inner_phase_and_the_rest_to_other():
    clock = Clock()
    timer = ranges.PhaseTimer(clock)
    ranges.start(timer)
    clock.now = 1_000_000_000
    with ranges.phase("learner"):
        clock.now = 3_000_000_000
        with ranges.phase("exchange"):
            clock.now = 6_000_000_000
            with ranges.phase("exchange"):  # re-entrant
                clock.now = 7_000_000_000
        clock.now = 8_500_000_000
    clock.now = 10_000_000_000
    assert timer.take() == {"learner": 3.5, "exchange": 4.0, "other": 2.5}
    clock.now = 11_000_000_000
    assert timer.take() == {"other": 1.0}


def test_taking_inside_an_open_phase_splits_it():
    clock = Clock()
    timer = ranges.PhaseTimer(clock)
    ranges.start(timer)
    with ranges.phase("replay"):
        clock.now = 2_000_000_000
        assert timer.take() == {"replay": 2.0, "other": 0.0}
        clock.now = 5_000_000_000
    assert timer.take() == {"replay": 3.0, "other": 0.0}


def test_threads_have_phases_of_their_own():
    clock = Clock()
    timer = ranges.PhaseTimer(clock)
    ranges.start(timer)
    entered, leave = threading.Event(), threading.Event()

    def learn():
        with ranges.phase("learner"):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=learn)
    with ranges.phase("environment"):
        thread.start()
        entered.wait(10)
        clock.now = 4_000_000_000
        leave.set()
        thread.join()
    assert timer.take() == {"environment": 4.0, "learner": 4.0, "other": 0.0}


def test_a_phase_that_raises_is_closed():
    clock = Clock()
    timer = ranges.PhaseTimer(clock)
    ranges.start(timer)

    def fail():
        with ranges.phase("learner"):
            clock.now = 1_000_000_000
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    clock.now = 3_000_000_000
    assert timer.take() == {"learner": 1.0, "other": 2.0}


def test_torch_marks_are_seen_by_torch_profiler():
    ranges.start(marks="torch")
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
        ranges.phase("learner"),
        ranges.phase("exchange"),
    ):
        torch.ones(4).sum()
    names = {event.name for event in profiler.events()}
    assert {"learner", "exchange"} <= names


def test_nvtx_marks_push_and_pop_the_names_in_their_domain(monkeypatch):
    calls = []
    monkeypatch.setattr(nvtx, "push_range", lambda name, domain: calls.append(f"{domain}:{name}"))
    monkeypatch.setattr(nvtx, "pop_range", lambda domain: calls.append(f"{domain} pop"))
    monkeypatch.setenv(ranges.MARKS_VARIABLE, "nvtx")
    monkeypatch.setenv(ranges.WINDOW_VARIABLE, "1:2")
    ranges.start()
    for _ in range(4):
        with ranges.phase("environment"):
            pass
        ranges.step()
    one = ["seed-hpc:environment", "seed-hpc pop"]
    assert calls == [*one, "seed-hpc:capture", *one, *one, "seed-hpc pop", *one]


def test_an_nvtx_that_the_tool_does_not_see_is_pointed_out(monkeypatch, caplog):
    class DummyDomain:
        pass

    monkeypatch.setattr(nvtx, "get_domain", lambda name: DummyDomain(), raising=False)
    ranges.start(marks="nvtx")
    assert caplog.text == ""  # no tool is attached
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/nsys/libToolsInjection64.so")
    ranges.start(marks="nvtx")
    assert "pip install nvtx==0.2.11" in caplog.text


def test_the_real_nvtx_package_takes_the_marks():
    ranges.start(marks="nvtx")
    with ranges.phase("environment"), ranges.phase("inference"):
        pass


def test_a_window_from_iteration_zero_opens_at_once():
    calls = []
    window = ranges.CaptureWindow(0, 2, push=lambda: calls.append("push"), pop=lambda: calls.append("pop"))
    assert calls == ["push"]
    window()
    assert calls == ["push"]
    window()
    window()
    assert calls == ["push", "pop"]


@pytest.mark.parametrize("text", ["", "5", "5:", ":5", "5:0", "-1:4", "a:b", "1:2:3"])
def test_bad_windows_are_refused(text):
    with pytest.raises(UserError, match="FIRST:COUNT"):
        ranges.parse_window(text)


def test_bad_marks_are_refused(monkeypatch):
    monkeypatch.setenv(ranges.MARKS_VARIABLE, "loud")
    with pytest.raises(UserError, match="use off, nvtx or torch"):
        ranges.start()


def test_step_callbacks_outlive_start_and_stop():
    calls = []
    with ranges.on_step(lambda: calls.append(1)):
        ranges.start(ranges.PhaseTimer())
        ranges.step()
        ranges.stop()
        ranges.step()
    ranges.step()
    assert calls == [1, 1]
