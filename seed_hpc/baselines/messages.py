# SPDX-License-Identifier: Apache-2.0
"""Messages over a TCP socket, and rollouts as messages; what is sent is counted.

A message is a length and a pickle of arrays (protocol 5). Both ends belong to one run on one machine.
"""

from __future__ import annotations

import pickle
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seed_hpc.agents.rollout import Rollout
from seed_hpc.models.network import Inputs

_LENGTH = struct.Struct("<Q")
_FIELDS = ("last_TB", "terminated_TB", "state_BS", "final_state_BS", "episode_return_TB", "episode_steps_TB")


class Channel:
    """One end of a connection.

    Attributes:
        bytes_sent: Since it was made; `bytes_received` likewise.
        seconds_waited: In `receive`.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self.bytes_sent = self.bytes_received = 0
        self.seconds_waited = 0.0

    def send(self, message: Any) -> int:
        """Sends a message and returns its size in bytes."""
        body = pickle.dumps(message, protocol=5)
        self._socket.sendall(_LENGTH.pack(len(body)) + body)
        self.bytes_sent += _LENGTH.size + len(body)
        return _LENGTH.size + len(body)

    def receive(self) -> Any:
        """Waits for a message.

        Raises:
            EOFError: The other end has gone.
        """
        began = time.perf_counter()
        length = _LENGTH.unpack(self._read(_LENGTH.size))[0]
        body = self._read(length)
        self.seconds_waited += time.perf_counter() - began
        self.bytes_received += _LENGTH.size + length
        return pickle.loads(body)

    def _read(self, count: int) -> bytearray:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            got = self._socket.recv_into(view)
            if got == 0:
                raise EOFError
            view = view[got:]
        return buffer

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


def pack(rollout: Rollout) -> dict[str, Any]:
    """Returns a rollout's tensors as arrays."""
    return {
        "inputs": [x.numpy() for x in rollout.inputs],
        "behaviour": {name: x.numpy() for name, x in rollout.behaviour.items()},
        "policy_version": rollout.policy_version,
        **{name: getattr(rollout, name).numpy() for name in _FIELDS},
    }


def unpack(packed: dict[str, Any]) -> Rollout:
    """Returns the rollout that `pack` was given."""
    return Rollout(
        inputs=Inputs(*(torch.from_numpy(x) for x in packed["inputs"])),
        behaviour={name: torch.from_numpy(x) for name, x in packed["behaviour"].items()},
        policy_version=packed["policy_version"],
        **{name: torch.from_numpy(packed[name]) for name in _FIELDS},
    )


def join(rollouts: Sequence[Rollout]) -> Rollout:
    """Returns one rollout of the environments of all; its policy version is the oldest."""

    def cat(name: str, dim: int) -> Tensor:
        return torch.cat([getattr(rollout, name) for rollout in rollouts], dim)

    first = rollouts[0]
    return Rollout(
        inputs=Inputs(*(torch.cat(parts, 1) for parts in zip(*(rollout.inputs for rollout in rollouts), strict=True))),
        behaviour={name: torch.cat([rollout.behaviour[name] for rollout in rollouts], 1) for name in first.behaviour},
        policy_version=min(rollout.policy_version for rollout in rollouts),
        **{name: cat(name, 0 if name.endswith("_BS") else 1) for name in _FIELDS},
    )
