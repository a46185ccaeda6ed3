# SPDX-License-Identifier: Apache-2.0
"""The vector of Atari environments: emulation, preprocessing and stacking in native threads.

    actions -> pool of lanes (cuda/pool) -> observations written straight into NumPy arrays or torch tensors

`AtariVectorEnv` has the arguments, defaults, spaces, infos and results of `ale_py.vector_env.AtariVectorEnv`, bit for
bit. `make_vec` makes one with our own counter-based random numbers. See docs/environments.md.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from seed_hpc import _native
from seed_hpc.envs import translation
from seed_hpc.envs.buffers import BufferRing
from seed_hpc.envs.continuous import discrete_actions
from seed_hpc.envs.games import find_game
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
from seed_hpc.envs.roms import read_rom
from seed_hpc.envs.spaces import continuous_action_space, observation_space
from seed_hpc.errors import UserError

if TYPE_CHECKING:
    import torch

    from seed_hpc.envs.external import ExternalVectorEnv
    from seed_hpc.envs.native_vector import NativeVectorEnv

_RNG = {"ale": 0, "counter": 1}
INFO_KEYS = ("env_id", "lives", "frame_number", "episode_frame_number")
_STATE_MAGIC = b"SEEDVEC1"  # with the version of the format
_RESET_OPTIONS = ("reset_mask", "mode", "difficulty")


class PoolOptions(ctypes.Structure):
    """`seed_pool_options` of cuda/include/seed/pool.h."""

    _fields_ = (
        ("num_envs", ctypes.c_int32),
        ("batch_size", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("thread_affinity_offset", ctypes.c_int32),
        ("max_num_frames_per_episode", ctypes.c_int32),
        ("repeat_action_probability", ctypes.c_float),
        ("full_action_space", ctypes.c_int32),
        ("autoreset", ctypes.c_int32),
        ("img_height", ctypes.c_int32),
        ("img_width", ctypes.c_int32),
        ("grayscale", ctypes.c_int32),
        ("stack_num", ctypes.c_int32),
        ("frameskip", ctypes.c_int32),
        ("maxpool", ctypes.c_int32),
        ("noop_max", ctypes.c_int32),
        ("episodic_life", ctypes.c_int32),
        ("life_loss_info", ctypes.c_int32),
        ("reward_clipping", ctypes.c_int32),
        ("use_fire_reset", ctypes.c_int32),
        ("rng", ctypes.c_int32),
        ("first_env_id", ctypes.c_int32),
        ("use_simd", ctypes.c_int32),
        ("keep_pictures", ctypes.c_int32),
        ("device", ctypes.c_int32),
    )


class PoolOutputs(ctypes.Structure):
    """`seed_pool_outputs` of cuda/include/seed/pool.h."""

    _fields_ = (
        ("observations", ctypes.c_void_p),
        ("rewards", ctypes.c_void_p),
        ("terminations", ctypes.c_void_p),
        ("truncations", ctypes.c_void_p),
        ("env_ids", ctypes.c_void_p),
        ("lives", ctypes.c_void_p),
        ("frame_numbers", ctypes.c_void_p),
        ("episode_frame_numbers", ctypes.c_void_p),
        ("final_observations", ctypes.c_void_p),
        ("num_ended", ctypes.c_void_p),
    )


class AtariVectorEnv(VectorEnv[Any, Any, Any]):
    """Many copies of one Atari game, stepped together.

    Drop-in for `ale_py.vector_env.AtariVectorEnv`: the first group of arguments is its own, with its defaults, and the
    same seeds and actions give the same results. The second group is ours.

    Args:
        game: Name of the game, "ms_pacman".
        num_envs: Number of lanes.
        batch_size: Lanes that `recv` and `step` return; 0 = all. With fewer than all, the others run meanwhile, and
            the lanes come back in the order in which they were sent, whatever the threads do.
        num_threads: Threads that step lanes, the calling one included; 0 = one a processor.
        thread_affinity_offset: Processor of the first worker thread; -1 leaves threads unbound.
        max_num_frames_per_episode: Frames of steps after which an episode is truncated; 0 = never (ale-py truncates
            every step then).
        repeat_action_probability: Chance, at each frame, that the previous action is kept ("sticky actions").
        full_action_space: All actions instead of those that do something in this game.
        continuous: Actions are (radius, angle, fire) of a stick.
        continuous_action_threshold: How far the stick must leave the centre to count.
        autoreset_mode: `NextStep`, `SameStep` or `Disabled` (gymnasium's AutoresetMode).
        img_height: Rows of an observation.
        img_width: Columns of an observation.
        grayscale: One channel instead of red, green and blue.
        stack_num: Pictures in an observation, oldest first.
        frameskip: Emulated frames a step.
        maxpool: An observation shows the maximum of the last two frames of a step instead of the last one.
        noop_max: An episode starts with 0 to noop_max - 1 NOOP frames.
        episodic_life: A lost life ends the episode.
        life_loss_info: A lost life is reported as a termination, and the episode goes on.
        reward_clipping: Rewards become -1, 0 or 1.
        use_fire_reset: An episode starts with FIRE where the game has it.
        rng: "ale" draws random numbers as ale-py does. "counter" derives every draw from (seed, lane, episode, number
            of the draw), so that a lane's episodes depend on nothing else.
        mode: Mode of the game, one number or one a lane.
        difficulty: Setting of the difficulty switches, one number or one a lane.
        output: "numpy" or "torch" (CPU tensors that share memory with the arrays).
        device: "cpu", or "cuda", "cuda:1": then tensors on that GPU come back (`CudaAtariVectorEnv`, docs/cuda.md).
        rom_folder: Folder of <game>.bin files; None takes SEED_HPC_ROMS, then the ale-py package.
        first_env_id: Number of lane 0 for rng="counter": give rank r of a job r * num_envs.
        use_simd: False takes plain loops; the results are the same.
        keep_pictures: True draws and keeps every picture; the results are the same. A check of the usual way.

    Raises:
        UserError: An argument is out of range, or the game or its ROM image is unknown.
        MissingDependencyError: The native library, ale-py's ROM images, torch or CUDA are needed and missing.
    """

    def __new__(cls, *args: Any, device: str | torch.device = "cpu", **options: Any) -> AtariVectorEnv:
        """Makes a `CudaAtariVectorEnv` for other devices than the CPU."""
        del args, options
        if str(device) == "cpu" or cls is not AtariVectorEnv:
            return super().__new__(cls)
        if str(device).partition(":")[0] != "cuda":
            raise UserError(f"device is '{device}', it must be 'cpu', 'cuda' or 'cuda:N'")
        from seed_hpc.envs.cuda_vector import CudaAtariVectorEnv

        return super().__new__(CudaAtariVectorEnv)

    def __init__(
        self,
        game: str,
        num_envs: int,
        *,
        batch_size: int = 0,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        max_num_frames_per_episode: int = 108000,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        img_height: int = 84,
        img_width: int = 84,
        grayscale: bool = True,
        stack_num: int = 4,
        frameskip: int = 4,
        maxpool: bool = True,
        noop_max: int = 30,
        episodic_life: bool = False,
        life_loss_info: bool = False,
        reward_clipping: bool = True,
        use_fire_reset: bool = True,
        rng: str = "ale",
        mode: ArrayLike | None = None,
        difficulty: ArrayLike | None = None,
        output: str = "numpy",
        device: str | torch.device = "cpu",
        rom_folder: str | os.PathLike[str] | None = None,
        first_env_id: int = 0,
        use_simd: bool = True,
        keep_pictures: bool = False,
    ) -> None:
        self._pool = ctypes.c_void_p()
        self._outputs = PoolOutputs()
        self._device_number = 0
        self._open(str(device), output)
        info = find_game(game)
        image = read_rom(info, rom_folder)
        if rng not in _RNG:
            raise UserError(f"rng is '{rng}', it must be 'ale' or 'counter'")
        if not 0.0 <= continuous_action_threshold <= 1.0:
            raise UserError(f"continuous_action_threshold is {continuous_action_threshold}, it must be 0 to 1")
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        if max_num_frames_per_episode < 0:
            raise UserError(f"max_num_frames_per_episode is {max_num_frames_per_episode}, it must be at least 0")
        options = PoolOptions(
            num_envs=int32("num_envs", num_envs),
            batch_size=int32("batch_size", batch_size),
            num_threads=int32("num_threads", num_threads),
            thread_affinity_offset=int32("thread_affinity_offset", thread_affinity_offset),
            max_num_frames_per_episode=int32("max_num_frames_per_episode", max_num_frames_per_episode),
            repeat_action_probability=repeat_action_probability,
            full_action_space=bool(full_action_space),
            autoreset=AUTORESET[self.autoreset_mode],
            img_height=int32("img_height", img_height),
            img_width=int32("img_width", img_width),
            grayscale=bool(grayscale),
            stack_num=int32("stack_num", stack_num),
            frameskip=int32("frameskip", frameskip),
            maxpool=bool(maxpool),
            noop_max=int32("noop_max", noop_max),
            episodic_life=bool(episodic_life),
            life_loss_info=bool(life_loss_info),
            reward_clipping=bool(reward_clipping),
            use_fire_reset=bool(use_fire_reset),
            rng=_RNG[rng],
            first_env_id=int32("first_env_id", first_env_id),
            use_simd=bool(use_simd),
            keep_pictures=bool(keep_pictures),
            device=self._device_number,
        )
        if self.autoreset_mode == AutoresetMode.DISABLED and 0 < options.batch_size < options.num_envs:
            raise UserError("autoreset_mode='Disabled' needs batch_size=num_envs: ended lanes are reset by a mask")
        self.num_envs = num_envs
        modes = self._per_lane("mode", mode)
        difficulties = self._per_lane("difficulty", difficulty)
        if str(device) == "cpu":
            translation.attach(info, image)
        self._check(
            self._library.seed_pool_create(
                info.index,
                image,
                ctypes.c_int64(len(image)),
                ctypes.byref(options),
                address_of(modes),
                address_of(difficulties),
                ctypes.byref(self._pool),
            )
        )
        self.game = info.name
        self.batch_size = batch_size or num_envs
        self.continuous = continuous
        self.continuous_action_threshold = continuous_action_threshold
        self.grayscale = grayscale
        self.rng = rng
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        self._first_env_id = first_env_id
        self._seeded = False
        self._has_final = self.autoreset_mode == AutoresetMode.SAME_STEP

        self.single_observation_space = observation_space(stack_num, img_height, img_width, grayscale)
        self.single_action_space = continuous_action_space() if continuous else spaces.Discrete(self._num_actions())
        self.observation_space = batch_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)
        self._make_buffers()

    def _open(self, device: str, output: str) -> None:
        """Loads the library and chooses what arrays are returned as."""
        del device  # "cpu": __new__ makes another class for others
        self._library = _native.load("cpu")
        self._to_output = converter(output)

    def _make_buffers(self) -> None:
        rows = self.batch_size
        shape = self.single_observation_space.shape or ()
        self._observations = BufferRing((rows, *shape), np.uint8, most_kept=6)
        self._final_observations = BufferRing((rows, *shape), np.uint8, most_kept=2)
        # Rows of a block: rewards, the four infos, and a row of bytes with terminations and truncations.
        self._blocks = BufferRing((6, rows), np.int32, most_kept=256)
        self._num_ended = ctypes.c_int32()
        self._outputs.num_ended = ctypes.addressof(self._num_ended)
        self._outputs_address = ctypes.addressof(self._outputs)
        # Where the library reads actions: their address is found once.
        self._action_buffer = np.empty(rows, dtype=np.int64)
        self._strength_buffer = np.empty(rows, dtype=np.float32)
        self._actions_address = self._action_buffer.ctypes.data
        self._strengths_address = self._strength_buffer.ctypes.data if self.continuous else None
        self._step = self._library.seed_pool_step
        self._step.argtypes = [ctypes.c_void_p] * 4

    # ---- gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | ArrayLike | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts episodes.

        Args:
            seed: An integer restarts the random numbers of the lanes being reset: with rng="ale" they get seed,
                seed + 1 and so on, as in ale-py; with rng="counter" all get it and differ by their number. An array
                holds one seed for each lane being reset, on which alone the lane then depends. None goes on drawing;
                the first reset then takes seeds from the system.
            options: `reset_mask`, bool (num_envs,), chooses the lanes; the others report their present observation.
                `mode` and `difficulty`, one number or one a lane, hold for the chosen lanes from now on.

        Returns:
            Observations uint8 (batch_size, stack_num, height, width[, 3]) and infos.

        Raises:
            UserError: A mask, seed, mode or difficulty is not usable.
        """
        options = dict(options or {})
        for key in options:
            if key not in _RESET_OPTIONS:
                warnings.warn(f"reset ignores the option '{key}'; it knows {', '.join(_RESET_OPTIONS)}", stacklevel=2)
        mask = self._reset_mask(options.get("reset_mask"))
        numbers = self._first_env_id + np.arange(self.num_envs, dtype=np.int32)
        consecutive = self.rng == "ale"
        seeds, env_ids = lane_seeds(seed, mask, numbers, seeded=self._seeded, consecutive=consecutive)
        if "mode" in options or "difficulty" in options:
            self._set_modes(mask, options.get("mode"), options.get("difficulty"))
        rows = self._take_rows(final=False)
        self._check(
            self._library.seed_pool_reset(
                self._pool,
                address_of(mask),
                address_of(seeds),
                address_of(env_ids),
                ctypes.c_void_p(self._outputs_address),
            )
        )
        self._seeded = True
        observations, _, _, _, infos = rows
        return self._to_output(observations), {key: self._to_output(value) for key, value in infos.items()}

    def step(self, actions: ArrayLike) -> Rows:
        """Steps the lanes of the last batch.

        Args:
            actions: Integers (batch_size,) from the action space, or floats (batch_size, 3) if continuous.

        Returns:
            Observations uint8 (batch_size, stack_num, height, width[, 3]), rewards int32, terminations bool and
            truncations bool (batch_size,), and infos: env_id, lives, frame_number, episode_frame_number, all int32
            (batch_size,), and with SameStep `final_obs` when an episode ended (rows of other lanes are undefined).

        Raises:
            UserError: An action is outside the space; no lane has moved.
        """
        self._read_actions(actions)
        rows = self._take_rows(final=self._has_final)
        status = self._step(self._pool, self._actions_address, self._strengths_address, self._outputs_address)
        if status:
            self._check(status)
        return self._finish(rows)

    def send(self, actions: ArrayLike) -> None:
        """Starts a step and returns at once; `recv` brings the results. Arguments as in `step`."""
        self._read_actions(actions)
        addresses = (self._actions_address, self._strengths_address)
        self._check(self._library.seed_pool_send(self._pool, *map(ctypes.c_void_p, addresses)))

    def recv(self) -> Rows:
        """Waits for the `batch_size` lanes that were sent first. Returns as `step` does."""
        rows = self._take_rows(final=self._has_final)
        self._check(self._library.seed_pool_recv(self._pool, ctypes.c_void_p(self._outputs_address)))
        return self._finish(rows)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and frees the memory."""
        del kwargs
        if self._pool:
            self._library.seed_pool_destroy(self._pool)
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
            observations: uint8 (batch_size, stack_num, height, width[, 3]), contiguous; an array or a CPU tensor.
            rewards: int32 (batch_size,).
            terminations: bool (batch_size,).
            truncations: bool (batch_size,).

        Raises:
            UserError: An action is outside the space, or a target has another shape, type or layout.
        """
        self._read_actions(actions)
        outputs = PoolOutputs(
            observations=target_address(observations, "observations", self.observation_space.shape, np.uint8),
            rewards=target_address(rewards, "rewards", (self.batch_size,), np.int32),
            terminations=target_address(terminations, "terminations", (self.batch_size,), np.bool_),
            truncations=target_address(truncations, "truncations", (self.batch_size,), np.bool_),
        )
        address = ctypes.addressof(outputs)
        self._check(self._step(self._pool, self._actions_address, self._strengths_address, address))

    def clone_lanes(self, lanes: Sequence[int] | None = None) -> list[bytes]:
        """Returns exact snapshots: machine, random numbers, pictures and stack.

        Args:
            lanes: Which lanes; None = all.

        Returns:
            One snapshot a lane, in a versioned format that other processes can restore.
        """
        capacity, size = ctypes.c_int64(), ctypes.c_int64()
        self._check(self._library.seed_pool_lane_capacity(self._pool, ctypes.byref(capacity)))
        buffer = np.empty(capacity.value, dtype=np.uint8)
        snapshots = []
        for lane in lane_numbers(lanes, self.num_envs):
            self._check(
                self._library.seed_pool_save_lane(self._pool, lane, address_of(buffer), capacity, ctypes.byref(size))
            )
            snapshots.append(buffer[: size.value].tobytes())
        return snapshots

    def restore_lanes(self, snapshots: Sequence[bytes], lanes: Sequence[int] | None = None) -> None:
        """Continues lanes from snapshots; the lanes' present episodes are dropped.

        Args:
            snapshots: From `clone_lanes` of an environment with the same game and observations.
            lanes: Where to put them; None = lanes 0, 1, and so on.

        Raises:
            UserError: A snapshot is damaged or of another game or format; no lane has changed.
        """
        targets = check_lanes(snapshots, lanes)
        if not self._seeded:
            self.reset(seed=0)
            self._seeded = False  # snapshots replace all that this reset decided
        replace_lanes(snapshots, targets, self.clone_lanes, self._restore_lane)
        self._seeded = True

    def _restore_lane(self, lane: int, snapshot: bytes) -> None:
        restore = self._library.seed_pool_restore_lane
        self._check(restore(self._pool, lane, snapshot, ctypes.c_int64(len(snapshot))))

    def clone_state(self) -> bytes:
        """Returns the snapshots of all lanes in one piece."""
        return pack_snapshots(_STATE_MAGIC, self.clone_lanes())

    def restore_state(self, state: bytes) -> None:
        """Continues all lanes from what `clone_state` of an equal environment returned.

        Args:
            state: From `clone_state`, of this process or another.

        Raises:
            UserError: The state is damaged or of another environment; no lane has changed.
        """
        self.restore_lanes(unpack_snapshots(_STATE_MAGIC, state, self.num_envs))

    def observe(self) -> tuple[Any, dict[str, Any]]:
        """Returns the present observations and infos of all lanes, as `reset` does, without moving any."""
        shape = self.single_observation_space.shape or ()
        observations = np.empty((self.num_envs, *shape), dtype=np.uint8)
        numbers = np.empty((4, self.num_envs), dtype=np.int32)
        outputs = PoolOutputs(
            observations=observations.ctypes.data,
            env_ids=numbers[0].ctypes.data,
            lives=numbers[1].ctypes.data,
            frame_numbers=numbers[2].ctypes.data,
            episode_frame_numbers=numbers[3].ctypes.data,
        )
        self._check(self._library.seed_pool_observe(self._pool, ctypes.byref(outputs)))
        infos = {key: self._to_output(row) for key, row in zip(INFO_KEYS, numbers, strict=True)}
        return self._to_output(observations), infos

    def ram(self) -> NDArray[np.uint8]:
        """Returns the RAM of all lanes, uint8 (num_envs, 128)."""
        ram = np.empty((self.num_envs, 128), dtype=np.uint8)
        self._check(self._library.seed_pool_ram(self._pool, address_of(ram)))
        return ram

    def memory_bytes(self) -> tuple[int, int]:
        """Returns the bytes that the largest lane holds, and those that the lanes share."""
        per_lane, shared = ctypes.c_int64(), ctypes.c_int64()
        self._check(self._library.seed_pool_memory(self._pool, ctypes.byref(per_lane), ctypes.byref(shared)))
        return per_lane.value, shared.value

    # ---- Rows ----------------------------------------------------------------------------------------------------

    def _take_rows(self, *, final: bool) -> Rows:
        """Points the outputs at arrays that nobody holds and returns these."""
        outputs, rows = self._outputs, self.batch_size
        observations, outputs.observations = self._observations.take()
        block, address = self._blocks.take()
        stride = 4 * rows
        outputs.rewards = address
        outputs.env_ids = address + stride
        outputs.lives = address + 2 * stride
        outputs.frame_numbers = address + 3 * stride
        outputs.episode_frame_numbers = address + 4 * stride
        outputs.terminations = address + 5 * stride
        outputs.truncations = address + 5 * stride + rows
        rewards, env_ids, lives, frame_numbers, episode_frame_numbers, bytes_row = block
        flags = bytes_row.view(np.bool_)
        infos = {
            "env_id": env_ids,
            "lives": lives,
            "frame_number": frame_numbers,
            "episode_frame_number": episode_frame_numbers,
        }
        if final:
            infos["final_obs"], outputs.final_observations = self._final_observations.take()
        return observations, rewards, flags[:rows], flags[rows : 2 * rows], infos

    def _finish(self, rows: Rows) -> Rows:
        """Turns the rows of a step into what it returns."""
        return finish_rows(rows, self._num_ended.value, self._to_output)

    # ---- Arguments -----------------------------------------------------------------------------------------------

    def _check(self, status: int) -> None:
        if status:
            if not self._pool and self.closed:
                raise UserError("the environment is closed: make a new one")
            _native.check(self._library, status)

    def _check_reset(self) -> None:
        """Raises unless all lanes have been reset, by the user or by snapshots."""
        if not self._seeded and not self.closed:
            raise UserError("the environments have not been reset: call reset first")

    def _num_actions(self) -> int:
        count = ctypes.c_int32()
        self._check(self._library.seed_pool_actions(self._pool, ctypes.byref(count), None))
        return count.value

    def _read_actions(self, actions: ArrayLike) -> None:
        """Copies the actions to where the library reads them."""
        self._check_reset()
        given = np.asarray(actions)
        kind = given.dtype.kind
        expected = (self.batch_size, 3) if self.continuous else (self.batch_size,)
        if given.shape != expected:
            raise UserError(f"actions have the shape {given.shape}, they must have {expected}")
        if not self.continuous:
            if kind not in "iu":
                raise UserError(f"actions are of type {given.dtype}, they must be integers")
            np.copyto(self._action_buffer, given, casting="same_kind")
            return
        if kind not in "fiu":
            raise UserError(f"continuous actions are of type {given.dtype}, they must be numbers")
        if not np.isfinite(given).all():
            raise UserError("an action is not finite")
        self._action_buffer[:], self._strength_buffer[:] = discrete_actions(given, self.continuous_action_threshold)

    def _per_lane(self, name: str, value: ArrayLike | None) -> NDArray[np.int32] | None:
        if value is None or self.num_envs < 1:  # the library names a bad num_envs
            return None
        given = np.asarray(value)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.num_envs,)):
            raise UserError(f"{name} must be one integer, or one for each of the {self.num_envs} lanes")
        for extreme in (given.min(), given.max()):
            int32(name, extreme.item())
        return np.ascontiguousarray(np.broadcast_to(given, (self.num_envs,)), dtype=np.int32)

    def _set_modes(self, mask: NDArray[np.bool_] | None, mode: ArrayLike | None, difficulty: ArrayLike | None) -> None:
        modes, difficulties = self._per_lane("mode", mode), self._per_lane("difficulty", difficulty)
        set_modes = self._library.seed_pool_set_modes
        self._check(set_modes(self._pool, address_of(mask), address_of(modes), address_of(difficulties)))

    def _reset_mask(self, mask: Any) -> NDArray[np.bool_] | None:
        if mask is not None and self.batch_size != self.num_envs:
            raise UserError("a partial reset needs batch_size == num_envs: lanes outside the batch are stepping")
        return reset_mask(mask, self.num_envs, seeded=self._seeded)


def make_vec(
    game: str, num_envs: int = 1, *, device: str | torch.device = "cpu", rng: str = "counter", **options: Any
) -> AtariVectorEnv | NativeVectorEnv | ExternalVectorEnv:
    """Makes a vector of environments with reproducible random numbers: an Atari game, or an environment of your own.

    With the default rng="counter" a lane's episodes depend on the seed and the lane's number alone: not on the other
    lanes, the number of threads, the batch, or how many draws were made before. rng="ale" reproduces the seeds of
    ale-py instead.

    Args:
        game: Name of the game, "ms_pacman", or of an environment: "ball" (`seed-hpc env list`),
            "gymnasium:CartPole-v1", "external:./libsimulator.so".
        num_envs: Number of lanes.
        device: "cpu", or "cuda", "cuda:1": then tensors on that GPU come back (docs/cuda.md).
        rng: "counter" or "ale"; of environments that are no Atari games always "counter".
        **options: See `AtariVectorEnv`; of environments that are no Atari games `seed_hpc.envs.native_vector`.

    Raises:
        UserError: See `AtariVectorEnv`.
    """
    from seed_hpc.envs.environment_table import is_environment
    from seed_hpc.envs.external import ExternalVectorEnv, is_external

    if is_environment(game) and rng != "counter":
        raise UserError(f"rng='{rng}' belongs to Atari games; the environment '{game}' has rng='counter'")
    if is_external(game):
        return ExternalVectorEnv(game, num_envs, device=str(device), **options)
    if is_environment(game):
        from seed_hpc.envs.native_vector import NativeVectorEnv

        return NativeVectorEnv(game, num_envs, device=device, **options)
    return AtariVectorEnv(game, num_envs, device=device, rng=rng, **options)
