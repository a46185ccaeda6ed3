# SPDX-License-Identifier: Apache-2.0
"""Results on their way to a device: right rows, right order of events, and a host that waits for nothing new."""

import contextlib

import numpy as np
import pytest
import torch

from seed_hpc.envs import host_transfer
from seed_hpc.envs.host_transfer import HostTransfer
from seed_hpc.errors import UserError

CPU = torch.device("cpu")


def test_rows_arrive_as_they_are_sent():
    source = np.arange(12, dtype=np.float32).reshape(4, 3)
    flags = np.array([True, False, True, False])
    transfer = HostTransfer({"observations": source, "terminations": flags}, CPU)
    targets = transfer.new_targets()
    assert [(x.shape, x.dtype) for x in targets.values()] == [((4, 3), torch.float32), ((4,), torch.bool)]
    targets["observations"].fill_(-1)
    transfer.begin(targets)
    transfer.send("observations", range(2, 3))
    assert targets["observations"][:, 0].tolist() == [-1, -1, 6, -1]
    transfer.send("observations", range(2))
    source[:] = 0  # what has been sent does not change any more
    transfer.send("terminations", range(4))
    transfer.finish()
    assert targets["observations"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [-1, -1, -1]]
    assert targets["terminations"].tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "target",
    [torch.empty(4, 2), torch.empty(4, 3).double(), torch.empty(3, 4).T, torch.empty(4, 3, device="meta"), None],
)
def test_targets_that_do_not_fit(target):
    transfer = HostTransfer({"observations": np.zeros((4, 3), np.float32)}, CPU)
    with pytest.raises(UserError, match=r"observations must be a contiguous torch.float32 tensor of shape \(4, 3\) on"):
        transfer.begin({"observations": target})


class LateDevice:
    """A device whose copies run as late as events allow: when the host asks for a mark, or at the end.

    `log` has what the streams were told, in order: main | side, and copy | record N | wait N.
    """

    def __init__(self, monkeypatch):
        self.current, self.pending, self.log, self.num_signals = "main", [], [], 0
        monkeypatch.setattr(host_transfer, "Stream", self.make_stream)
        monkeypatch.setattr(host_transfer, "Signal", self.make_signal)

    def make_stream(self, device):
        @contextlib.contextmanager
        def use():
            self.current = "side"
            yield
            self.current = "main"

        stream = type("LateStream", (), {})()
        stream.use = use
        return stream

    def make_signal(self, device):
        self.num_signals += 1
        return LateSignal(self, self.num_signals - 1)

    def tensor(self, values):
        return LateTensor(self, torch.as_tensor(values))

    def run(self, count):
        while len(self.pending) > count:
            self.pending.pop(0)()


class LateSignal:
    def __init__(self, device, number):
        self.late, self.number, self.mark = device, number, []

    def record(self):
        self.late.log.append((self.late.current, f"record {self.number}"))
        self.mark = list(self.late.pending)

    def wait(self):
        self.late.log.append((self.late.current, f"wait {self.number}"))

    def synchronize(self):
        while any(copy in self.late.pending for copy in self.mark):
            self.late.pending.pop(0)()


class LateTensor:
    """A tensor of the late device; `[rows].copy_` is put off."""

    def __init__(self, device, values):
        self.late, self.values = device, values
        self.device, self.shape, self.dtype = CPU, values.shape, values.dtype

    def is_contiguous(self):
        return True

    def __getitem__(self, rows):
        return LateTensor(self.late, self.values[rows])

    def copy_(self, source, non_blocking):
        assert non_blocking
        self.late.log.append((self.late.current, "copy"))
        self.late.pending.append(lambda: self.values.copy_(source))


def test_late_copies_bring_what_was_sent(monkeypatch):
    late = LateDevice(monkeypatch)
    source = np.zeros(2, np.float32)
    transfer = HostTransfer({"rewards": source}, CPU)
    targets = [late.tensor([-1.0, -1.0]) for _ in range(5)]
    for step, target in enumerate(targets):
        source[:] = step
        transfer.begin({"rewards": target})
        transfer.send("rewards", range(2))
        transfer.finish()
        # The host has waited for copies of two steps ago alone.
        assert [int(each.values[0]) for each in targets[: step + 1]] == [*range(step - 1), *[-1] * min(step + 1, 2)]
    late.run(0)
    assert [each.values.tolist() for each in targets] == [[step, step] for step in range(5)]


def test_events_order_the_copies(monkeypatch):
    late = LateDevice(monkeypatch)
    transfer = HostTransfer({"rewards": np.zeros(2, np.float32)}, CPU)
    transfer.begin({"rewards": late.tensor([0.0, 0.0])})
    transfer.send("rewards", range(1))
    transfer.send("rewards", range(1, 2))
    transfer.finish()
    kinds = [(stream, what.split()[0]) for stream, what in late.log]
    assert kinds == [
        ("main", "record"),
        ("side", "wait"),
        ("side", "copy"),
        ("side", "copy"),
        ("side", "record"),
        ("main", "wait"),
    ]
    numbers = [what.split()[1] for _, what in late.log if what != "copy"]
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3]
