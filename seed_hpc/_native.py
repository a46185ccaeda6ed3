# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the native library (ctypes) and turns its status codes into errors."""

from __future__ import annotations

import ctypes
import functools
import os
import sysconfig
from pathlib import Path

from seed_hpc.errors import MissingDependencyError, UserError

ABI_VERSION = 2

_OUT_OF_MEMORY = 3


def library_folders() -> list[Path]:
    """Returns the folders in which libraries are looked for, the first one first."""
    if override := os.environ.get("SEED_HPC_LIBRARY_DIR"):
        return [Path(folder) for folder in override.split(os.pathsep)]
    return [Path(__file__).parent / "_lib", Path(sysconfig.get_path("platlib")) / "seed_hpc" / "_lib"]


@functools.cache
def instruction_set() -> str:
    """Returns the x86-64 level that libraries are made for and this processor has, or an empty string: the lowest."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return ""
    return "x86-64-v3" if {"avx2", "bmi1", "bmi2", "fma", "movbe", "f16c"} <= set(flags) else ""


def library_path(backend: str) -> Path:
    """Returns the file of `libseed_<backend>.so`, the one for this processor's instruction set if there is one.

    Looks into the folders that SEED_HPC_LIBRARY_DIR names (separated by colons) and nowhere else; without that variable
    beside the package, then in site-packages (where an editable install puts it).

    Raises:
        MissingDependencyError: There is no such file; the message says how to build it.
    """
    name = f"libseed_{backend}.so"
    folders = library_folders()
    for folder in folders:
        for candidate in (folder / instruction_set() / name, folder / name):
            if candidate.is_file():
                return candidate
    how = "make setup" if backend == "cpu" else "make kernels"
    raise MissingDependencyError(
        f"{name} was not found in {', '.join(map(str, folders))}: build it with `{how}`, "
        "or name its folder in SEED_HPC_LIBRARY_DIR"
    )


@functools.cache
def load(backend: str = "cpu") -> ctypes.CDLL:
    """Loads the library once and checks its ABI version.

    Raises:
        MissingDependencyError: The library is not there, cannot be loaded or is of another version.
    """
    return load_path(library_path(backend))


@functools.cache
def load_path(path: Path) -> ctypes.CDLL:
    """Loads one library file once and checks its ABI version.

    Raises:
        MissingDependencyError: It cannot be loaded or is of another version.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise MissingDependencyError(f"{path} cannot be loaded: {error}") from error
    library.seed_last_error.restype = ctypes.c_char_p
    library.seed_backend_name.restype = ctypes.c_char_p
    found = int(library.seed_abi_version())
    if found != ABI_VERSION:
        raise MissingDependencyError(
            f"{path} has ABI version {found}, this package needs {ABI_VERSION}: build it again with `make setup`"
        )
    return library


def check(library: ctypes.CDLL, status: int) -> None:
    """Raises the library's last error as a `UserError` (or `MemoryError`) unless `status` is SEED_OK."""
    if status == 0:
        return
    message = library.seed_last_error().decode()
    raise MemoryError(message) if status == _OUT_OF_MEMORY else UserError(message)
