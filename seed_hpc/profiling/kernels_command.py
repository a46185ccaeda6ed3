# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc kernels`: builds the native libraries from a checkout, records what was built, shows the records.

A build leaves `libseed_<backend>.so` and `kernels.json` (library, digest, compiler, commit, resources of each kernel;
`library` in seed_hpc/report/schema.json), for CUDA also `resources.json`. The compiler's output is in `build.log`.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from seed_hpc import _native
from seed_hpc.envs import cuda_device, environment_build, roms, translation
from seed_hpc.envs.games import GameInfo, find_game, game_names
from seed_hpc.errors import MissingDependencyError, RunFailedError, UserError
from seed_hpc.files import new_file, read_json_object, write_json
from seed_hpc.profiling.gpu_resources import (
    ARCHITECTURES,
    KernelResources,
    parse_assembler_lines,
    parse_launch_bounds,
    theoretical_occupancy,
)
from seed_hpc.report import wording

# Where a kernel that spills or leaves half of a multiprocessor empty fails the build unless a reason is given.
CHECKED_ARCHITECTURES = ("80", "90")
MIN_OCCUPANCY = 0.50
RECORD = "kernels.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help="compile a library and record what was built")
    build.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    build.add_argument("--arch", nargs="+", default=[], metavar="N", help="CUDA architectures: 80 90 100")
    build.add_argument("--output", type=Path, metavar="DIR", help="folder of library and record")
    build.add_argument(
        "--games",
        metavar="LIST",
        help="translate the cartridges of these games (or 'all') into native code, kept in the user's cache",
    )
    build.add_argument(
        "--env",
        type=Path,
        metavar="FILE.h",
        help="compile your own environment for --backend, kept in the user's cache",
    )
    build.add_argument(
        "--rom-folder", type=Path, metavar="DIR", help="folder of <game>.bin (default: the ale-py package)"
    )
    build.add_argument("--source", type=Path, metavar="DIR", help="checkout (default: the one of this package)")
    build.add_argument("--build-dir", type=Path, metavar="DIR", help="default: build/kernels in the checkout")
    build.add_argument("--jobs", type=int, default=2, metavar="N", help="compilers at a time (default 2)")
    build.add_argument(
        "--if-possible", action="store_true", help="record why a CUDA library cannot be built instead of failing"
    )
    build.add_argument(
        "--allow",
        nargs="+",
        default=[],
        metavar="KERNEL=REASON",
        help="kernels (part of the name) that may spill or have low occupancy",
    )
    inspect = actions.add_parser("inspect", help="show libraries, registers, spills and occupancy")
    inspect.add_argument("records", nargs="*", type=Path, metavar="PATH", help=f"{RECORD} files or folders with them")
    inspect.add_argument("--json", type=new_file, metavar="FILE", help="write the records to FILE")
    actions.add_parser("list", help="list the libraries that would be loaded and what the compiler knows")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    return {"build": _build, "inspect": _inspect, "list": _list}[args.action](args)


# ---- build ----------------------------------------------------------------------------------------------------------


def _build(args: argparse.Namespace) -> int:
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs} is not allowed: give a number of at least 1")
    if args.games:
        return _translate(args.games, args.rom_folder, args.jobs)
    if args.env is not None:
        return _build_environment(args.env, args.backend, args.arch)
    if args.output is None:
        raise UserError(
            "name the folder of the library with --output, the games to translate with --games, or your environment "
            "with --env"
        )
    allowed = parse_allowed(args.allow)
    source = find_source(args.source)
    build_folder = args.build_dir or source / "build" / "kernels"
    if args.backend == "cpu":
        if args.arch:
            raise UserError("--arch belongs to --backend cuda; the CPU library is built for this machine")
        show_records([build_cpu(source, build_folder / "cpu", args.output, args.jobs)])
        return 0
    if not args.arch:
        raise UserError(f"--backend cuda needs --arch: {', '.join(ARCHITECTURES)}")
    for arch in args.arch:
        check_known(arch)
    nvcc, _ = _cuda_compiler(source)
    if nvcc is not None:
        for arch in args.arch:  # before the first of them is built
            check_supported(arch, nvcc)
    records = []
    for arch in args.arch:
        # One architecture is the folder itself, so that a workflow rule can name its outputs.
        output = args.output if len(args.arch) == 1 else args.output / f"sm_{arch}"
        records.append(build_cuda(arch, source, build_folder / f"sm_{arch}", output, args.jobs, args.if_possible))
    show_records(records)
    complaints = [text for record in records for text in check_resources(record, allowed)]
    for text in complaints:
        print(text, file=sys.stderr)
    return 1 if complaints else 0


def _build_environment(header: Path, backend: str, architectures: Sequence[str]) -> int:
    """Compiles a user's environment; prints where the library is and how to use it."""
    if backend == "cpu":
        if architectures:
            raise UserError("--arch belongs to --backend cuda; on the CPU the environment is built for this machine")
        library = environment_build.build_cpu(header)
        name = environment_build.registered_name(header)
        print(f'{name}: {library}\nuse it: seed_hpc.make_vec("{name}", num_envs=64), or env.game={name}')
        return 0
    if not architectures:
        raise UserError(f"--backend cuda needs --arch: {', '.join(ARCHITECTURES)}")
    if (nvcc := find_nvcc()) is None:
        raise environment_build.missing_nvcc()
    for arch in architectures:
        check_known(arch)
        check_supported(arch, nvcc)
    print(f"{environment_build.registered_name(header)}: {environment_build.build_cuda(header, architectures, nvcc)}")
    return 0


def _translate(games: str, rom_folder: Path | None, jobs: int) -> int:
    """Makes the native code of each game; prints where it is."""
    names = game_names() if games == "all" else games.split(",")
    infos = [find_game(name.strip()) for name in names]
    folder = roms.rom_folder(rom_folder)

    def translate(game: GameInfo) -> Path:
        return translation.build(game, folder / f"{game.name}.bin")

    with ThreadPoolExecutor(jobs) as pool:  # the work is in compilers, processes of their own
        for game, library in zip(infos, pool.map(translate, infos), strict=True):
            print(f"{game.name}: {library}", flush=True)
    return 0


def build_cpu(source: Path, build_folder: Path, output: Path, jobs: int) -> dict[str, Any]:
    """Builds libseed_cpu.so and returns its record.

    Raises:
        MissingDependencyError: No CMake.
        RunFailedError: The compiler failed; the message holds the end of its output.
    """
    started = time.monotonic()
    library = _compile(source, build_folder, "seed_cpu", [], jobs, output / "build.log")
    compiler = _cache_entry(build_folder, "CMAKE_CXX_COMPILER")
    return _finish("cpu", platform.machine(), library, compiler, time.monotonic() - started, [], source, output)


def build_cuda(
    arch: str, source: Path, build_folder: Path, output: Path, jobs: int, if_possible: bool
) -> dict[str, Any]:
    """Builds libseed_cuda.so for one architecture and returns its record.

    Args:
        arch: Number of the architecture, "90".
        source: The checkout.
        build_folder: Kept between builds.
        output: Folder of library, kernels.json and resources.json.
        jobs: Compilers at a time.
        if_possible: Record the reason instead of raising where there is no nvcc or no CUDA source.

    Raises:
        UserError: The compiler does not know the architecture.
        MissingDependencyError: No nvcc or no CUDA source.
        RunFailedError: The compiler failed.
    """
    nvcc, reason = _cuda_compiler(source)
    if nvcc is None:
        if not if_possible:
            raise MissingDependencyError(f"libseed_cuda.so for sm_{arch} cannot be built: {reason}")
        record = _record("cuda", arch, _commit(source), status="not_built", reason=reason)
        return _write_record(output, record, None)
    check_supported(arch, nvcc)
    shutil.rmtree(build_folder / "lib", ignore_errors=True)  # PTX of an earlier build
    started = time.monotonic()
    options = [f"-DSEED_CUDA_ARCHS={arch}", f"-DCMAKE_CUDA_COMPILER={nvcc}"]
    library = _compile(source, build_folder, "seed_cuda", options, jobs, output / "build.log")
    seconds = time.monotonic() - started
    kernels = read_resources(arch, output / "build.log", build_folder / "lib")
    return _finish("cuda", arch, library, str(nvcc), seconds, kernels, source, output)


def _cuda_compiler(source: Path) -> tuple[Path | None, str]:
    """Returns nvcc, or None and why a CUDA library cannot be built."""
    nvcc = find_nvcc()
    if nvcc is None:
        return None, "no nvcc was found: install a CUDA toolkit, or name the compiler in CUDACXX"
    if not any((source / "cuda").glob("**/*_cuda.cu")):
        return None, "this version has no CUDA sources (cuda/*/*_cuda.cu)"
    return nvcc, ""


def read_resources(arch: str, log: Path, ptx_folder: Path) -> list[KernelResources]:
    """Joins the assembler's lines with the launch bounds in the kept PTX, and computes occupancy."""
    bounds: dict[str, int] = {}
    for path in sorted(ptx_folder.rglob("*.ptx")):
        bounds |= parse_launch_bounds(path.read_text(encoding="utf-8", errors="replace"))
    kernels = []
    for kernel in parse_assembler_lines(log.read_text(encoding="utf-8", errors="replace")).get(arch, []):
        if (block_size := bounds.get(kernel.name)) is not None:
            occupancy, limiter = theoretical_occupancy(arch, block_size, kernel.registers, kernel.shared_bytes)
            kernel = dataclasses.replace(kernel, block_size=block_size, occupancy=occupancy, limited_by=limiter)
        kernels.append(kernel)
    names = _demangle([kernel.name for kernel in kernels])
    return [dataclasses.replace(kernel, name=name) for kernel, name in zip(kernels, names, strict=True)]


def check_resources(record: Mapping[str, Any], allowed: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each kernel that spills or has low occupancy and is not allowed to."""
    if record["arch"] not in CHECKED_ARCHITECTURES:
        return []
    complaints = []
    for kernel in record["kernels"]:
        faults = []
        if kernel["spill_bytes"]:
            faults.append(f"spills {kernel['spill_bytes']} bytes")
        if kernel["occupancy"] is None:
            faults.append("has no __launch_bounds__, so that its occupancy is not known")
        elif kernel["occupancy"] < MIN_OCCUPANCY:
            faults.append(f"reaches {wording.percent(kernel['occupancy'])} occupancy (limit: {kernel['limited_by']})")
        if faults and not any(part in kernel["name"] for part in allowed):
            complaints.append(
                f"kernel {kernel['name']} on sm_{record['arch']} {' and '.join(faults)}: "
                "change it, or list it with a reason (--allow, kernels.allow in config.yaml)"
            )
    return complaints


def parse_allowed(entries: Sequence[str]) -> dict[str, str]:
    """Reads KERNEL=REASON entries.

    Raises:
        UserError: An entry lacks its reason.
    """
    allowed = {}
    for entry in entries:
        name, _, reason = entry.partition("=")
        if not name.strip() or not reason.strip():
            raise UserError(f"--allow '{entry}' has no reason: write KERNEL=REASON")
        allowed[name.strip()] = reason.strip()
    return allowed


# ---- compilers ------------------------------------------------------------------------------------------------------


def find_nvcc() -> Path | None:
    """Returns nvcc: named in CUDACXX, on the PATH, in CUDA_HOME, in /usr/local/cuda, or of a PyPI wheel."""
    candidates: list[Path | str | None] = [os.environ.get("CUDACXX"), shutil.which("nvcc")]
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    candidates += [Path(home) / "bin" / "nvcc" for home in homes if home]
    candidates += sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin/nvcc"))
    return next((Path(path) for path in candidates if path and os.access(path, os.X_OK) and Path(path).is_file()), None)


def compiler_architectures(nvcc: Path) -> list[str]:
    """Returns the numbers that `nvcc --list-gpu-arch` prints, ascending."""
    listed = _output([str(nvcc), "--list-gpu-arch"])
    return sorted(re.findall(r"compute_(\d+)\b", listed), key=int)


def check_known(arch: str) -> None:
    """Raises `UserError` for what is no architecture, "sm_90" or "9.0"."""
    if arch not in ARCHITECTURES:
        number = re.sub(r"\D", "", arch)
        hint = f" (did you mean {number}?)" if number in ARCHITECTURES else ""
        raise UserError(f"unknown CUDA architecture '{arch}'{hint}: choose from {', '.join(ARCHITECTURES)}")


def check_supported(arch: str, nvcc: Path) -> None:
    """Raises `UserError` where the compiler does not build for the architecture, and names a toolkit that does."""
    known = compiler_architectures(nvcc)
    if arch not in known:
        release = re.search(r"release ([\d.]+)", _output([str(nvcc), "--version"]))
        raise UserError(
            f"{nvcc} (CUDA {release[1] if release else 'of unknown version'}) does not build for sm_{arch}, only for "
            f"{', '.join(known)}: use {ARCHITECTURES[arch].toolkits} and name its nvcc in CUDACXX, or leave {arch} out"
        )


def find_source(folder: Path | None) -> Path:
    """Returns the checkout to build from.

    Raises:
        UserError: There is none.
    """
    source = (folder or Path(__file__).resolve().parents[2]).resolve()
    if not (source / "CMakeLists.txt").is_file() or not (source / "cuda").is_dir():
        raise UserError(f"{source} is no checkout of SEED-HPC (no CMakeLists.txt or cuda/): name one with --source")
    return source


def _compile(source: Path, build_folder: Path, target: str, options: list[str], jobs: int, log: Path) -> Path:
    """Configures and builds one target; returns the library in the build folder."""
    cmake = _tool("cmake")
    if cmake is None:
        raise MissingDependencyError("cmake was not found: `pip install cmake`, or your distribution's package")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if (ninja := _tool("ninja")) else []
    folder = build_folder / "lib"
    configure = [cmake, "-S", str(source), "-B", str(build_folder), *generator, "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DSEED_LIBRARY_DIR={folder}", f"-DPython3_EXECUTABLE={sys.executable}", *options]
    # A clean build, so that the assembler prints the resources of every kernel.
    clean = ["--clean-first"] if target == "seed_cuda" else []
    build = [cmake, "--build", str(build_folder), "--target", target, "--parallel", str(jobs), *clean]
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as file:
            for command in (configure, build):
                done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)
                if done.returncode != 0:
                    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
                    raise RunFailedError(f"{target} could not be built, see {log}:\n{tail}")
    except OSError as error:
        raise UserError(f"{error.filename or log} cannot be written ({error.strerror})") from error
    return folder / f"lib{target}.so"


def _finish(
    backend: str,
    arch: str,
    library: Path,
    compiler: str | None,
    seconds: float,
    kernels: list[KernelResources],
    source: Path,
    output: Path,
) -> dict[str, Any]:
    record = _record(
        backend,
        arch,
        _commit(source),
        status="built",
        library=library.name,
        digest="sha256:" + hashlib.sha256(library.read_bytes()).hexdigest(),
        bytes=library.stat().st_size,
        compiler=_compiler_version(compiler),
        build_seconds=round(seconds, 1),
        kernels=[kernel.to_json() for kernel in kernels],
    )
    return _write_record(output, record, library)


def _record(backend: str, arch: str, commit: str | None, **values: Any) -> dict[str, Any]:
    absent = dict.fromkeys(("reason", "library", "digest", "bytes", "compiler", "build_seconds"))
    return {"backend": backend, "arch": arch, **absent, "commit": commit, "kernels": [], **values}


def _write_record(output: Path, record: dict[str, Any], library: Path | None) -> dict[str, Any]:
    try:
        output.mkdir(parents=True, exist_ok=True)
        if library is not None:
            partial = output / f".{library.name}.partial"
            shutil.copy2(library, partial)
            partial.replace(output / library.name)
        if record["backend"] == "cuda":
            keys = ("arch", "compiler", "kernels")
            resources = {("nvcc" if key == "compiler" else key): record[key] for key in keys}
            write_json(output / "resources.json", resources)
        write_json(output / RECORD, record)
    except OSError as error:
        raise UserError(f"{output} cannot be written ({error.strerror}): give another folder with --output") from error
    return record


def _compiler_version(compiler: str | None) -> str | None:
    if compiler is None:
        return None
    lines = [line for line in _output([compiler, "--version"]).splitlines() if line.strip()]
    release = next((line for line in lines if "release" in line), None)
    return f"nvcc, {release}" if release and "nvcc" in compiler else (lines[0] if lines else compiler)


def _cache_entry(build_folder: Path, name: str) -> str | None:
    text = (build_folder / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    match = re.search(rf"^{name}:\w+=(.+)$", text, re.MULTILINE)
    return match[1] if match else None


def _tool(name: str) -> str | None:
    """A tool on the PATH, or beside this interpreter (a virtual environment that is not activated)."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def _demangle(names: list[str]) -> list[str]:
    """Names without namespaces and parameters: "write_stacks<unsigned int>"; as they are where there is no c++filt."""
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return names
    done = subprocess.run([tool, "--no-params"], input="\n".join(names), capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != len(names):
        return names
    return [re.sub(r"^(void )?(seed::|\(anonymous namespace\)::)*", "", line) for line in lines]


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _commit(source: Path) -> str | None:
    describe = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return _output(describe).strip() or None


# ---- inspect and list -----------------------------------------------------------------------------------------------


def read_records(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Reads kernels.json files, also those in folders below a folder.

    Raises:
        UserError: A path does not exist, holds no record, or the record is damaged.
    """
    records = []
    for path in paths:
        files = sorted(path.rglob(RECORD)) if path.is_dir() else [path]
        if not files:
            raise UserError(f"{path} holds no {RECORD}: run `seed-hpc kernels build` first")
        for file in files:
            record = read_json_object(file, "`seed-hpc kernels build` writes such records")
            if not {"backend", "arch", "status", "kernels"} <= record.keys():
                raise UserError(f"{file} is no record of `seed-hpc kernels build`: build the library again")
            records.append(record)
    return records


def show_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Prints the records: one line a library, one table of kernels an architecture."""
    console = Console(highlight=False, soft_wrap=True)
    for record in records:
        name = f"{record['backend']} {'sm_' if record['backend'] == 'cuda' else ''}{record['arch']}"
        if record["status"] != "built":
            console.print(f"{name}: not built: {record['reason']}", markup=False)
            continue
        details = f"{wording.size(record['bytes'])}, {record['digest'][:19]}, {record['compiler']}"
        console.print(f"{name}: {record['library']}, {details}", markup=False)
        if record["kernels"]:
            console.print(_kernel_table(record["kernels"]))


def _kernel_table(kernels: Sequence[Mapping[str, Any]]) -> Table:
    table = Table()
    table.add_column("kernel", overflow="fold", min_width=20)
    for name in ("registers", "spills B", "shared B", "local B", "block", "occupancy"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("limited by", no_wrap=True)
    for kernel in kernels:
        numbers = [str(kernel[key]) for key in ("registers", "spill_bytes", "shared_bytes", "local_bytes")]
        block = str(kernel["block_size"] or wording.ABSENT)
        limiter = kernel["limited_by"] or wording.ABSENT
        table.add_row(kernel["name"], *numbers, block, wording.percent(kernel["occupancy"]), limiter)
    return table


def _inspect(args: argparse.Namespace) -> int:
    records = read_records(args.records or [Path("results/kernels")])
    show_records(records)
    if args.json is not None:
        try:
            write_json(args.json, records)
        except OSError as error:
            raise UserError(f"{args.json} cannot be written ({error.strerror})") from error
    return 0


def _list(_args: argparse.Namespace) -> int:
    found = [("cuda", path) for path in cuda_device.libraries()]
    for backend in ("cpu",) if found else ("cpu", "cuda"):
        try:
            found.append((backend, _native.library_path(backend)))
        except MissingDependencyError as error:
            print(f"{backend}: {error}")
    for backend, path in sorted(found):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{backend}: {path}, {wording.size(path.stat().st_size)}, sha256:{digest[:12]}")
    nvcc = find_nvcc()
    if nvcc is None:
        print("nvcc: none was found; install a CUDA toolkit, or name the compiler in CUDACXX")
    else:
        print(f"nvcc: {nvcc}, {_compiler_version(str(nvcc))}, builds for {', '.join(compiler_architectures(nvcc))}")
    return 0
