# SPDX-License-Identifier: Apache-2.0
"""The vector of environments written as a C++ struct on a CUDA device: the same header, compiled into kernels.

    actions -> kernels on PyTorch's current stream (cuda/pool/environment_pool_cuda.cu) -> tensors on the device

As with `seed_hpc.envs.cuda_vector`, nothing is copied, `step` returns before the device has finished, and
`torch.cuda.graph` can capture `step_into`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from seed_hpc.envs.cuda_device import CudaDevice
from seed_hpc.envs.environment_table import find_on_device
from seed_hpc.envs.lanes import Rows, same
from seed_hpc.envs.native_vector import EnvironmentRows, NativeVectorEnv
from seed_hpc.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


class CudaNativeVectorEnv(NativeVectorEnv):
    """`NativeVectorEnv` whose lanes, observations and results are on a device.

    The arguments are those of `NativeVectorEnv`, and the results equal its results. What differs:

    - Observations, rewards, ends and infos are tensors on the device; `actions` may be one.
    - An action that does not exist or is not finite is played as 0, an ended lane with autoreset_mode="Disabled" begins
      its next episode; `synchronize` and `reset` raise for them, and for errors that an environment reported.
    - With `SameStep` the infos always hold `final_obs`; rows of lanes whose episode goes on are undefined.

    Raises:
        UserError: See `NativeVectorEnv`, or the device is not there.
        MissingDependencyError: No PyTorch, no device, no library for it, or your own environment is not built for it;
            the message says how to get it.
    """

    def _open(self, name: str, device: str, output: str) -> None:
        if output not in ("torch", "numpy"):
            raise UserError(f"output is '{output}', it must be 'torch' on a CUDA device")
        self._device = CudaDevice(device)
        import torch

        self._torch = torch
        self._device_number = self._device.number
        self._library = self._device.library
        self._to_output = same
        self.info = find_on_device(name, self._device)
        self.reward_dtype = torch.float32

    def _make_buffers(self) -> None:
        torch = self._torch
        self._rows = EnvironmentRows()
        self._rows_address = ctypes.addressof(self._rows)
        self._step = self._library.seed_env_pool_step
        self._step.argtypes = [ctypes.c_void_p] * 3
        self._observation_dtype = torch.uint8 if self.info.observation_space.dtype == "uint8" else torch.float32
        self._action_dtype = torch.float32 if self.continuous else torch.int64
        self._actions: Tensor | None = None
        self._env_numbers = torch.arange(self.num_envs, dtype=torch.int32, device=self._device.torch_device)

    # ---- gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | ArrayLike | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts episodes, waits for them and returns observations and infos, tensors on the device.

        Arguments and errors are those of `NativeVectorEnv.reset`; what went wrong in steps before is reported here too.
        """
        with self._device.use():
            self._use_stream()
            self.synchronize()
            return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> Rows:
        """Steps all lanes; returns as `NativeVectorEnv.step` does, tensors that the stream has not written yet."""
        with self._device.use():
            self._use_stream()
            return super().step(actions)

    # ---- Ours ----------------------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Waits until all steps of the current stream are done.

        Raises:
            UserError: Since the last call a step had an action that does not exist or is not finite, an ended lane was
                stepped, or an environment reported an error.
        """
        with self._device.use():
            self._use_stream()
            self._check(self._library.seed_env_pool_synchronize(self._pool))

    def step_into(self, actions: Any, observations: Any, rewards: Any, terminations: Any, truncations: Any) -> None:
        """Steps and writes the results into contiguous tensors of the device. Arguments as in `NativeVectorEnv`."""
        torch, lanes, target = self._torch, (self.num_envs,), self._device.target
        rows = EnvironmentRows(
            observations=target(observations, "observations", self.observation_space.shape, self._observation_dtype),
            rewards=target(rewards, "rewards", lanes, torch.float32),
            terminations=target(terminations, "terminations", lanes, torch.bool),
            truncations=target(truncations, "truncations", lanes, torch.bool),
        )
        with self._device.use():
            self._use_stream()
            self._read_actions(actions)
            self._check(self._step(self._pool, self._actions_address, ctypes.addressof(rows)))

    def reference_actions(self) -> Any:
        """Returns what the environment's own reference policy would do now, a tensor on the device."""
        with self._device.use():
            self._use_stream()
            actions = self._device.empty(self.action_space.shape or (), self._action_dtype)
            self._check(self._library.seed_env_pool_reference_actions(self._pool, ctypes.c_void_p(actions.data_ptr())))
        return actions

    def observe(self) -> Any:
        """Returns the present observations of all lanes, a tensor on the device, without moving any."""
        with self._device.use():
            self._use_stream()
            observations = self._device.empty(self.observation_space.shape or (), self._observation_dtype)
            rows = EnvironmentRows(observations=observations.data_ptr())
            self._check(self._library.seed_env_pool_observe(self._pool, ctypes.byref(rows)))
        return observations

    def clone_lanes(self, lanes: Sequence[int] | None = None) -> list[bytes]:
        """Returns exact snapshots of lanes, for `restore_lanes` of the same environment, also on a CPU."""
        with self._device.use():
            self._use_stream()
            return super().clone_lanes(lanes)

    def restore_lanes(self, snapshots: Sequence[bytes], lanes: Sequence[int] | None = None) -> None:
        """Continues lanes from snapshots that `clone_lanes` returned, also on a CPU."""
        with self._device.use():
            self._use_stream()
            super().restore_lanes(snapshots, lanes)

    # ---- Tensors -------------------------------------------------------------------------------------------------

    def _use_stream(self) -> None:
        self._check(self._library.seed_env_pool_set_stream(self._pool, ctypes.c_void_p(self._device.stream())))

    def _take_rows(self, *, final: bool) -> Rows:
        """Points the outputs at new tensors and returns these."""
        torch, rows, lanes = self._torch, self._rows, self.num_envs
        shape = self.observation_space.shape or ()
        observations = self._device.empty(shape, self._observation_dtype)
        rewards = self._device.empty((lanes,), torch.float32)
        terminations, truncations = self._device.empty((2, lanes), torch.bool).unbind()
        steps = self._device.empty((lanes,), torch.int32)
        rows.observations, rows.rewards = observations.data_ptr(), rewards.data_ptr()
        rows.terminations, rows.truncations = terminations.data_ptr(), truncations.data_ptr()
        rows.episode_steps = steps.data_ptr()
        rows.final_observations = None
        infos: dict[str, Any] = {"env_id": self._env_numbers.clone(), "episode_steps": steps}
        if final:
            infos["final_obs"] = self._device.empty(shape, self._observation_dtype)
            rows.final_observations = infos["final_obs"].data_ptr()
        return observations, rewards, terminations, truncations, infos

    def _finish(self, rows: Rows) -> Rows:
        return rows

    def _read_actions(self, actions: Any) -> None:
        """Puts the actions on the device; keeps them until the next step, which is behind this one on the stream."""
        self._check_reset()
        self._actions = self._device.actions(actions, self.action_space.shape, self._action_dtype)
        self._actions_address = self._actions.data_ptr()
