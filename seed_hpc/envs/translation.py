# SPDX-License-Identifier: Apache-2.0
"""Native code made from cartridges: traced, translated to C++, compiled once, cached by content, loaded on demand.

    ROM image -> trace (which bytes are code) -> C++ (cuda/translator) -> compiler -> library in the cache -> loaded

Nothing here is needed to run: a game without a translation is interpreted, with the same result. A library in the cache
is named by the ROM, the sources it was made from, the compiler and the instruction set, so a stale one is never found.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from seed_hpc import _native
from seed_hpc.errors import MissingDependencyError, UserError

log = logging.getLogger(__name__)

# Frames of random play that find out which bytes are code; what they miss is interpreted.
TRACE_FRAMES = 6000

_FLAGS = ["-std=gnu++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-w"]


class TranslationUnavailableError(UserError):
    """The game cannot be translated; it runs in the interpreter."""


def cache_folder() -> Path:
    """Returns where libraries are kept: SEED_HPC_CACHE, or `seed-hpc` in the user's cache folder."""
    if folder := os.environ.get("SEED_HPC_CACHE"):
        return Path(folder) / "translations"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seed-hpc" / "translations"


def source_folder() -> Path:
    """Returns the folder of the portable core's headers.

    Raises:
        MissingDependencyError: They are not installed.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package.parent / "cuda", package / "_cuda"):
        if (folder / "translator" / "translate.py").is_file():
            return folder
    raise MissingDependencyError("the core's headers (folder cuda/) were not found: install seed-hpc from its sources")


def compiler() -> str:
    """Returns the C++ compiler: $CXX, g++ or clang++.

    Raises:
        MissingDependencyError: There is none.
    """
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise MissingDependencyError(
        "no C++ compiler was found: install g++, or run without translation (same results, slower)"
    )


@functools.cache
def _instruction_set() -> str:
    """The x86-64 level that this processor can run, or an empty string: the compiler's default."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return ""
    return "x86-64-v3" if {"avx2", "bmi1", "bmi2", "fma", "movbe", "f16c"} <= set(flags) else ""


@functools.cache
def _source_digest() -> str:
    folder = source_folder()
    digest = hashlib.sha256()
    for part in ("machine", "translator"):
        for path in sorted((folder / part).glob("*")):
            if path.suffix in (".h", ".py"):
                digest.update(path.read_bytes())
    digest.update((folder / "portability.h").read_bytes())
    return digest.hexdigest()


@functools.cache
def _compiler_version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]


def library_path(rom: bytes) -> Path:
    """Returns where the library of a ROM image is or would be in the cache."""
    key = hashlib.sha256()
    key.update(hashlib.sha256(rom).digest())
    key.update("\0".join([_source_digest(), _instruction_set(), *_FLAGS]).encode())
    return cache_folder() / f"rom_{key.hexdigest()[:24]}.so"


def _translator() -> ModuleType:
    """Imports cuda/translator/translate.py, which is a stand-alone script."""
    folder = str(source_folder() / "translator")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("translate")


def _describe(library: ctypes.CDLL, game: str) -> tuple[int, dict[str, object]]:
    index = ctypes.c_int32()
    _native.check(library, library.seed_game_find(game.encode(), ctypes.byref(index)))
    text = ctypes.c_char_p()
    _native.check(library, library.seed_game_describe(index, ctypes.byref(text)))
    return index.value, json.loads(text.value or b"{}")


class _Options(ctypes.Structure):
    """seed_machine_options of seed/game.h."""

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


def trace(game: str, rom: bytes, frames: int = TRACE_FRAMES) -> bytes:
    """Plays `frames` random frames, in every mode in turn, and returns the trace of a ROM image (seed/translation.h).

    Args:
        game: The game's name.
        rom: Its ROM image.
        frames: Emulated frames.
    """
    library = _native.load()
    index, facts = _describe(library, game)
    options = _Options()
    _native.check(library, library.seed_machine_default_options(ctypes.byref(options)))
    machine = ctypes.c_void_p()
    _native.check(
        library,
        library.seed_machine_create(index, rom, ctypes.c_int64(len(rom)), ctypes.byref(options), ctypes.byref(machine)),
    )
    noted = np.zeros(len(rom), np.uint8)
    generator = np.random.default_rng(0)
    actions = facts["minimal_actions"]
    modes = facts["modes"]
    assert isinstance(actions, list)
    assert isinstance(modes, list)
    reward, over, truncated = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int32()
    try:
        _native.check(library, library.seed_machine_trace(machine, noted.ctypes.data_as(ctypes.c_void_p)))
        visited = [modes[i] for i in np.linspace(0, len(modes) - 1, min(len(modes), 6)).astype(int)]
        for mode in visited:
            _native.check(library, library.seed_machine_set_mode(machine, mode))
            _native.check(library, library.seed_machine_reset(machine))
            for _ in range(frames // len(visited)):
                action = int(generator.choice(actions))
                _native.check(
                    library, library.seed_machine_act(machine, action, ctypes.c_float(1), ctypes.byref(reward))
                )
                library.seed_machine_game_over(machine, ctypes.byref(over), ctypes.byref(truncated))
                if over.value:
                    _native.check(library, library.seed_machine_reset(machine))
    finally:
        library.seed_machine_destroy(machine)
    return noted.tobytes()


def build(game: str, rom: bytes) -> Path:
    """Returns the library of a game's ROM image, made now unless it is in the cache.

    Args:
        game: The game's name.
        rom: Its ROM image.

    Raises:
        TranslationUnavailableError: The cartridge type is not translated.
        MissingDependencyError: No compiler, or no headers.
        UserError: The compiler failed or the cache cannot be written.
    """
    path = library_path(rom)
    if path.is_file():
        return path
    translator = _translator()
    _, facts = _describe(_native.load(), game)
    try:
        source = translator.translate(rom, str(facts["cartridge"]), trace(game, rom))
    except translator.UnsupportedCartridgeError as error:
        raise TranslationUnavailableError(f"{game}: {error}; it runs in the interpreter") from error
    folder = source_folder()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            unit = Path(scratch) / f"{game}.cpp"
            unit.write_text(source)
            output = Path(scratch) / "library.so"
            march = [f"-march={_instruction_set()}"] if _instruction_set() else []
            command = [
                compiler(),
                *_FLAGS,
                *march,
                f"-I{folder}",
                f"-I{folder / 'include'}",
                "-o",
                str(output),
                str(unit),
            ]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise UserError(f"{game}: the compiler failed: {result.stderr.strip().splitlines()[:1]}")
            output.replace(path)  # atomic: a reader sees the whole library or none
    except OSError as error:
        raise UserError(
            f"the cache folder {path.parent} cannot be written ({error.strerror}): name another in SEED_HPC_CACHE"
        ) from error
    log.info("translated %s into %s", game, path)
    return path


def attach(game: str, rom: bytes) -> bool:
    """Makes new machines of `game` run native code when its library is in the cache.

    SEED_HPC_TRANSLATION=0 turns translations off; what is emulated is the same either way.

    Returns:
        Whether native code is used.
    """
    library = _native.load()
    index, _ = _describe(library, game)
    path = None if os.environ.get("SEED_HPC_TRANSLATION") == "0" else library_path(rom)
    if path is None or not path.is_file():
        _native.check(library, library.seed_translation_load(index, None))
        return False
    _native.check(library, library.seed_translation_load(index, str(path).encode()))
    return True
