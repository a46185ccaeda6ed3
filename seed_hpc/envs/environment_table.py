# SPDX-License-Identifier: Apache-2.0
"""The environments that are no Atari games: those of the library, and those that users have built from a header.

    ball                        in the library (cuda/envs/registry.h)
    my_env                      built by `seed-hpc kernels build --env my_env.h`, in the cache
    .../my_env_cpu.so           a library named by its path

Each is a table of functions behind the C ABI of cuda/include/seed/environment.h.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from seed_hpc import _native
from seed_hpc.errors import MissingDependencyError, UserError, nearest

if TYPE_CHECKING:
    from seed_hpc.envs.cuda_device import CudaDevice

ENVIRONMENT_VERSION = 1
_MAX_RANK = 4


class _Option(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_float), ("text", ctypes.c_char_p))


class _Description(ctypes.Structure):
    """`seed_env_description` of cuda/include/seed/environment.h."""

    _fields_ = (
        ("version", ctypes.c_int32),
        ("layout_bytes", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("backend", ctypes.c_char_p),
        ("lane_bytes", ctypes.c_int32),
        ("observation_is_byte", ctypes.c_int32),
        ("observation_rank", ctypes.c_int32),
        ("observation_shape", ctypes.c_int32 * _MAX_RANK),
        ("observation_low", ctypes.c_float),
        ("observation_high", ctypes.c_float),
        ("num_actions", ctypes.c_int32),
        ("action_size", ctypes.c_int32),
        ("max_episode_steps", ctypes.c_int32),
        ("has_reference_policy", ctypes.c_int32),
        ("num_options", ctypes.c_int32),
        ("options", ctypes.POINTER(_Option)),
    )


@dataclass(frozen=True, kw_only=True)
class OptionInfo:
    """A number that the user may set.

    Attributes:
        name: As a keyword of `make_vec`.
        value: Its default.
        text: What it means.
    """

    name: str
    value: float
    text: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentInfo:
    """What is known about one environment.

    Attributes:
        name: As `make_vec` takes it.
        address: Of the table of functions, in this process.
        library: The file that it was loaded from; None: the library of this package.
        lane_bytes: Memory of one lane.
        observation_space: Of one environment.
        action_space: Of one environment; continuous actions are float32 in [-1, 1].
        max_episode_steps: Step at which an episode is truncated; 0 = never.
        has_reference_policy: Whether it brings a policy to compare agents with.
        options: What the user may set, in the order of the table.
    """

    name: str
    address: int
    library: Path | None
    lane_bytes: int
    observation_space: spaces.Box
    action_space: spaces.Discrete | spaces.Box
    max_episode_steps: int
    has_reference_policy: bool
    options: tuple[OptionInfo, ...]


def _read_table(address: int, library: Path | None) -> EnvironmentInfo:
    about = ctypes.cast(address, ctypes.POINTER(_Description)).contents
    if about.version != ENVIRONMENT_VERSION:
        raise UserError(
            f"{library} was built for version {about.version} of the environment interface, this is version "
            f"{ENVIRONMENT_VERSION}: build it again with `seed-hpc kernels build --env`"
        )
    dtype: Any = np.uint8 if about.observation_is_byte else np.float32
    action_space: spaces.Discrete | spaces.Box
    if about.num_actions:
        action_space = spaces.Discrete(about.num_actions)
    else:
        action_space = spaces.Box(-1.0, 1.0, (about.action_size,), np.float32)
    return EnvironmentInfo(
        name=about.name.decode(),
        address=address,
        library=library,
        lane_bytes=about.lane_bytes,
        observation_space=spaces.Box(
            low=dtype(about.observation_low),
            high=dtype(about.observation_high),
            shape=tuple(about.observation_shape[: about.observation_rank]),
            dtype=dtype,
        ),
        action_space=action_space,
        max_episode_steps=about.max_episode_steps,
        has_reference_policy=bool(about.has_reference_policy),
        options=tuple(
            OptionInfo(name=option.name.decode(), value=option.value, text=option.text.decode())
            for option in about.options[: about.num_options]
        ),
    )


@functools.cache
def library_environments() -> dict[str, EnvironmentInfo]:
    """Returns the environments of the package's own library, by name."""
    return _environments_of(_native.load("cpu"))


def _environments_of(library: ctypes.CDLL) -> dict[str, EnvironmentInfo]:
    count, address = ctypes.c_int32(), ctypes.c_void_p()
    _native.check(library, library.seed_environment_count(ctypes.byref(count)))
    found = {}
    for index in range(count.value):
        _native.check(library, library.seed_environment_at(index, ctypes.byref(address)))
        info = _read_table(int(address.value or 0), None)
        found[info.name] = info
    return found


def load_library(path: Path) -> EnvironmentInfo:
    """Loads a shared library with an environment; it stays loaded until the process ends.

    Raises:
        UserError: It cannot be loaded, holds no environment, or is of another version.
    """
    try:
        library = ctypes.CDLL(str(path.resolve()))
        get = library.seed_environment_get
    except OSError as error:
        raise UserError(f"{path} cannot be loaded: {error}") from error
    except AttributeError as error:
        raise UserError(f"{path} holds no environment: end your header with SEED_REGISTER_ENVIRONMENT") from error
    get.restype = ctypes.c_void_p
    return _read_table(int(get()), path)


def is_environment(name: str) -> bool:
    """Whether `name` is an environment of this module rather than an Atari game."""
    from seed_hpc.envs import environment_build
    from seed_hpc.envs.external import is_external

    if is_external(name) or name.endswith((".so", ".h")):
        return True
    return name in library_environments() or any(
        environment_build.library_path(name, backend).is_file() for backend in ("cpu", "cuda")
    )


def find_environment(name: str) -> EnvironmentInfo:
    """Returns the environment called `name`, a library's or one that was built; or that of a `.so` file.

    Raises:
        UserError: There is none; the message names the nearest one.
        MissingDependencyError: The native library is missing.
    """
    from seed_hpc.envs import environment_build

    if name.endswith(".so"):
        return load_library(Path(name))
    if name.endswith(".h"):
        raise UserError(f"'{name}' is a header: build it with `seed-hpc kernels build --env {name}`, then use its name")
    if (known := library_environments()).get(name) is not None:
        return known[name]
    path = environment_build.library_path(name)
    if not path.is_file():
        names = [*known, *environment_build.built_names()]
        raise UserError(
            f"there is no environment '{name}'{nearest(name, names)}; known: {', '.join(names)}; "
            "your own: `seed-hpc kernels build --env FILE.h`"
        )
    environment_build.warn_if_stale(name)
    return load_library(path)


def find_on_device(name: str, device: CudaDevice) -> EnvironmentInfo:
    """Returns the environment called `name` with its kernels for a CUDA device.

    Raises:
        UserError: There is none of that name.
        MissingDependencyError: It has not been built for the device; the message says how to.
    """
    from seed_hpc.envs import environment_build

    if name.endswith(".so"):
        return load_library(Path(name))
    if (known := _environments_of(device.library)).get(name) is not None:
        return known[name]
    record = environment_build.read_record(name, "cuda")
    built_for = record.get("architectures", [])
    if device.architecture not in built_for:
        if not built_for:
            find_environment(name)  # an unknown name has a message of its own
            record = environment_build.read_record(name)
        state = f"built for sm_{', sm_'.join(built_for)} only" if built_for else "not built for GPUs"
        raise MissingDependencyError(
            f"the environment '{name}' is {state}: `seed-hpc kernels build --env {record.get('header', 'FILE.h')} "
            f"--backend cuda --arch {device.architecture}` builds it for this GPU, or use device='cpu'"
        )
    environment_build.warn_if_stale(name, "cuda")
    return load_library(environment_build.library_path(name, "cuda"))
