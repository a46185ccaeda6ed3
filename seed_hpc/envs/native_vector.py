# SPDX-License-Identifier: Apache-2.0
"""The vector of environments written as a C++ struct: those of the library and those that users have built.

    actions -> pool of lanes (cuda/pool/environment_pool_cpu.cpp) -> observations in NumPy arrays or torch tensors

The interface is the one of `seed_hpc.AtariVectorEnv`; see docs/own_environment.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from seed_hpc import _native
from seed_hpc.envs import order_data
from seed_hpc.envs.buffers import BufferRing
from seed_hpc.envs.environment_table import EnvironmentInfo, find_environment
from seed_hpc.envs.lanes import (
    AUTORESET,
    Rows,
    address_of,
    check_lanes,
    converter,
    finish_rows,
    int32,
    lane_numbers,
    lane_seeds,
    pack_snapshots,
    parse_autoreset_mode,
    replace_lanes,
    reset_mask,
    target_address,
    unpack_snapshots,
)
from seed_hpc.errors import UserError, nearest

if TYPE_CHECKING:
    import torch

_STATE_MAGIC = b"SEEDNVE1"  # with the version of the format


class _PoolOptions(ctypes.Structure):
    """`seed_env_pool_options` of cuda/include/seed/environment.h."""

    _fields_ = (
        ("num_envs", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("autoreset", ctypes.c_int32),
        ("max_episode_steps", ctypes.c_int32),
        ("num_options", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("options", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("data_bytes", ctypes.c_int64),
    )


class EnvironmentRows(ctypes.Structure):
    """`seed_env_rows` of cuda/include/seed/environment.h."""

    _fields_ = (
        ("observations", ctypes.c_void_p),
        ("rewards", ctypes.c_void_p),
        ("terminations", ctypes.c_void_p),
        ("truncations", ctypes.c_void_p),
        ("final_observations", ctypes.c_void_p),
        ("episode_steps", ctypes.c_void_p),
        ("num_ended", ctypes.c_void_p),
    )


class NativeVectorEnv(VectorEnv[Any, Any, Any]):
    """Many copies of one environment, stepped together.

    A lane's episodes depend on the seed, the lane's number and its actions alone: not on the other lanes, the number
    of threads or the batch.

    Args:
        name: Name of the environment: of the library, built with `seed-hpc kernels build --env`, or a `.so` file.
        num_envs: Number of lanes.
        num_threads: Threads that step lanes, the calling one included; 0 = one a processor.
        max_episode_steps: Steps after which an episode is truncated; 0 = never, None = the environment's own.
        autoreset_mode: `NextStep`, `SameStep` or `Disabled` (gymnasium's AutoresetMode).
        output: "numpy" or "torch" (CPU tensors that share memory with the arrays).
        device: "cpu", or "cuda", "cuda:1": then tensors on that GPU come back (`CudaNativeVectorEnv`, docs/cuda.md).
        first_env_id: Number of lane 0: give rank r of a job r * num_envs.
        data: What the lanes share, read-only: an array, bytes, or a file; what it means is the environment's business.
        **options: Numbers that the environment lets you set; `seed-hpc env list` shows them.

    Raises:
        UserError: The environment, an option or an argument is unknown or out of range.
        MissingDependencyError: The native library, torch or CUDA are needed and missing.
    """

    reward_dtype: Any  # torch's float32, for the training loop

    def __new__(cls, *args: Any, device: str | torch.device = "cpu", **options: Any) -> NativeVectorEnv:
        """Makes a `CudaNativeVectorEnv` for other devices than the CPU."""
        del args, options
        if str(device) == "cpu" or cls is not NativeVectorEnv:
            return super().__new__(cls)
        if str(device).partition(":")[0] != "cuda":
            raise UserError(f"device is '{device}', it must be 'cpu', 'cuda' or 'cuda:N'")
        from seed_hpc.envs.cuda_native_vector import CudaNativeVectorEnv

        return super().__new__(CudaNativeVectorEnv)

    def __init__(
        self,
        name: str,
        num_envs: int,
        *,
        num_threads: int = 0,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        output: str = "numpy",
        device: str | torch.device = "cpu",
        first_env_id: int = 0,
        data: Any = None,
        **options: float,
    ) -> None:
        self._pool = ctypes.c_void_p()
        self._device_number = 0
        self._open(name, str(device), output)
        info = self.info
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.num_envs = int32("num_envs", num_envs)
        self.options = option_values(info, options)
        values = np.array(list(self.options.values()), dtype=np.float32)
        shared = _shared_data(info.name, data)
        limit = -1 if max_episode_steps is None else int32("max_episode_steps", max_episode_steps)
        if max_episode_steps is not None and limit < 0:
            raise UserError(f"max_episode_steps is {limit}, it must be at least 0 (never)")
        pool_options = _PoolOptions(
            num_envs=self.num_envs,
            num_threads=int32("num_threads", num_threads),
            autoreset=AUTORESET[self.autoreset_mode],
            max_episode_steps=limit,
            num_options=len(values),
            device=self._device_number,
            options=values.ctypes.data,
            data=shared.ctypes.data if len(shared) else None,
            data_bytes=len(shared),
        )
        table = ctypes.c_void_p(info.address)
        create = self._library.seed_env_pool_create
        self._check(create(table, ctypes.byref(pool_options), ctypes.byref(self._pool)))
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        self.continuous = isinstance(info.action_space, spaces.Box)
        self._first_env_id = int32("first_env_id", first_env_id)
        self._seeded = False
        self._has_final = self.autoreset_mode == AutoresetMode.SAME_STEP
        self.single_observation_space = info.observation_space
        self.single_action_space = info.action_space
        self.observation_space = batch_space(info.observation_space, self.num_envs)
        self.action_space = batch_space(info.action_space, self.num_envs)
        self._env_ids = np.arange(self.num_envs, dtype=np.int32)
        self._make_buffers()

    def _open(self, name: str, device: str, output: str) -> None:
        """Loads library and environment, and chooses what arrays are returned as."""
        del device  # "cpu": __new__ makes another class for others
        self._to_output = converter(output)
        self._library = _native.load("cpu")
        self.info = find_environment(name)
        if output == "torch":
            import torch

            self.reward_dtype = torch.float32

    def _make_buffers(self) -> None:
        lanes = self.num_envs
        shape, dtype = self.observation_space.shape or (), self.info.observation_space.dtype
        self._observations = BufferRing(shape, dtype, most_kept=6)
        self._final_observations = BufferRing(shape, dtype, most_kept=2)
        # Rows of a block: rewards, steps of the episodes, and bytes with terminations and truncations.
        self._blocks = BufferRing((3, lanes), np.float32, most_kept=256)
        self._num_ended = ctypes.c_int32()
        self._rows = EnvironmentRows(num_ended=ctypes.addressof(self._num_ended))
        self._rows_address = ctypes.addressof(self._rows)
        self._action_buffer: NDArray[Any] = (
            np.empty(self.action_space.shape or (), np.float32) if self.continuous else np.empty(lanes, np.int64)
        )
        self._actions_address = self._action_buffer.ctypes.data
        self._step = self._library.seed_env_pool_step
        self._step.argtypes = [ctypes.c_void_p] * 3

    # ---- gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | ArrayLike | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts episodes.

        Args:
            seed: An integer for all lanes being reset, which differ by their number; or an array with one seed for
                each of them, on which alone the lane then depends. None goes on with each lane's next episode; the
                first reset then takes a seed from the system.
            options: `reset_mask`, bool (num_envs,), chooses the lanes; the others report their present observation.

        Returns:
            Observations (num_envs, ...) and infos.

        Raises:
            UserError: A mask or seed is not usable.
        """
        mask = reset_mask((options or {}).get("reset_mask"), self.num_envs, seeded=self._seeded)
        seeds, env_ids = lane_seeds(seed, mask, self._first_env_id + self._env_ids, seeded=self._seeded)
        rows = self._take_rows(final=False)
        self._seeded = True  # also where an environment fails: the next step then says so again
        self._check(
            self._library.seed_env_pool_reset(
                self._pool,
                address_of(mask),
                address_of(seeds),
                address_of(env_ids),
                ctypes.c_void_p(self._rows_address),
            )
        )
        observations, _, _, _, infos = rows
        return self._to_output(observations), {key: self._to_output(value) for key, value in infos.items()}

    def step(self, actions: ArrayLike) -> Rows:
        """Steps all lanes.

        Args:
            actions: Integers (num_envs,), or floats (num_envs, n), which are clamped to [-1, 1].

        Returns:
            Observations (num_envs, ...), rewards float32, terminations bool and truncations bool (num_envs,), and
            infos: `env_id`, `episode_steps`, int32 (num_envs,), and with SameStep `final_obs` when an episode ended
            (rows of other lanes are undefined).

        Raises:
            UserError: An action is not usable, and no lane has moved; or an environment reported an error.
        """
        self._read_actions(actions)
        rows = self._take_rows(final=self._has_final)
        self._check(self._step(self._pool, self._actions_address, self._rows_address))
        return self._finish(rows)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and frees the memory."""
        del kwargs
        if self._pool:
            self._library.seed_env_pool_destroy(self._pool)
            self._pool = ctypes.c_void_p()

    def __del__(self) -> None:
        if getattr(self, "_pool", None):
            self.close()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raises: a copy would destroy the pool of the original."""
        raise TypeError("a vector of environments cannot be copied or pickled: use clone_state")

    # ---- Ours ----------------------------------------------------------------------------------------------------

    def step_into(
        self, actions: ArrayLike, observations: Any, rewards: Any, terminations: Any, truncations: Any
    ) -> None:
        """Steps and writes the results into memory of the caller, without a copy.

        Args:
            actions: As in `step`.
            observations: (num_envs, ...) of the space's type, contiguous; an array or a CPU tensor.
            rewards: float32 (num_envs,).
            terminations: bool (num_envs,).
            truncations: bool (num_envs,).

        Raises:
            UserError: As in `step`, or a target has another shape, type or layout.
        """
        self._read_actions(actions)
        lanes, space = (self.num_envs,), self.observation_space
        rows = EnvironmentRows(
            observations=target_address(observations, "observations", space.shape, space.dtype),
            rewards=target_address(rewards, "rewards", lanes, np.float32),
            terminations=target_address(terminations, "terminations", lanes, np.bool_),
            truncations=target_address(truncations, "truncations", lanes, np.bool_),
        )
        self._check(self._step(self._pool, self._actions_address, ctypes.addressof(rows)))

    def reference_actions(self) -> Any:
        """Returns what the environment's own reference policy would do now, as `step` takes it.

        Raises:
            UserError: It has none.
        """
        actions = np.empty_like(self._action_buffer)
        self._check(self._library.seed_env_pool_reference_actions(self._pool, address_of(actions)))
        return self._to_output(actions)

    def observe(self) -> Any:
        """Returns the present observations of all lanes, without moving any."""
        observations, address = self._observations.take()
        self._check(
            self._library.seed_env_pool_observe(self._pool, ctypes.byref(EnvironmentRows(observations=address)))
        )
        return self._to_output(observations)

    def clone_lanes(self, lanes: Sequence[int] | None = None) -> list[bytes]:
        """Returns exact snapshots: the environment's state and its random numbers.

        Args:
            lanes: Which lanes; None = all.
        """
        size = ctypes.c_int64()
        self._check(self._library.seed_env_pool_lane_size(self._pool, ctypes.byref(size)))
        buffer = np.empty(size.value, dtype=np.uint8)
        snapshots = []
        for lane in lane_numbers(lanes, self.num_envs):
            self._check(self._library.seed_env_pool_save_lane(self._pool, lane, address_of(buffer), size))
            snapshots.append(buffer.tobytes())
        return snapshots

    def restore_lanes(self, snapshots: Sequence[bytes], lanes: Sequence[int] | None = None) -> None:
        """Continues lanes from snapshots; the lanes' present episodes are dropped.

        Args:
            snapshots: From `clone_lanes` of the same environment, of this process or another.
            lanes: Where to put them; None = lanes 0, 1, and so on.

        Raises:
            UserError: A snapshot is damaged or of another environment; no lane has changed.
        """
        targets = check_lanes(snapshots, lanes)
        if not self._seeded:
            self.reset(seed=0)
            self._seeded = False  # snapshots replace all that this reset decided
        replace_lanes(snapshots, targets, self.clone_lanes, self._restore_lane)
        self._seeded = True

    def _restore_lane(self, lane: int, snapshot: bytes) -> None:
        restore = self._library.seed_env_pool_restore_lane
        self._check(restore(self._pool, lane, snapshot, ctypes.c_int64(len(snapshot))))

    def clone_state(self) -> bytes:
        """Returns the snapshots of all lanes in one piece."""
        return pack_snapshots(_STATE_MAGIC, self.clone_lanes())

    def restore_state(self, state: bytes) -> None:
        """Continues all lanes from what `clone_state` of an equal vector returned.

        Raises:
            UserError: The state is damaged or of another environment; no lane has changed.
        """
        self.restore_lanes(unpack_snapshots(_STATE_MAGIC, state, self.num_envs))

    def memory_bytes(self) -> tuple[int, int]:
        """Returns the bytes of a lane, and those that the lanes share (besides `data`)."""
        return self.info.lane_bytes, 0

    # ---- Rows and arguments --------------------------------------------------------------------------------------

    def _take_rows(self, *, final: bool) -> Rows:
        """Points the outputs at arrays that nobody holds and returns these."""
        rows, lanes = self._rows, self.num_envs
        observations, rows.observations = self._observations.take()
        block, address = self._blocks.take()
        rows.rewards = address
        rows.episode_steps = address + 4 * lanes
        rows.terminations = address + 8 * lanes
        rows.truncations = address + 9 * lanes
        rewards, steps, bytes_row = block
        flags = bytes_row.view(np.bool_)
        infos: dict[str, Any] = {"env_id": self._env_ids.copy(), "episode_steps": steps.view(np.int32)}
        rows.final_observations = None
        if final:
            infos["final_obs"], rows.final_observations = self._final_observations.take()
        return observations, rewards, flags[:lanes], flags[lanes : 2 * lanes], infos

    def _finish(self, rows: Rows) -> Rows:
        """Turns the rows of a step into what it returns."""
        return finish_rows(rows, self._num_ended.value, self._to_output)

    def _check(self, status: int) -> None:
        if status:
            if not self._pool and self.closed:
                raise UserError("the environment is closed: make a new one")
            _native.check(self._library, status)

    def _check_reset(self) -> None:
        """Raises unless all lanes have been reset, by the user or by snapshots."""
        if not self._seeded and not self.closed:
            raise UserError("the environments have not been reset: call reset first")

    def _read_actions(self, actions: ArrayLike) -> None:
        self._check_reset()
        given = np.asarray(actions)
        if given.shape != self._action_buffer.shape:
            raise UserError(f"actions have the shape {given.shape}, they must have {self._action_buffer.shape}")
        kinds, wanted = ("fiu", "numbers") if self.continuous else ("iu", "integers")
        if given.dtype.kind not in kinds:
            raise UserError(f"actions are of type {given.dtype}, they must be {wanted}")
        np.copyto(self._action_buffer, given, casting="same_kind")


def option_values(info: EnvironmentInfo, given: Mapping[str, Any]) -> dict[str, float]:
    """Returns the value of each option of an environment, the defaults included.

    Raises:
        UserError: An option is unknown or no number.
    """
    values = {option.name: option.value for option in info.options}
    for name, value in given.items():
        if name not in values:
            known = ", ".join(values) or "none"
            raise UserError(f"'{info.name}' has no option '{name}'{nearest(name, values)}; it has: {known}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise UserError(f"the option {name} of '{info.name}' is {value!r}, it must be a number")
        values[name] = float(value)
    return values


def _shared_data(name: str, data: Any) -> NDArray[np.uint8]:
    """Returns what lanes share as bytes; files of formats that an environment knows are read by their reader."""
    if data is None:
        return np.empty(0, np.uint8)
    if isinstance(data, str | Path):
        path = Path(data)
        if name == order_data.ENVIRONMENT and path.suffix == ".csv":
            data = order_data.read_messages(path)
        else:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise UserError(f"data={path} cannot be read ({error.strerror})") from error
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    try:
        return np.frombuffer(data, dtype=np.uint8)
    except TypeError as error:
        raise UserError(f"data must be an array, bytes or the name of a file, not {type(data).__name__}") from error
