# SPDX-License-Identifier: Apache-2.0
"""The vector of Atari environments on a CUDA device: emulation, preprocessing and stacking in kernels (cuda/pool).

    actions -> kernels on PyTorch's current stream -> tensors on the device

Nothing is copied: kernels write into tensors that PyTorch has allocated. `step` returns before the device has finished,
and makes no decision on the host, so that `torch.cuda.graph` can capture it (`step_into` then needs no allocation).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seed_hpc.envs.cuda_device import CudaDevice
from seed_hpc.envs.lanes import Rows, same
from seed_hpc.envs.vector import INFO_KEYS, AtariVectorEnv, PoolOutputs
from seed_hpc.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


class CudaAtariVectorEnv(AtariVectorEnv):
    """`AtariVectorEnv` whose lanes, observations and results are on a device.

    The arguments are those of `AtariVectorEnv`, and the results equal its results. What differs:

    - Observations, rewards, ends and infos are tensors on the device; `actions` may be one (int64, else converted).
    - An action that does not exist is played as NOOP; `synchronize` and `reset` raise for it.
    - With `SameStep` the infos always hold `final_obs`; rows of lanes whose episode goes on are undefined.
    - All lanes step together: batch_size is num_envs, and there is no `send` and `recv`.
    - Continuous actions are not offered.

    Raises:
        UserError: See `AtariVectorEnv`, or the device is not there.
        MissingDependencyError: No PyTorch, no device, or no library for it; the message says how to get it.
    """

    def _open(self, device: str, output: str) -> None:
        if output not in ("torch", "numpy"):
            raise UserError(f"output is '{output}', it must be 'torch' on a CUDA device")
        self._device = CudaDevice(device)
        self._device_number = self._device.number
        self._library = self._device.library
        self._to_output = same

    def _make_buffers(self) -> None:
        import torch

        if self.continuous:
            raise UserError("continuous actions are not offered on a CUDA device: use device='cpu'")
        self._torch = torch
        self._outputs_address = ctypes.addressof(self._outputs)
        self._step = self._library.seed_pool_step
        self._step.argtypes = [ctypes.c_void_p] * 4
        self._strengths_address = None
        self._actions: Tensor | None = None

    # ---- gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | ArrayLike | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts episodes, waits for them and returns observations and infos, tensors on the device.

        Arguments and errors are those of `AtariVectorEnv.reset`; an action that did not exist is reported here as well.
        """
        with self._device.use():
            self._use_stream()
            self.synchronize()
            return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Rows:
        """Steps all lanes; returns as `AtariVectorEnv.step` does, tensors that the stream has not written yet."""
        with self._device.use():
            self._use_stream()
            return super().step(actions)

    def send(self, actions: Any) -> None:
        """Raises: `step` returns before the device has finished."""
        raise UserError("a CUDA device has no send and recv: step returns before the device has finished")

    def recv(self) -> Rows:
        """Raises: `step` returns before the device has finished."""
        raise UserError("a CUDA device has no send and recv: step returns before the device has finished")

    # ---- Ours ----------------------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Waits until all steps of the current stream are done.

        Raises:
            UserError: A step since the last call had an action that does not exist, or stepped an ended lane.
        """
        with self._device.use():
            self._use_stream()
            self._check(self._library.seed_pool_synchronize(self._pool))

    def step_into(self, actions: Any, observations: Any, rewards: Any, terminations: Any, truncations: Any) -> None:
        """Steps and writes the results into contiguous tensors of the device. Arguments as in `AtariVectorEnv`."""
        torch, rows = self._torch, self.num_envs
        outputs = PoolOutputs(
            observations=self._device.target(observations, "observations", self.observation_space.shape, torch.uint8),
            rewards=self._device.target(rewards, "rewards", (rows,), torch.int32),
            terminations=self._device.target(terminations, "terminations", (rows,), torch.bool),
            truncations=self._device.target(truncations, "truncations", (rows,), torch.bool),
        )
        with self._device.use():
            self._use_stream()
            self._read_actions(actions)
            self._check(self._step(self._pool, self._actions_address, None, ctypes.addressof(outputs)))

    def clone_lanes(self, lanes: Any = None) -> list[bytes]:
        """Returns exact snapshots of lanes, for `restore_lanes` of any CUDA environment of the same game."""
        with self._device.use():
            self._use_stream()
            return super().clone_lanes(lanes)

    def restore_lanes(self, snapshots: Any, lanes: Any = None) -> None:
        """Continues lanes from snapshots that `clone_lanes` of a CUDA environment returned."""
        with self._device.use():
            self._use_stream()
            super().restore_lanes(snapshots, lanes)

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Returns the present observations and infos, tensors on the device, without moving any lane."""
        with self._device.use():
            self._use_stream()
            observations, _, _, _, infos = self._take_rows(final=False)
            self._check(self._library.seed_pool_observe(self._pool, ctypes.c_void_p(self._outputs_address)))
        return observations, infos

    def ram(self) -> NDArray[np.uint8]:
        """Returns the RAM of all lanes, uint8 (num_envs, 128), on the host."""
        with self._device.use():
            self._use_stream()
            ram = self._device.empty((self.num_envs, 128), self._torch.uint8)
            self._check(self._library.seed_pool_ram(self._pool, ctypes.c_void_p(ram.data_ptr())))
            host: NDArray[np.uint8] = ram.cpu().numpy()
        return host

    # ---- Tensors -------------------------------------------------------------------------------------------------

    def _use_stream(self) -> None:
        self._check(self._library.seed_pool_set_stream(self._pool, ctypes.c_void_p(self._device.stream())))

    def _take_rows(self, *, final: bool) -> Rows:
        """Points the outputs at new tensors and returns these."""
        torch, outputs, rows = self._torch, self._outputs, self.num_envs
        shape = (rows, *(self.single_observation_space.shape or ()))
        observations = self._device.empty(shape, torch.uint8)
        numbers = self._device.empty((5, rows), torch.int32)
        flags = self._device.empty((2, rows), torch.bool)
        rewards, *infos = numbers.unbind()
        terminations, truncations = flags.unbind()
        outputs.observations = observations.data_ptr()
        outputs.rewards = rewards.data_ptr()
        outputs.terminations, outputs.truncations = terminations.data_ptr(), truncations.data_ptr()
        outputs.env_ids, outputs.lives, outputs.frame_numbers, outputs.episode_frame_numbers = (
            info.data_ptr() for info in infos
        )
        outputs.final_observations = None
        named: dict[str, Any] = dict(zip(INFO_KEYS, infos, strict=True))
        if final:
            named["final_obs"] = self._device.empty(shape, torch.uint8)
            outputs.final_observations = named["final_obs"].data_ptr()
        return observations, rewards, terminations, truncations, named

    def _finish(self, rows: Rows) -> Rows:
        return rows

    def _read_actions(self, actions: Any) -> None:
        """Puts the actions on the device; keeps them until the next step, which is behind this one on the stream."""
        self._check_reset()
        self._actions = self._device.actions(actions, (self.num_envs,), self._torch.int64)
        self._actions_address = self._actions.data_ptr()
