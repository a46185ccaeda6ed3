# SPDX-License-Identifier: Apache-2.0
"""`make gpu-check`: builds the CUDA library for this device, checks it against the CPU, measures it, writes a record.

The record is results/gpu/<device>.json, with a Markdown table beside it. Without a device it says "no device".
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from gpu.on_device import difference, graph_against_eager, throughput

from seed_hpc.envs.games import game_names
from seed_hpc.errors import UserError
from seed_hpc.profiling import kernels_command

ROOT = Path(__file__).resolve().parents[2]
MEASURED_GAMES = ("pong", "breakout", "space_invaders", "seaquest", "qbert", "ms_pacman", "riverraid", "up_n_down")
BATCHES = (256, 1024, 4096, 16384)


def find_device() -> tuple[str | None, str]:
    """Returns the device's name, or None and why there is none."""
    if not torch.cuda.is_available():
        build = "a build without CUDA" if torch.version.cuda is None else f"CUDA {torch.version.cuda}"
        return None, f"no device: PyTorch {torch.__version__} ({build}) finds no NVIDIA GPU"
    return torch.cuda.get_device_name(), ""


def build() -> dict[str, Any]:
    """Builds the library for the present device, where environments look for it."""
    arch = "{}{}".format(*torch.cuda.get_device_capability())
    source, folder = kernels_command.find_source(ROOT), ROOT / "build" / "cuda" / f"sm_{arch}"
    return kernels_command.build_cuda(arch, source, ROOT / "build" / "kernels" / f"sm_{arch}", folder, 3, False)


def parity(num_envs: int, num_steps: int, device: str = "cuda", games: list[str] | None = None) -> dict[str, str]:
    """Returns for each game "equal", or what differs."""
    found = {}
    for index, game in enumerate(games or game_names()):
        try:
            found[game] = difference(game, num_envs, num_steps, index % 3, device) or "equal"
        except (UserError, RuntimeError) as error:  # a kernel that fails must not hide the games before it
            found[game] = f"{type(error).__name__}: {error}"
        print(f"{game}: {found[game]}", flush=True)
    return found


def run_tool(command: list[str], timeout_s: float) -> str:
    """Runs a program; returns "passed" and the last line that it printed, or why not."""
    if shutil.which(command[0]) is None:
        return f"not run: {command[0]} is not installed"
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"not finished after {timeout_s:.0f} s"
    if done.returncode != 0:
        return f"failed: {(done.stdout + done.stderr)[-2000:]}"
    return " ".join(["passed:", *done.stdout.splitlines()[-1:]])


def to_markdown(record: dict[str, Any]) -> str:
    """Returns the table of speeds."""
    lines = [f"Device: {record['device']}, commit {record['commit']}.", "", "| game | lanes | frames/s | KB a lane |"]
    lines.append("|---|---:|---:|---:|")
    for row in record["throughput"]:
        columns = f"{row['frames_per_second']:,} | {row['lane_bytes'] / 1000:.0f}"
        lines.append(f"| {row['game']} | {row['num_envs']:,} | {columns} |")
    return "\n".join(lines) + "\n"


def check(args: argparse.Namespace, record: dict[str, Any]) -> bool:
    """Fills the record; returns whether all is well."""
    record["kernels"] = build()
    record["parity_lanes"], record["parity_steps"] = args.lanes, args.steps
    record["parity"] = parity(args.lanes, args.steps)
    record["parity_of_many_lanes"] = {"pong": difference("pong", 4096, 60) or "equal"}
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests, small = [*pytest, "tests/gpu/test_cuda.py"], ["-k", "tensors or stream"]
    record["tests"] = run_tool(tests, 300)
    record["exchange"] = run_tool([*pytest, "tests/gpu/test_exchange_cuda.py"], 120)  # skips itself with a single GPU
    record["compute_sanitizer"] = run_tool(["compute-sanitizer", "--error-exitcode", "1", *tests, *small], 120)
    record["graph"] = graph_against_eager("pong", 4096)
    record["throughput"] = [throughput(game, lanes, args.seconds) for game in MEASURED_GAMES for lanes in BATCHES]
    loop = ["seed_hpc.cli", "bench", "loop", "--config", "pong_ppo", "--repeats", "3", "--seconds", "3"]
    record["loop"] = run_tool([sys.executable, "-m", *loop, "training.device=cuda"], 120)
    equal = {*record["parity"].values(), *record["parity_of_many_lanes"].values()} == {"equal"}
    return equal and record["graph"]["equal"] and tools_passed(record)


def tools_passed(record: dict[str, Any]) -> bool:
    """Whether every program that ran has passed; of the tests on one GPU none may have been skipped."""
    passed = all(record[name].startswith("passed") for name in ("tests", "exchange", "loop"))
    sanitized = record["compute_sanitizer"].startswith(("passed", "not run"))
    return passed and sanitized and "skipped" not in record["tests"]


def main() -> int:
    """Returns 0 if all is well or there is no device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=64, help="of each game in the comparison with the CPU")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "gpu")
    args = parser.parse_args()
    name, reason = find_device()
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    record: dict[str, Any] = {"device": name or "no device", "commit": commit, "torch": torch.__version__}
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / (re.sub(r"\W+", "_", name or "no device").lower() + ".json")
    started, fine = time.monotonic(), True
    if name is None:
        record["reason"] = reason
        print(reason)
    else:
        try:
            fine = check(args, record)
            path.with_suffix(".md").write_text(to_markdown(record), encoding="utf-8")
        except Exception:  # what was found until then is worth keeping
            fine, record["error"] = False, traceback.format_exc()
            print(record["error"])
    record["passed"], record["seconds"] = fine if name else None, round(time.monotonic() - started, 1)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {'nothing was checked' if name is None else 'passed' if fine else 'FAILED'}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
