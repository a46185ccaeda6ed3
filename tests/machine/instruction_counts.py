# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that a frame takes (callgrind), and compares them with the stored baseline.

Counts do not depend on what else runs on the machine, so a change of a few percent is a fact about the code. They do
depend on the compiler: a baseline counts for the version that it names.

    make count-instructions                 compare
    make count-instructions REFRESH=1       store new counts, after a change that is meant to cost or save something
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from seed_hpc import _native
from seed_hpc.envs import roms, translation
from seed_hpc.envs.games import find_game

SOURCES = Path(__file__).resolve().parents[2] / "cuda"
BASELINE = Path(__file__).with_name("instruction_counts.json")

# A count may be higher by this share.
TOLERANCE = 0.03

# Game, what is run, frames, native code.
CASES = [
    ("pong", "act", 300, True),
    ("qbert", "act", 300, True),
    ("qbert", "act", 200, False),
    ("pong", "vector", 1600, True),
    ("seaquest", "vector", 1600, True),
    ("riverraid", "vector", 1600, True),
]


def build_driver(folder: Path) -> Path:
    """Compiles cuda/tests/run_frames.cpp and returns the program."""
    driver = folder / "run_frames"
    command = [translation.compiler(), "-std=gnu++17", "-O2", f"-I{SOURCES / 'include'}", "-o", str(driver)]
    subprocess.run([*command, str(SOURCES / "tests" / "run_frames.cpp"), "-ldl"], check=True)
    return driver


def instructions_per_frame(driver: Path, game: str, mode: str, frames: int, native_code: bool) -> int:
    """Returns the instructions of one emulated frame of random play.

    Args:
        driver: See `build_driver`.
        game: The game's name.
        mode: "act", one machine with its picture, or "vector", a step of 8 environments with observations.
        frames: Emulated frames to count.
        native_code: Whether the cartridge's program is translated.
    """
    info = find_game(game)
    rom = roms.rom_folder(None) / f"{game}.bin"
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*callgrind, "--toggle-collect=measured_frames", str(driver), str(_native.library_path("cpu"))]
    command += [str(rom), game, mode, str(frames)]
    if native_code:
        command.append(str(translation.build(info, rom)))
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    assert collected is not None, result.stderr[-500:]
    return int(collected.group(1)) // int(result.stdout.split()[0])


def name_of(case: tuple[str, str, int, bool]) -> str:
    """Returns the key of a case in the baseline."""
    game, mode, _, native_code = case
    return f"{game} {mode} {'native' if native_code else 'interpreter'}"


def compiler_version() -> str:
    """Returns the first line that the compiler says about its version, and the instruction set that is used."""
    command = [translation.compiler(), "--version"]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return f"{line} {_native.library_path('cpu').parent.name}"


def reason_to_skip() -> str | None:
    """Returns why there is nothing to compare here, or None."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    stored = json.loads(BASELINE.read_text())["compiler"]
    if stored != compiler_version():
        return f"the baseline was counted with '{stored}', here is '{compiler_version()}'"
    return None


def count_all() -> dict[str, int]:
    """Returns the instructions of a frame in each case."""
    with tempfile.TemporaryDirectory() as folder:
        driver = build_driver(Path(folder))
        return {name_of(case): instructions_per_frame(driver, *case) for case in CASES}


def main() -> int:
    """Command line; ends 1 when a count is too high."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refresh", action="store_true", help="store the counts as the new baseline")
    args = parser.parse_args()
    os.environ.setdefault("SEED_HPC_TRANSLATION", "1")
    if not args.refresh and (reason := reason_to_skip()) is not None:
        print(f"not compared: {reason}")
        return 0
    counts = count_all()
    if args.refresh:
        document = {"compiler": compiler_version(), "instructions_per_frame": counts}
        BASELINE.write_text(json.dumps(document, indent=2) + "\n")
    stored = json.loads(BASELINE.read_text())["instructions_per_frame"]
    for name, count in counts.items():
        print(f"{name:28} {count:9,}  {count / stored[name] - 1:+.1%}")
    return int(any(count > stored[name] * (1 + TOLERANCE) for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
