# SPDX-License-Identifier: Apache-2.0
"""What both kinds of replay share: memory, appending, priorities, checkpoints.

Data flow: actor -> `append` (rollouts, time-major) -> ring -> `sample` -> learner -> `update` (new priorities).
The rules are in cuda/replay/; torch allocates every array and this module passes their addresses on. The ring is in the
host's memory: what is appended on another device is copied there, and batches are copied to it. One thread may append
while another one samples and updates (docs/replay.md).

Source of the priorities: Schaul et al., "Prioritized Experience Replay" (2016), https://arxiv.org/abs/1511.05952.
Shapes: T steps, B environments (lanes), N items of a batch, U observations of an item, V = U - 1, X an observation,
S numbers of a core's state.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seed_hpc import _native
from seed_hpc.errors import UserError
from seed_hpc.replay import native

ArrayLike = Tensor | NDArray[Any]

# Types of a batch's arrays; the other ones are float32.
_DTYPES = {
    **dict.fromkeys(("first", "last", "terminated"), torch.bool),
    **dict.fromkeys(("action", "previous_action", "index", "generation"), torch.int64),
}


@dataclass(frozen=True, kw_only=True)
class ReplayBatch:
    """What every drawn batch has; arrays are torch tensors.

    Attributes:
        obs_UNX: Observations (U, N, X); U is 2 for transitions and length + 1 for sequences.
        first_UN: bool, the observation begins an episode.
        previous_action_UN: int64, the action that led to the observation; 0 at first ones.
        previous_reward_UN: float32, the reward that came with it; 0 at first ones.
        weight_N: float32, importance weights (smallest probability of the batch / probability)^beta, at most 1.
        index_N: int64, where the items are; below `num_items`.
        generation_N: int64, tells an item from others that were or will be at its index; `update` wants both.
    """

    obs_UNX: Tensor
    first_UN: Tensor
    previous_action_UN: Tensor
    previous_reward_UN: Tensor
    weight_N: Tensor
    index_N: Tensor
    generation_N: Tensor

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """Returns all arrays by name as NumPy arrays; on a CPU they share memory with the tensors."""
        return {name: tensor.cpu().numpy() for name, tensor in self.tensors().items()}

    def tensors(self) -> dict[str, Tensor]:
        """Returns all tensors by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


B = TypeVar("B", bound=ReplayBatch)


class ReplayRing:
    """A ring of recorded steps with a sum tree over the items that can be drawn; see the subclasses."""

    def __init__(
        self,
        *,
        kind: int,
        num_envs: int,
        observation_shape: Sequence[int],
        capacity: int,
        stack_num: int,
        period: int,
        reach: int,
        state_size: int,
        discount: float,
        priority_exponent: float,
        importance_exponent: float,
        priority_epsilon: float,
        seed: int,
        dtype: torch.dtype,
        device: torch.device | str,
        num_threads: int,
    ) -> None:
        self.device = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0", as tensors call it
        self.num_envs, self.observation_shape, self.stack_num = num_envs, tuple(observation_shape), stack_num
        self.importance_exponent, self.dtype, self.num_threads = importance_exponent, dtype, num_threads
        if min(num_envs, capacity, period) < 1:
            raise UserError(f"num_envs={num_envs}, capacity={capacity} and period={period} must be at least 1")
        if stack_num > 1 and (not observation_shape or observation_shape[0] != stack_num):
            raise UserError(
                f"observations of shape {self.observation_shape} are no stacks of {stack_num} frames: give the stack "
                "as first dimension, or stack_num=1 to store observations whole"
            )
        if num_threads < 0:
            raise UserError(f"num_threads={num_threads} is not allowed: give 0 (as many as torch uses) or more")
        self.frame_shape = self.observation_shape[1:] if stack_num > 1 else self.observation_shape
        self.state_size = state_size
        # On "meta" only sizes are wanted.
        self._host = torch.device("meta" if self.device.type == "meta" else "cpu")
        self._is_staged = self.device.type == "cuda"
        self._staged: ReplayBatch | None = None  # where a batch is drawn before it goes to the device
        self._library = native.library()
        self._replay = native.Replay(
            kind=kind,
            stack_num=stack_num,
            period=period,
            reach=reach,
            num_lanes=num_envs,
            steps_per_lane=math.ceil(capacity / num_envs / period) * period,
            frame_bytes=math.prod(self.frame_shape) * dtype.itemsize,
            state_bytes=4 * state_size,
            discount=discount,
            priority_exponent=priority_exponent,
            priority_epsilon=priority_epsilon,
            seed=seed % 2**64,
        )
        self._sizes = native.Sizes()
        self._call("measure", ctypes.byref(self._sizes))
        self._arrays = self._allocate()
        self._checked_stacks = stack_num == 1

    # ---- Memory --------------------------------------------------------------------------------------------------

    def _allocate(self) -> dict[str, Tensor]:
        """Allocates the arrays; a CPU commits the pages of `empty` ones when they are first written."""
        arrays: dict[str, Tensor] = {}
        for name in native.ARRAYS:
            make = torch.zeros if name in ("tree", "counters") else torch.empty
            try:
                # Rounded up, so that an array of another type may lie over it.
                arrays[name] = make(math.ceil(getattr(self._sizes, name) / 8) * 8, dtype=torch.uint8, device=self._host)
            except RuntimeError as error:
                raise MemoryError(
                    f"the replay needs {self.memory_bytes / 2**30:.1f} GiB, which the host does not have: "
                    "lower its capacity"
                ) from error
            if self._host.type != "meta":
                setattr(self._replay, name, arrays[name].data_ptr())
        return arrays

    @property
    def capacity(self) -> int:
        """Steps that the ring holds, all lanes together: what was asked for, rounded up to whole lanes and periods."""
        return int(self._replay.num_lanes * self._replay.steps_per_lane)

    @property
    def num_items(self) -> int:
        """Every index is below this number."""
        return int(self._sizes.num_items)

    @property
    def memory_bytes(self) -> int:
        """Memory of all arrays."""
        return sum(getattr(self._sizes, name) for name in native.ARRAYS)

    @property
    def leaves(self) -> Tensor:
        """(priority + eps)^alpha of all items, float64 (num_items,), 0 where none can be drawn; only to read."""
        self._count()  # takes in what was appended since
        return self._arrays["tree"].view(torch.float64)[: self._sizes.num_leaves]

    @property
    def total(self) -> float:
        """Sum of all leaves, the root of the tree."""
        self._count()
        tree = self._arrays["tree"].view(torch.float64)
        length, root = int(self._sizes.num_leaves), 0
        while length > 1:  # levels lie behind each other, padded to whole nodes of 16
            length = math.ceil(length / 16)
            root += length * 16
        return float(tree[root])

    def __len__(self) -> int:
        """Items that can be drawn now. Belongs to the learner's thread, as `sample` does."""
        return self._count()[0]

    @property
    def num_steps(self) -> int:
        """Steps of each lane that were ever appended."""
        return self._count()[1]

    def _count(self) -> tuple[int, int]:
        drawable, steps = ctypes.c_int64(), ctypes.c_int64()
        self._call("count", ctypes.byref(drawable), ctypes.byref(steps), None)
        return drawable.value, steps.value

    # ---- Actor ---------------------------------------------------------------------------------------------------

    def num_completed(self, num_steps: int) -> tuple[int, int]:
        """Returns (M, K) of an append of `num_steps`: items of each lane that it completes, and that begin in it."""
        completed, begun = ctypes.c_int64(), ctypes.c_int64()
        self._call("num_completed", num_steps, ctypes.byref(completed), ctypes.byref(begun))
        return completed.value, begun.value

    def _append(
        self,
        obs_TBX: ArrayLike,
        action_TB: ArrayLike,
        reward_TB: ArrayLike,
        first_TB: ArrayLike,
        last_TB: ArrayLike,
        terminated_TB: ArrayLike,
        priority_MB: ArrayLike | None,
        state_KBS: ArrayLike | None,
    ) -> None:
        obs = _tensor(obs_TBX)
        if obs.ndim < 2:
            raise UserError(f"obs_TBX has shape {tuple(obs.shape)}: give (steps, environments, ...)")
        lead = (obs.shape[0], self.num_envs)
        if tuple(obs.shape) != (*lead, *self.observation_shape) or obs.dtype != self.dtype:
            raise UserError(
                f"obs_TBX is {obs.dtype} {tuple(obs.shape)}, the replay takes {self.dtype} "
                f"(steps, {self.num_envs}, {', '.join(map(str, self.observation_shape))})"
            )
        if obs.device != self.device:
            raise UserError(f"obs_TBX is on {obs.device}, the replay on {self.device}: append what is there")
        completed, begun = self.num_completed(lead[0])
        first = self._small("first_TB", first_TB, torch.bool, lead)
        if not self._checked_stacks:
            self._check_stacks(obs, first)
        frame = (obs[:, :, -1] if self.stack_num > 1 else obs).to(self._host)
        if not frame[0, 0].is_contiguous():
            frame = frame.contiguous()
        # Kept in variables: the call needs their memory.
        small = {
            "action": self._small("action_TB", action_TB, torch.int64, lead),
            "reward": self._small("reward_TB", reward_TB, torch.float32, lead),
            "first": first,
            "last": self._small("last_TB", last_TB, torch.bool, lead),
            "terminated": self._small("terminated_TB", terminated_TB, torch.bool, lead),
        }
        if priority_MB is not None:
            shape = (completed, self.num_envs)
            small["priority"] = self._small("priority_MB", priority_MB, torch.float32, shape)
        if state_KBS is not None and self.state_size:
            small["state"] = self._small("state_KBS", state_KBS, torch.float32, (begun, self.num_envs, self.state_size))
        steps = native.Steps(
            num_steps=lead[0],
            frames=frame.data_ptr(),
            frame_step_bytes=frame.stride(0) * frame.element_size(),
            frame_lane_bytes=frame.stride(1) * frame.element_size(),
            **{name: tensor.data_ptr() for name, tensor in small.items()},
        )
        self._call("append", ctypes.byref(steps), None)

    def _small(self, name: str, value: ArrayLike, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        """Returns `value` as a contiguous tensor of the host, copying only what is not one already."""
        tensor = _tensor(value)
        if tuple(tensor.shape) != shape:
            raise UserError(f"{name} has shape {tuple(tensor.shape)}, it must have {shape}")
        return tensor.detach().to(device=self._host, dtype=dtype).contiguous()

    def _check_stacks(self, obs_TBX: Tensor, first_TB: Tensor) -> None:
        """Refuses observations that are no stacks: the ring keeps only the newest frame of each."""
        if obs_TBX.shape[0] < 2:
            return
        shifted_B = (obs_TBX[1, :, :-1] == obs_TBX[0, :, 1:]).flatten(1).all(1).to(first_TB.device)
        if not bool((shifted_B | first_TB[1]).all()):
            raise UserError(
                f"observations of shape {self.observation_shape} do not move on by one frame a step: give stack_num=1 "
                "to store them whole"
            )
        self._checked_stacks = True

    # ---- Learner -------------------------------------------------------------------------------------------------

    def _draw(self, kind: type[B], batch_size: int, importance_exponent: float | None, out: B | None) -> B:
        """Draws a batch into `out`, or into new memory."""
        if out is None:
            out = self._new_batch(kind, batch_size, self.device)
        elif out.index_N.shape[0] != batch_size or out.obs_UNX.device != self.device:
            raise UserError(
                f"out is a batch of {out.index_N.shape[0]} on {out.obs_UNX.device}: give one of {batch_size}"
            )
        drawn: ReplayBatch = out
        if self._is_staged:
            if self._staged is None or self._staged.index_N.shape[0] != batch_size:
                self._staged = self._new_batch(kind, batch_size, self._host)
            drawn = self._staged
        batch = native.Batch(
            num_items=batch_size,
            importance_exponent=self.importance_exponent if importance_exponent is None else importance_exponent,
            num_threads=self.num_threads or torch.get_num_threads(),
            **{name.rpartition("_")[0]: tensor.data_ptr() for name, tensor in drawn.tensors().items()},
        )
        self._call("sample", ctypes.byref(batch), None)
        if drawn is not out:
            for name, tensor in out.tensors().items():
                tensor.copy_(getattr(drawn, name))  # done when it returns: the staged batch is used again
        return out

    def _new_batch(self, kind: type[B], batch_size: int, device: torch.device) -> B:
        """Allocates a batch; the suffix of a field's name tells its shape."""
        if batch_size < 1:
            raise UserError(f"batch_size={batch_size} is not allowed: give at least 1")
        num_observations = 2 if self._replay.kind == native.TRANSITIONS else self._replay.reach + 1
        shapes = {
            "UNX": (num_observations, batch_size, *self.observation_shape),
            "UN": (num_observations, batch_size),
            "VN": (num_observations - 1, batch_size),
            "NS": (batch_size, self.state_size),
            "N": (batch_size,),
        }
        pinned = device.type == "cpu" and self.device.type == "cuda"
        arrays = {}
        for name in (item.name for item in fields(kind)):
            noun, _, suffix = name.rpartition("_")
            dtype = self.dtype if noun == "obs" else _DTYPES.get(noun, torch.float32)
            arrays[name] = torch.empty(shapes[suffix], dtype=dtype, device=device, pin_memory=pinned)
        return kind(**arrays)

    def update(self, index_N: ArrayLike, generation_N: ArrayLike, priority_N: ArrayLike) -> int:
        """Gives items new priorities.

        Args:
            index_N: int64 (N,), from a batch. Several priorities for one item: the largest counts.
            generation_N: int64 (N,), from the same batch.
            priority_N: float32 (N,), finite and at least 0, for example absolute temporal-difference errors.

        Returns:
            How many were applied: items that the actor has overwritten since are passed over.

        Raises:
            UserError: Wrong shape, an index outside the replay or a priority that is not allowed; nothing is changed.
        """
        index = _tensor(index_N)
        shape = (index.numel(),)
        index = self._small("index_N", index, torch.int64, shape)
        generation = self._small("generation_N", generation_N, torch.int64, shape)
        priority = self._small("priority_N", priority_N, torch.float32, shape)
        applied = ctypes.c_int64()
        self._call(
            "update",
            shape[0],
            index.data_ptr(),
            generation.data_ptr(),
            priority.data_ptr(),
            ctypes.byref(applied),
            None,
        )
        return applied.value

    # ---- Checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that later draws depend on; of the frames only those that exist, one tensor per lane.

        The tensors share the replay's memory: save them at once, and append nothing meanwhile.
        """
        replay, rows = self._replay, min(self.num_steps, self._replay.steps_per_lane)
        frames = self._arrays["frames"].view(self.num_envs, replay.steps_per_lane, -1)
        small = {name: self._arrays[name] for name in ("steps", "state", "initial_priority")}
        return {
            "options": self._options(),
            "frames": [_own_storage(lane[:rows]) for lane in frames],
            "leaves": self.leaves.clone(),
            "counters": self._arrays["counters"].clone(),
            **small,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned; the next draws are the same.

        Raises:
            UserError: It is the state of a replay with other options.
        """
        options = self._options()
        for name, value in state["options"].items():
            if options.get(name) != value:
                raise UserError(
                    f"the checkpoint's replay has {name}={value}, this one {options.get(name)}: use the same options"
                )
        frames = self._arrays["frames"].view(self.num_envs, self._replay.steps_per_lane, -1)
        for lane, saved in zip(frames, state["frames"], strict=True):
            lane[: saved.shape[0]].copy_(saved)
        for name in ("steps", "state", "initial_priority", "counters"):
            self._arrays[name].copy_(state[name])
        self.leaves.copy_(state["leaves"])
        self._call("rebuild", None)

    def _options(self) -> dict[str, int | float]:
        """What must be equal for a state to fit; the importance exponent and threads may change."""
        return {
            item[0]: getattr(self._replay, item[0]) for item in native.Replay._fields_ if item[0] not in native.ARRAYS
        }

    # ---- Calls ---------------------------------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library; where it takes a stream, that is None on the host."""
        function = getattr(self._library, f"seed_replay_{name}")
        _native.check(self._library, function(ctypes.byref(self._replay), *arguments))


def _tensor(value: ArrayLike) -> Tensor:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _own_storage(tensor: Tensor) -> Tensor:
    """Returns a view whose storage ends where it does: torch.save writes whole storages."""
    return torch.from_numpy(tensor.numpy())
