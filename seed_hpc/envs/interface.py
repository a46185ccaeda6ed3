# SPDX-License-Identifier: Apache-2.0
"""One Atari 2600 with the method names of ale-py's ALEInterface, bit-exact with it.

Differences: an error is a `UserError` where ale-py ends the process; a ROM image must be the known one; there is no
window and no sound. See docs/environments.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterator
from operator import index as to_index
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from seed_hpc import _native
from seed_hpc.envs import translation
from seed_hpc.envs.actions import Action
from seed_hpc.envs.games import GameInfo
from seed_hpc.envs.lanes import int32, target_address
from seed_hpc.envs.roms import identify_rom
from seed_hpc.errors import MissingDependencyError, UserError, nearest

Bytes = NDArray[np.uint8]

_RNG = {"ale": 0, "counter": 1}
_STATE_MAGIC = b"SEEDALE1"  # with the version of the format
_STATE_HEADER = struct.Struct("<8s4i")  # magic, frames since loading and since the reset, mode, difficulty


class MachineOptions(ctypes.Structure):
    """`seed_machine_options` of cuda/include/seed/game.h."""

    _fields_ = (
        ("random_seed", ctypes.c_int32),
        ("repeat_action_probability", ctypes.c_float),
        ("frame_skip", ctypes.c_int32),
        ("max_num_frames_per_episode", ctypes.c_int32),
        ("rng", ctypes.c_int32),
        ("paddle_max", ctypes.c_int32),
        ("env_id", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class _Machine(ctypes.c_void_p):
    """The handle of a native machine, which lives as long as its interface or a view of its screen."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self._destroy = library.seed_machine_destroy

    def __del__(self) -> None:
        self._destroy(self)


def _prototype(function: Any, *arguments: Any) -> Any:
    """Tells ctypes the arguments behind the machine, which lets it convert faster."""
    function.argtypes = (ctypes.c_void_p, *arguments)
    return function


class ALEState:
    """A snapshot of a machine: exact, pictures included, valid in other processes.

    Args:
        data: The bytes that `serialize` returned.

    Raises:
        UserError: The bytes are something else.
    """

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        if len(self._data) < _STATE_HEADER.size or not self._data.startswith(_STATE_MAGIC):
            raise UserError("these bytes are no state of a console")
        self._numbers: tuple[int, ...] = _STATE_HEADER.unpack_from(self._data)[1:]

    def serialize(self) -> bytes:
        """Returns the snapshot in its versioned format."""
        return self._data

    def equals(self, other: ALEState) -> bool:
        """Returns whether both snapshots are the same, byte for byte."""
        return self._data == other._data

    def __eq__(self, other: object) -> bool:
        return self.equals(other) if isinstance(other, ALEState) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def getFrameNumber(self) -> int:
        """Returns the frames since the ROM was loaded."""
        return self._numbers[0]

    def getEpisodeFrameNumber(self) -> int:
        """Returns the frames since the last reset."""
        return self._numbers[1]

    def getCurrentMode(self) -> int:
        """Returns the mode of the game."""
        return self._numbers[2]

    def getDifficulty(self) -> int:
        """Returns the setting of the difficulty switches."""
        return self._numbers[3]


class ALEInterface:
    """One emulated console. Settings (`setInt` and so on) take effect at the next `loadROM`, as in ale-py.

    Args:
        rng: "ale" draws random numbers as ale-py does; "counter" uses the counter-based generator of `make_vec`.
    """

    def __init__(self, *, rng: str = "ale") -> None:
        if rng not in _RNG:
            raise UserError(f"rng is '{rng}', it must be 'ale' or 'counter'")
        self._rng = rng
        self._library = _native.load("cpu")
        self._machine = _Machine(self._library)
        self._game: GameInfo | None = None
        self._paddle_max = 0
        self._settings: dict[str, int | float | bool | str] = {
            "random_seed": -1,
            "repeat_action_probability": 0.25,
            "frame_skip": 1,
            "max_num_frames_per_episode": 0,
            "color_averaging": False,
            "display_screen": False,
            "sound": False,
            "record_screen_dir": "",
            "record_sound_filename": "",
            "truncate_on_loss_of_life": False,
            "rom_file": "",
        }
        # act() and its companions run at every frame: functions that convert no more than needed, and results at fixed
        # places.
        self._act = _prototype(self._library.seed_machine_act, ctypes.c_int32, ctypes.c_float, ctypes.c_void_p)
        self._get_lives = _prototype(self._library.seed_machine_lives, ctypes.c_void_p)
        self._get_over = _prototype(self._library.seed_machine_game_over, ctypes.c_void_p, ctypes.c_void_p)
        self._first, self._second = ctypes.c_int32(), ctypes.c_int32()
        self._first_address = ctypes.addressof(self._first)
        self._second_address = ctypes.addressof(self._second)
        self._pictures: dict[int, Bytes] = {}

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raises: a copy would destroy the machine of the original."""
        raise TypeError("a console cannot be copied or pickled: use cloneState")

    @staticmethod
    def setLoggerMode(mode: object) -> None:
        """Does nothing: there are no messages, only errors."""

    # ---- Settings ------------------------------------------------------------------------------------------------

    def setInt(self, key: str, value: int) -> None:
        """Changes an integer setting: random_seed (-1 = from the clock), frame_skip, max_num_frames_per_episode."""
        self._set(key, int32(key, value), int)

    def setFloat(self, key: str, value: float) -> None:
        """Changes a number: repeat_action_probability."""
        self._set(key, float(value), float)

    def setBool(self, key: str, value: bool) -> None:
        """Changes a switch. All that exist belong to what is not offered, and must stay off."""
        self._set(key, bool(value), bool)

    def setString(self, key: str, value: str) -> None:
        """Changes a text. All that exist name recordings, and must stay empty, or are set by `loadROM`."""
        self._set(key, str(value), str)

    def getInt(self, key: str) -> int:
        """Returns an integer setting."""
        return int(self._get(key, int))

    def getFloat(self, key: str) -> float:
        """Returns a number."""
        return float(self._get(key, float))

    def getBool(self, key: str) -> bool:
        """Returns a switch."""
        return bool(self._get(key, bool))

    def getString(self, key: str) -> str:
        """Returns a text."""
        return str(self._get(key, str))

    def _get(self, key: str, kind: type) -> int | float | bool | str:
        if key not in self._settings:
            raise UserError(f"there is no setting '{key}'{nearest(key, self._settings)}")
        value = self._settings[key]
        if type(value) is not kind:
            raise UserError(f"the setting '{key}' is a {type(value).__name__}, not a {kind.__name__}")
        return value

    def _set(self, key: str, value: int | float | bool | str, kind: type) -> None:
        unchanged = self._get(key, kind)
        if isinstance(value, bool | str) and value != unchanged:
            raise UserError(f"the setting '{key}' cannot be changed: leave it at {unchanged!r} (docs/environments.md)")
        self._settings[key] = value

    # ---- Cartridge and episodes ----------------------------------------------------------------------------------

    def loadROM(self, path: str | os.PathLike[str]) -> None:
        """Loads a ROM file, whatever its name, and starts its first episode.

        Raises:
            UserError: The file is missing or the image of no game.
        """
        game, image = identify_rom(Path(path))
        translation.attach(game, image)
        seed = int(self._settings["random_seed"])
        options = MachineOptions(
            random_seed=ctypes.c_int32(seed if seed != -1 else time.time_ns()).value,
            repeat_action_probability=float(self._settings["repeat_action_probability"]),
            frame_skip=int(self._settings["frame_skip"]),
            max_num_frames_per_episode=int(self._settings["max_num_frames_per_episode"]),
            rng=_RNG[self._rng],
            paddle_max=self._paddle_max,
        )
        created = _Machine(self._library)
        status = self._library.seed_machine_create(
            game.index, image, ctypes.c_int64(len(image)), ctypes.byref(options), ctypes.byref(created)
        )
        _native.check(self._library, status)
        self._machine, self._game = created, game
        self._settings["rom_file"] = os.fspath(path)
        self._pictures.clear()
        # A widened paddle range outlives the cartridge that asked for it.
        widest = ctypes.c_int32()
        self._library.seed_machine_paddle_max(created, ctypes.byref(widest))
        self._paddle_max = widest.value

    @staticmethod
    def isSupportedROM(path: str | os.PathLike[str]) -> str | None:
        """Returns the game whose ROM image the file is, or None."""
        try:
            return identify_rom(Path(path))[0].name
        except UserError:
            return None

    def reset_game(self) -> None:
        """Starts an episode in the chosen mode and difficulty."""
        self._check(self._library.seed_machine_reset(self._loaded()))

    def act(self, action: int, paddle_strength: float = 1.0) -> int:
        """Holds an action for `frame_skip` frames.

        Args:
            action: 0 to 17; one that the game does not accept acts as NOOP.
            paddle_strength: Scales the movement of a paddle.

        Returns:
            The sum of the rewards.
        """
        try:
            number = to_index(getattr(action, "value", action))  # ale-py's Action is no int
        except TypeError:
            number = -1
        if not 0 <= number <= 17:
            raise UserError(f"the action is {action!r}, it must be an integer from 0 to 17")
        if self._act(self._machine.value, number, paddle_strength, self._first_address):
            self._fail()
        return self._first.value

    def lives(self) -> int:
        """Returns the lives that are left."""
        if self._get_lives(self._machine.value, self._first_address):
            self._fail()
        return self._first.value

    def game_over(self, with_truncation: bool = True) -> bool:
        """Returns whether the episode has ended, by the frame limit too if `with_truncation`."""
        if self._get_over(self._machine.value, self._first_address, self._second_address):
            self._fail()
        return self._first.value != 0 or (with_truncation and self._second.value != 0)

    def game_truncated(self) -> bool:
        """Returns whether the episode has reached the frame limit without the game being over."""
        over, truncated = self._pair(self._library.seed_machine_game_over)
        return bool(truncated and not over)

    def getFrameNumber(self) -> int:
        """Returns the frames since the ROM was loaded."""
        return self._pair(self._library.seed_machine_frame_numbers)[0]

    def getEpisodeFrameNumber(self) -> int:
        """Returns the frames since the last reset."""
        return self._pair(self._library.seed_machine_frame_numbers)[1]

    # ---- Actions, modes, difficulties ----------------------------------------------------------------------------

    def getMinimalActionSet(self) -> list[Action]:
        """Returns the actions that do something in this game."""
        return [Action(number) for number in self._facts().minimal_actions]

    def getLegalActionSet(self) -> list[Action]:
        """Returns all eighteen actions, or those that the game accepts."""
        return [Action(number) for number in self._facts().legal_actions]

    def getAvailableModes(self) -> list[int]:
        """Returns the modes of the cartridge."""
        return list(self._facts().modes)

    def getAvailableDifficulties(self) -> list[int]:
        """Returns the settings of the difficulty switches."""
        return list(self._facts().difficulties)

    def setMode(self, mode: int) -> None:
        """Chooses the mode of the next episode."""
        self._check(self._library.seed_machine_set_mode(self._loaded(), int32("mode", mode)))

    def setDifficulty(self, difficulty: int) -> None:
        """Moves the difficulty switches, at once."""
        self._check(self._library.seed_machine_set_difficulty(self._loaded(), int32("difficulty", difficulty)))

    # ---- RAM and pictures ----------------------------------------------------------------------------------------

    @overload
    def getRAM(self) -> Bytes: ...
    @overload
    def getRAM(self, buffer: Bytes) -> None: ...
    def getRAM(self, buffer: Bytes | None = None) -> Bytes | None:
        """Returns the 128 bytes of RAM as uint8, or writes them into `buffer`."""
        return self._fill(self._library.seed_machine_ram, (128,), buffer)

    def getRAMSize(self) -> int:
        """Returns 128."""
        return 128

    def setRAM(self, index: int, value: int) -> None:
        """Writes one byte of RAM."""
        if not 0 <= int32("the RAM value", value) <= 255:
            raise UserError(f"the RAM value is {value}, it must be 0 to 255")
        machine, address = self._loaded(), int32("the RAM index", index)
        self._check(self._library.seed_machine_set_ram(machine, address, ctypes.c_uint8(value)))

    def getScreenDims(self) -> tuple[int, int]:
        """Returns (height, width) of the screen in pixels."""
        return self._facts().height, 160

    @overload
    def getScreen(self) -> Bytes: ...
    @overload
    def getScreen(self, buffer: Bytes) -> None: ...
    def getScreen(self, buffer: Bytes | None = None) -> Bytes | None:
        """Returns the palette indices of the screen as uint8 (height, width), or writes them into `buffer`."""
        picture = self.screen_view()
        if buffer is None:
            return picture.copy()
        target_address(buffer, "the buffer", picture.shape, np.uint8)
        buffer[...] = picture
        return None

    def screen_view(self) -> Bytes:
        """Returns the palette indices of the screen without a copy; they change at the next call that emulates."""
        address = ctypes.c_void_p()
        self._library.seed_machine_screen(self._loaded(), ctypes.byref(address), None, None)
        pointer = address.value or 0
        if pointer not in self._pictures:  # a machine has two pictures, at fixed addresses
            height, width = self.getScreenDims()
            memory = (ctypes.c_uint8 * (height * width)).from_address(pointer)
            memory.owner = self._machine  # type: ignore[attr-defined]  # views keep the machine alive
            self._pictures[pointer] = np.ctypeslib.as_array(memory).reshape(height, width)
        return self._pictures[pointer]

    @overload
    def getScreenRGB(self) -> Bytes: ...
    @overload
    def getScreenRGB(self, buffer: Bytes) -> None: ...
    def getScreenRGB(self, buffer: Bytes | None = None) -> Bytes | None:
        """Returns the screen in colour as uint8 (height, width, 3), or writes it into `buffer`."""
        return self._fill(self._library.seed_machine_screen_rgb, (*self.getScreenDims(), 3), buffer)

    @overload
    def getScreenGrayscale(self) -> Bytes: ...
    @overload
    def getScreenGrayscale(self, buffer: Bytes) -> None: ...
    def getScreenGrayscale(self, buffer: Bytes | None = None) -> Bytes | None:
        """Returns the screen in shades of gray as uint8 (height, width), or writes it into `buffer`."""
        return self._fill(self._library.seed_machine_screen_grayscale, self.getScreenDims(), buffer)

    def saveScreenPNG(self, path: str | os.PathLike[str]) -> None:
        """Writes the screen in colour to a PNG file.

        Raises:
            UserError: The file cannot be written.
            MissingDependencyError: Pillow is not installed.
        """
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingDependencyError("writing PNG files needs Pillow: `pip install pillow`") from error
        try:
            Image.fromarray(self.getScreenRGB()).save(path, format="PNG")
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}") from error

    # ---- Snapshots -----------------------------------------------------------------------------------------------

    def cloneState(self, include_rng: bool = False) -> ALEState:
        """Returns a snapshot; without the generator of random actions unless `include_rng`."""
        machine = self._loaded()
        size = ctypes.c_int64()
        self._check(self._library.seed_machine_state_size(machine, ctypes.byref(size)))
        data = ctypes.create_string_buffer(size.value)
        self._check(self._library.seed_machine_save(machine, int(include_rng), data, size))
        frame_numbers = self._pair(self._library.seed_machine_frame_numbers)
        mode_and_difficulty = self._pair(self._library.seed_machine_mode)
        return ALEState(_STATE_HEADER.pack(_STATE_MAGIC, *frame_numbers, *mode_and_difficulty) + data.raw)

    def restoreState(self, state: ALEState) -> None:
        """Continues from a snapshot of the same game.

        Raises:
            UserError: The snapshot is damaged, of another game or of another format version.
        """
        data = state.serialize()[_STATE_HEADER.size :]
        self._check(self._library.seed_machine_restore(self._loaded(), data, ctypes.c_int64(len(data))))

    def cloneSystemState(self) -> ALEState:
        """Returns a snapshot with the generator of random actions."""
        return self.cloneState(include_rng=True)

    def restoreSystemState(self, state: ALEState) -> None:
        """Continues from a snapshot; the same as `restoreState`."""
        self.restoreState(state)

    # ---- Helpers -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def tracing(self, trace: Bytes) -> Iterator[None]:
        """Notes inside the `with` block which bytes of the ROM are executed (seed/translation.h).

        Args:
            trace: uint8, one element for each byte of the ROM image; bits are added to it.
        """
        address = target_address(trace, "the trace", (self._facts().size,), np.uint8)
        self._check(self._library.seed_machine_trace(self._loaded(), ctypes.c_void_p(address)))
        try:
            yield
        finally:
            self._library.seed_machine_trace(self._loaded(), None)

    def _loaded(self) -> ctypes.c_void_p:
        if not self._machine:
            raise UserError("no ROM is loaded: call loadROM first")
        return self._machine

    def _facts(self) -> GameInfo:
        self._loaded()
        assert self._game is not None
        return self._game

    def _check(self, status: int) -> None:
        if status:
            _native.check(self._library, status)

    def _fail(self) -> None:
        """Raises what the last call of the library reported."""
        self._loaded()
        _native.check(self._library, 1)

    def _pair(self, function: Any) -> tuple[int, int]:
        self._check(function(self._loaded(), ctypes.byref(self._first), ctypes.byref(self._second)))
        return self._first.value, self._second.value

    def _fill(self, function: Any, shape: tuple[int, ...], buffer: Bytes | None) -> Bytes | None:
        machine = self._loaded()
        target: Bytes = np.empty(shape, dtype=np.uint8) if buffer is None else buffer
        self._check(function(machine, ctypes.c_void_p(target_address(target, "the buffer", shape, np.uint8))))
        return target if buffer is None else None
