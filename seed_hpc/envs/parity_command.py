# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc parity`: proves on this machine that the emulator equals ale-py, or names the first difference."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from seed_hpc.envs import parity
from seed_hpc.envs.games import find_game, game_names
from seed_hpc.envs.parity import Comparison
from seed_hpc.envs.roms import read_rom
from seed_hpc.errors import UserError, nearest
from seed_hpc.files import new_file, write_json


@dataclass(frozen=True, kw_only=True)
class Task:
    """All comparisons of one game that run in one process."""

    game: str
    seeds: tuple[int, ...]
    frames: int
    modes: bool
    mode_frames: int
    vector: bool
    lanes: int
    steps: int
    variants: tuple[str, ...]
    folder: Path | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `seed-hpc parity`."""
    parser.add_argument("--games", default="all", help="names, separated by commas, or 'all' (default)")
    parser.add_argument("--frames", type=int, default=2000, help="random-action frames a game and seed (default 2000)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds (default 1)")
    parser.add_argument("--modes", action="store_true", help="compare every mode and difficulty of each game instead")
    parser.add_argument("--mode-frames", type=int, default=600, help="frames a mode and difficulty (default 600)")
    parser.add_argument("--vector", action="store_true", help="compare the vector environments instead")
    parser.add_argument("--lanes", type=int, default=8, help="lanes of a vector environment (default 8)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of a vector environment (default 2000)")
    parser.add_argument(
        "--variants",
        default="default",
        help=f"option sets of --vector, separated by commas, or 'all': {', '.join(parity.VECTOR_VARIANTS)}",
    )
    parser.add_argument("--jobs", type=int, default=0, help="games at a time (default: one a processor)")
    parser.add_argument("--rom-folder", type=Path, help="folder of <game>.bin files (default: the ale-py package)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write every comparison to FILE")
    parser.add_argument(
        "--table",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="compare nothing, print FILEs of --json as one Markdown table",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the comparisons; returns 0 when all are equal, else 1."""
    if args.table is not None:
        print(markdown_table([read_document(path) for path in args.table]))
        return 0
    tasks = plan_tasks(args)
    parity.import_ale_py()
    start = time.monotonic()
    jobs = args.jobs or os.cpu_count() or 1
    results: list[Comparison] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for task, comparisons in zip(tasks, pool.map(run_in_process, tasks), strict=True):
            results += comparisons
            print(game_line(task.game, comparisons), flush=True)
    print(summary(results, time.monotonic() - start))
    if args.json is not None:
        write_json(args.json, document(args, results, time.monotonic() - start))
    return 0 if results and all(result.equal for result in results) else 1


def plan_tasks(args: argparse.Namespace) -> list[Task]:
    """Turns the arguments into one task a game.

    Raises:
        UserError: An argument is out of range, a game or variant unknown, or a ROM image missing.
    """
    for option in ("frames", "seeds", "mode_frames", "lanes", "steps"):
        if getattr(args, option) < 1:
            raise UserError(f"--{option.replace('_', '-')} is {getattr(args, option)}, it must be at least 1")
    if args.jobs < 0:
        raise UserError(f"--jobs is {args.jobs}, it must be at least 1 (0 = one a processor)")
    games = game_names() if args.games == "all" else tuple(find_game(name).name for name in args.games.split(","))
    known = parity.VECTOR_VARIANTS
    variants = tuple(known) if args.variants == "all" else tuple(args.variants.split(","))
    for variant in variants:
        if variant not in known:
            raise UserError(f"there is no variant '{variant}'{nearest(variant, known)}: use {', '.join(known)} or all")
    for game in games:
        read_rom(find_game(game), args.rom_folder)
    return [
        Task(
            game=game,
            seeds=tuple(range(args.seeds)),
            frames=args.frames,
            modes=args.modes,
            mode_frames=args.mode_frames,
            vector=args.vector,
            lanes=args.lanes,
            steps=args.steps,
            variants=variants,
            folder=args.rom_folder,
        )
        for game in games
    ]


# ---- Running -----------------------------------------------------------------------------------------------------


def compare_game(task: Task) -> Iterable[Comparison]:
    """Carries out a task."""
    for seed in task.seeds:
        if task.vector:
            for variant in task.variants:
                yield parity.compare_vector(task.game, seed, task.lanes, task.steps, variant, task.folder)
        elif task.modes:
            yield from parity.compare_modes(task.game, seed, task.mode_frames, task.folder)
        else:
            yield parity.compare_machine(task.game, seed, task.frames, task.folder)


def run_in_process(task: Task) -> list[Comparison]:
    """Carries out a task in a process of its own: ale-py ends its process on some errors."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_comparisons, args=(task, sender), daemon=True)
    process.start()
    sender.close()
    results: list[Comparison] = []
    while True:
        try:
            message = receiver.recv()
        except EOFError:
            break
        results.append(message)
    process.join()
    if process.exitcode != 0 and not any(result.error for result in results):
        results.append(_failed(task, f"the process ended with code {process.exitcode}"))
    return results


def _send_comparisons(task: Task, sender: Connection[Comparison, Any]) -> None:
    try:
        for comparison in compare_game(task):
            sender.send(comparison)
    except Exception as error:
        sender.send(_failed(task, f"{type(error).__name__}: {error}"))
    sender.close()


def _failed(task: Task, message: str) -> Comparison:
    kind = "vector" if task.vector else "machine"
    return Comparison(game=task.game, kind=kind, seed=task.seeds[0], error=message)


# ---- Output ------------------------------------------------------------------------------------------------------


def game_line(game: str, comparisons: Sequence[Comparison]) -> str:
    """Returns one line on a game, and a line on each comparison that failed."""
    frames = sum(result.frames for result in comparisons)
    episodes = sum(result.episodes for result in comparisons)
    rewards = sum(result.rewards for result in comparisons)
    verdict = "equal" if comparisons and all(result.equal for result in comparisons) else "DIFFERENT"
    line = f"{game:20} {len(comparisons):4} runs {frames:9} frames {episodes:5} episodes {rewards:6} rewards  {verdict}"
    for result in comparisons:
        if not result.equal:
            variant = f" {result.variant}" if result.variant else ""
            line += f"\n  {result.game} seed {result.seed}{variant}: {result.error or result.difference}"
    return line


def summary(results: Sequence[Comparison], seconds: float) -> str:
    """Returns the closing line."""
    games = {result.game for result in results}
    failed = {result.game for result in results if not result.equal}
    frames = sum(result.frames for result in results)
    verdict = "all equal" if not failed else f"{len(failed)} different: {', '.join(sorted(failed))}"
    return f"{len(games)} games, {len(results)} runs, {frames} frames compared in {seconds:.0f} s: {verdict}"


def read_document(path: Path) -> dict[str, Any]:
    """Returns what `--json` wrote.

    Raises:
        UserError: The file cannot be read or is none of ours.
    """
    try:
        content = json.loads(path.read_text())
        if content["schema_version"] != 1:
            raise KeyError
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): name files that --json wrote") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is no file of seed-hpc parity: name files that --json wrote") from None
    return dict(content)


def markdown_table(documents: Sequence[dict[str, Any]]) -> str:
    """Returns a line for each game and two columns for each document: what was compared, and whether it was equal."""
    kinds = [document_kind(entry) for entry in documents]
    header = " | ".join(f"{kind} runs | {'lane-steps' if kind == 'vector' else 'frames'}" for kind in kinds)
    lines = [f"| game | {header} | equal |", "|---|" + "---:|" * (2 * len(kinds)) + "---|"]
    games = sorted({comparison["game"] for entry in documents for comparison in entry["comparisons"]})
    for game in [*games, "all"]:
        cells, equal = [], True
        for entry in documents:
            rows = [row for row in entry["comparisons"] if game in (row["game"], "all")]
            cells.append(f"{len(rows):,} | {sum(row['frames'] for row in rows):,}")
            equal &= bool(rows) and all(row["difference"] is None and row["error"] is None for row in rows)
        lines.append(f"| {game} | {' | '.join(cells)} | {'yes' if equal else 'NO'} |")
    return "\n".join(lines)


def document_kind(content: dict[str, Any]) -> str:
    """Returns what a document compared: machine, modes or vector."""
    return "vector" if content["options"]["vector"] else "modes" if content["options"]["modes"] else "machine"


def document(args: argparse.Namespace, results: Sequence[Comparison], seconds: float) -> dict[str, Any]:
    """Returns everything that was compared as plain JSON values."""
    import ale_py

    options = {
        key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items() if key != "table"
    }
    return {
        "schema_version": 1,
        "options": options,
        "ale_py_version": ale_py.__version__,
        "seconds": seconds,
        "equal": bool(results) and all(result.equal for result in results),
        "comparisons": [asdict(result) for result in results],
    }
