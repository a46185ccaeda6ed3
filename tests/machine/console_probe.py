# SPDX-License-Identifier: Apache-2.0
"""The bare console of cuda/machine for tests: built once per session from cuda/tests/machine_probe.cpp."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CARTRIDGE_TYPES = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE", "DPC")
NO_PADDLES = (-1, -1, -1, -1)


def build_library(folder: Path, *flags: str) -> ctypes.CDLL:
    """Compiles the probe into `folder` and loads it."""
    library = folder / "libmachine_probe.so"
    source = ROOT / "cuda" / "tests" / "machine_probe.cpp"
    command = ["g++", "-std=gnu++17", "-O2", *flags, "-shared", "-fPIC", f"-I{ROOT / 'cuda'}", str(source), "-o"]
    subprocess.run([*command, str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.probe_create.restype = ctypes.c_void_p
    loaded.probe_console.restype = ctypes.c_void_p
    return loaded


class ConsoleProbe:
    """One console with its cartridge, pictures and system generator."""

    def __init__(self, library: ctypes.CDLL, rom: bytes, cartridge_type: str, predecode: bool = True) -> None:
        self._library = library
        self.ram = np.zeros(128, np.uint8)
        self.cartridge_ram = np.zeros(128, np.uint8)
        self.picture = np.zeros((210, 160), np.uint8)
        self.numbers = np.zeros(5, np.int32)
        kind = CARTRIDGE_TYPES.index(cartridge_type)
        self._handle = ctypes.c_void_p(library.probe_create(rom, len(rom), kind, int(predecode)))
        if not self._handle:
            raise ValueError(f"{len(rom)} bytes do not fit a {cartridge_type} cartridge")
        self.set_inputs()

    def __del__(self) -> None:
        self._library.probe_destroy(self._handle)

    def set_display(self, pal: bool = False, ystart: int = 34, height: int = 210, hmove_blanks: bool = True) -> None:
        self.picture = np.zeros((height, 160), np.uint8)
        self._library.probe_set_display(self._handle, int(pal), ystart, height, int(hmove_blanks))

    def set_inputs(
        self,
        swcha: int = 0xFF,
        swchb: int = 0x3F,
        triggers: tuple[bool, bool] = (False, False),
        paddles: tuple[int, int, int, int] = NO_PADDLES,
    ) -> None:
        resistances = (ctypes.c_int32 * 4)(*paddles)
        self._library.probe_set_inputs(self._handle, swcha, swchb, int(triggers[0]), int(triggers[1]), resistances)

    def reset(self) -> None:
        self._library.probe_reset(self._handle)
        self._get()

    def run(self, frames: int = 1, draw: bool = True) -> None:
        self._library.probe_run(self._handle, frames, int(draw))
        self._get()

    def execute(self, registers: bytes, ram: bytes) -> tuple[bytes, bytes, int]:
        """Executes one instruction; registers: A, X, Y, SP, status, PC low, PC high. Returns both after, and cycles."""
        after, ram_after = (ctypes.c_uint8 * 7)(*registers), (ctypes.c_uint8 * 128)(*ram)
        cycles = self._library.probe_execute(self._handle, after, ram_after)
        return bytes(after), bytes(ram_after), cycles

    @property
    def num_lines(self) -> int:
        return int(self.numbers[0])

    @property
    def partial(self) -> bool:
        return bool(self.numbers[2])

    def _get(self) -> None:
        arrays = (self.ram, self.cartridge_ram, self.picture, self.numbers)
        self._library.probe_get(self._handle, *(array.ctypes.data_as(ctypes.c_void_p) for array in arrays))
