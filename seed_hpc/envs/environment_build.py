# SPDX-License-Identifier: Apache-2.0
"""Compiles a user's environment header into a shared library in the cache, for the CPU and for CUDA architectures.

    my_env.h -> g++ or nvcc -> <cache>/environments/my_env/my_env_cpu.so -> make_vec("my_env")

The name is the one that the header registers. What a library was made from is recorded beside it, so that a header that
was changed afterwards is noticed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seed_hpc.envs import translation
from seed_hpc.errors import MissingDependencyError, UserError

# No fused multiply-add anywhere: the same bits on every device.
_CPU_FLAGS = ["-std=gnu++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]
_CUDA_FLAGS = ["-std=c++17", "-O3", "--fmad=false", "--expt-relaxed-constexpr", "-shared", "-Xcompiler=-fPIC"]
_WARNINGS = ["-Wall", "-Wextra"]
_DEFINE = "-DSEED_ENVIRONMENT_LIBRARY"


def cache_folder() -> Path:
    """Returns where built environments are kept: `environments` in SEED_HPC_CACHE or the user's cache folder."""
    return translation.cache_folder().parent / "environments"


def library_path(name: str, backend: str = "cpu") -> Path:
    """Returns where the library of the environment `name` is or would be."""
    return cache_folder() / name / f"{name}_{backend}.so"


def built_names() -> list[str]:
    """Returns the names of the environments that have been built for the CPU, in alphabetical order."""
    return sorted(path.parent.name for path in cache_folder().glob("*/*_cpu.so"))


def registered_name(header: Path) -> str:
    """Returns the name under which a header registers its environment.

    Raises:
        UserError: The file cannot be read, registers nothing or several things, or the name is not usable.
    """
    try:
        text = header.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{header} cannot be read ({error.strerror}): name the header of your environment") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{header} is no text: name the header of your environment") from error
    found = re.findall(r'^\s*SEED_REGISTER_ENVIRONMENT\(\s*[\w:]+\s*,\s*"([^"]*)"\s*\)', text, re.MULTILINE)
    if len(found) != 1:
        raise UserError(
            f"{header} registers {len(found)} environments, it must be one: end it with "
            'SEED_REGISTER_ENVIRONMENT(Type, "name")'
        )
    check_name(found[0])
    return str(found[0])


def check_name(name: str) -> None:
    """Raises `UserError` unless `name` is a usable new name: snake case, and not one that is taken."""
    from seed_hpc.envs.environment_table import library_environments
    from seed_hpc.envs.games import game_names

    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        raise UserError(f"'{name}' cannot be the name of an environment: use small letters, digits and _, like my_env")
    if name in library_environments() or name in game_names():
        raise UserError(f"the name '{name}' is taken by an environment or game of this package: choose another")


def build_cpu(header: Path) -> Path:
    """Compiles a header for this machine and returns the library in the cache.

    Raises:
        UserError: The header does not register one environment, or does not compile; the message quotes the compiler.
        MissingDependencyError: No compiler or no headers of the core.
    """
    march = [f"-march={level}"] if (level := translation.instruction_set()) else []
    command = [translation.compiler(), *_CPU_FLAGS, *_WARNINGS, *march, _DEFINE]
    return _build(header, "cpu", command, {"instruction_set": level})


def build_cuda(header: Path, architectures: Sequence[str], nvcc: Path) -> Path:
    """Compiles a header into one CUDA library for all `architectures` ("80", "90") and returns it.

    Raises:
        UserError: As for `build_cpu`.
    """
    targets = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in architectures]
    command = [str(nvcc), "-x", "cu", *_CUDA_FLAGS, *targets, "-Xptxas=-v", _DEFINE]
    return _build(header, "cuda", command, {"architectures": list(architectures)})


def _build(header: Path, backend: str, command: list[str], about: dict[str, Any]) -> Path:
    name = registered_name(header)
    library = library_path(name, backend)
    folder = translation.source_folder()
    includes = [f"-I{folder}", f"-I{folder / 'include'}", f"-I{header.resolve().parent}"]
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            unit, output, made_from = (Path(scratch) / file for file in ("unit.cpp", "library.so", "unit.d"))
            unit.write_text(f'#include "{header.resolve()}"\n', encoding="utf-8")
            complete = [*command, *includes, "-MD", "-MF", str(made_from), "-o", str(output), str(unit)]
            result = subprocess.run(complete, capture_output=True, text=True, check=False)
            if result.returncode:
                raise UserError(f"{header} does not compile: {_first_error(result.stderr)}")
            if result.stderr.strip():
                (library.parent / f"build_{backend}.log").write_text(result.stderr, encoding="utf-8")
            for line in _warnings(result.stderr, header):
                print(line, file=sys.stderr)
            sources = _user_sources(made_from, folder, Path(scratch))
            output.replace(library)  # atomic: a reader sees the whole library or none
        record = {
            "name": name,
            "header": str(header.resolve()),
            **about,
            "sources": {str(p): _digest(p) for p in sources},
        }
        _record_path(name, backend).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the cache folder {library.parent} cannot be written ({error.strerror}): name another in SEED_HPC_CACHE"
        ) from error
    _check_loadable(library, backend)
    return library


def _check_loadable(library: Path, backend: str) -> None:
    """Fails early where a name that the header uses is defined nowhere."""
    if backend == "cpu":
        try:
            ctypes.CDLL(str(library), mode=os.RTLD_NOW)
        except OSError as error:
            raise UserError(f"the library of the environment cannot be loaded: {error}") from error


def _first_error(text: str) -> str:
    """Returns the first message of a compiler, without the folder of the temporary unit."""
    lines = text.splitlines()
    found = next((line for line in lines if re.search(r"\berror\b", line)), lines[-1] if lines else "no message")
    return found.strip()


def _warnings(text: str, header: Path) -> list[str]:
    return [line for line in text.splitlines() if "warning:" in line and header.name in line]


def _user_sources(made_from: Path, core: Path, scratch: Path) -> list[Path]:
    """Returns the files a library was made from, without the system's, the core's and the unit itself."""
    words = made_from.read_text(encoding="utf-8").replace("\\\n", " ").split(":", 1)[1].split()
    paths = {Path(word).resolve() for word in words}
    outside = [path for path in paths if not path.is_relative_to(core.resolve()) and path.parent != scratch.resolve()]
    return sorted(path for path in outside if not str(path).startswith("/usr/"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _record_path(name: str, backend: str) -> Path:
    return cache_folder() / name / f"{name}_{backend}.json"


def read_record(name: str, backend: str = "cpu") -> dict[str, Any]:
    """Returns what is known of a library: `header`, `sources`, for CUDA `architectures`; empty where it is missing."""
    try:
        record: dict[str, Any] = json.loads(_record_path(name, backend).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record


def warn_if_stale(name: str, backend: str = "cpu") -> None:
    """Warns when a file that the library was made from has changed since."""
    record = read_record(name, backend)
    for file, digest in record.get("sources", {}).items():
        path = Path(file)
        if path.is_file() and _digest(path) != digest:
            warnings.warn(
                f"{path} has changed since the environment '{name}' was built: build it again with "
                f"`seed-hpc kernels build --env {record['header']}`",
                stacklevel=4,
            )
            return


def missing_nvcc() -> MissingDependencyError:
    """The error for a machine without nvcc."""
    return MissingDependencyError("no nvcc was found: install a CUDA toolkit, or name the compiler in CUDACXX")
