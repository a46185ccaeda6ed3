# SPDX-License-Identifier: Apache-2.0
"""Compiles the CUDA pool for the host and compares it with the CPU library, game by game.

`make parity-kernels` runs it: all games, 64 lanes, 500 steps of four frames, each game in one of three settings.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from seed_hpc import _native
from seed_hpc.envs import roms
from seed_hpc.envs.games import find_game, game_names

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "cuda"
NUM_SETTINGS = 3  # of parity_pool_kernels.cpp


def compile_for_host(folder: Path, main: Path | None, *, sanitize: bool, optimization: str | None = None) -> Path:
    """Compiles the CUDA pool with a host launcher.

    Args:
        folder: Of the result.
        main: Source of the program; None makes a shared library.
        sanitize: With AddressSanitizer and UndefinedBehaviorSanitizer.
        optimization: Default: -O1 with sanitizers (compiles in a third of the time), else -O3.

    Returns:
        The program, or libseed_cuda.so.
    """
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise FileNotFoundError("no g++ or clang++")
    (folder / "games").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, CUDA / "games" / "generate_tables.py", folder / "games" / "tables.h"], check=True)
    result = folder / (main.stem if main is not None else "libseed_cuda.so")
    command = [compiler, "-std=gnu++17", "-ffp-contract=off", "-w", "-DSEED_HOST_LAUNCHER"]
    command += [optimization or ("-O1" if sanitize else "-O3")]
    command += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if sanitize else []
    command += [f"-I{path}" for path in (CUDA, CUDA / "include", folder)]
    command += [str(main)] if main is not None else ["-shared", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique"]
    command += ["-x", "c++", CUDA / "abi_cuda.cu", *sorted((CUDA / "pool").glob("*_cuda.cu")), "-o", result, "-ldl"]
    subprocess.run(command, check=True)
    return result


def compile_parity(folder: Path, *, sanitize: bool, optimization: str | None = None) -> Path:
    """Compiles the program that compares."""
    main = CUDA / "tests" / "parity_pool_kernels.cpp"
    return compile_for_host(folder, main, sanitize=sanitize, optimization=optimization)


def compare(program: Path, game: str, lanes: int, steps: int, setting: int | None = None) -> str:
    """Returns "" if every output of every lane was equal in every step, else what the program says."""
    numbers = [str(lanes), str(steps), *([] if setting is None else [str(setting)])]
    command = [program, _native.library_path("cpu"), str(find_game(game).index), roms.rom_folder() / f"{game}.bin"]
    done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 and "equal" in done.stdout else done.stdout + done.stderr


def sources_digest() -> str:
    """Returns the SHA-256 of everything below cuda/: what both sides of the comparison are made from."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CUDA.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        digest.update(str(path.relative_to(CUDA)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def earlier_results(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Returns the games that a run of the same sources and size, interrupted perhaps, has found equal."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    same = all(found.get(key) == record[key] for key in ("sources", "lanes", "steps", "sanitizers"))
    return {game: row for game, row in found["games"].items() if row["result"] == "equal"} if same else {}


def main() -> int:
    """Compares all games; prints a line a game and writes the record anew after each, so that a run can be taken up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="games at a time (default: processors)")
    parser.add_argument("--games", help="some games only, separated by commas")
    parser.add_argument("--json", type=Path, help="the record; a run of the same sources goes on where it ended")
    args = parser.parse_args()
    name = "kernels_on_host_sanitized" if args.sanitize else "kernels_on_host"
    path = args.json or ROOT / "build" / f"{name}_{args.lanes}x{args.steps}.json"
    program = compile_parity(ROOT / "build" / name, sanitize=args.sanitize, optimization="-O3")
    describe = ["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"]
    record: dict[str, Any] = {
        "commit": subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip(),
        "sources": sources_digest(),
        "lanes": args.lanes,
        "steps": args.steps,
        "sanitizers": args.sanitize,
    }
    record["games"] = earlier_results(path, record)
    chosen = [find_game(game).name for game in args.games.split(",")] if args.games else game_names()
    settings = {game: index % NUM_SETTINGS for index, game in enumerate(game_names())}

    def compared(game: str) -> tuple[str, dict[str, Any]]:
        started = time.monotonic()
        complaint = compare(program, game, args.lanes, args.steps, settings[game])
        seconds = round(time.monotonic() - started, 1)
        return game, {"result": complaint or "equal", "setting": settings[game], "seconds": seconds}

    with ThreadPoolExecutor(args.jobs) as threads:  # each waits for a process
        for game, row in threads.map(compared, [game for game in chosen if game not in record["games"]]):
            record["games"][game] = row
            print(f"{game}: {row['result']} ({row['seconds']} s)", flush=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(record, indent=1), encoding="utf-8")
            partial.replace(path)
    num_equal = sum(record["games"][game]["result"] == "equal" for game in chosen)
    print(f"{num_equal} of {len(chosen)} games equal: {path}")
    return 0 if num_equal == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
