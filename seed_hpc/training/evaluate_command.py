# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc evaluate`: measures a trained agent and writes evaluation.json and episode.gif into its run directory."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from seed_hpc.config import load_resolved
from seed_hpc.errors import UserError
from seed_hpc.files import new_file, write_json
from seed_hpc.training.process import prepare_process

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="results/<experiment>/<run_id>")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="default: the newest of the run")
    parser.add_argument(
        "--json", type=new_file, metavar="FILE", help="where to write (default: RUN_DIR/evaluation.json)"
    )
    parser.add_argument("--no-gif", action="store_true", help="do not record an episode")
    parser.add_argument(
        "--require-better-than-random",
        action="store_true",
        help="exit with 1 unless the agent's 95 %% interval lies above the random policy's",
    )
    parser.add_argument(
        "--require-better-than-reference",
        action="store_true",
        help="exit with 1 unless the 95 %% interval of the gain on the environment's reference policy lies above 0",
    )
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="KEY=VALUE", help="for example evaluation.episodes=100"
    )


def run(args: argparse.Namespace) -> int:
    """Evaluates; returns 1 only where --require-better-than-... is not met."""
    prepare_process()
    from seed_hpc.envs.environment_table import is_environment
    from seed_hpc.training.checkpoint import CheckpointStore
    from seed_hpc.training.episode_gif import record_episode
    from seed_hpc.training.evaluate import beats_random, beats_reference, evaluate
    from seed_hpc.training.loop import choose_device
    from seed_hpc.training.run_directory import RunDirectory, now

    directory = RunDirectory(args.run_dir)
    experiment = load_resolved(args.run_dir / "config.yaml", args.overrides)
    checkpoint = args.checkpoint or CheckpointStore(args.run_dir / "checkpoints").latest()
    if checkpoint is None:
        raise UserError(f"{args.run_dir} has no checkpoint yet (status: {directory.status}): train it first")
    device = choose_device(experiment.training.device)
    target = args.json or args.run_dir / "evaluation.json"
    result = evaluate(experiment, checkpoint, device)
    try:
        write_json(target, {**result, "run_id": directory.run_id, "created": now()})
        if experiment.evaluation.gif_frames and not args.no_gif and not is_environment(experiment.env.game):
            gif = target.with_name("episode.gif")
            record_episode(experiment, checkpoint, gif, max_frames=experiment.evaluation.gif_frames, device=device)
    except OSError as error:
        raise UserError(
            f"{target.parent} cannot be written ({error.strerror}): choose another file with --json"
        ) from error
    for line in _sentences(result):
        logger.info(line)
    if args.require_better_than_random and not beats_random(result):
        logger.error("failed: the agent's interval does not lie above that of the random policy")
        return 1
    if args.require_better_than_reference and not beats_reference(result):
        logger.error("failed: the agent's gain on the reference policy is not above 0, or there is no such policy")
        return 1
    return 0


def _sentences(result: dict[str, Any]) -> list[str]:
    def interval(values: dict[str, Any]) -> str:
        low, high = values["ci95"]
        return f"{values['mean']:.2f}  [{low:.2f}, {high:.2f}]  ({values['episodes']} episodes)"

    lines = [
        f"{result['game']}: mean return and 95 % interval",
        f"  agent   {interval(result)}",
        f"  random  {interval(result['random'])}",
    ]
    if "teacher" in result:
        lost = result["return_lost"]
        lines.append(f"  teacher {interval(result['teacher'])}")
        lines.append(
            f"  lost    {lost['mean']:.2f}  [{lost['ci95'][0]:.2f}, {lost['ci95'][1]:.2f}]  with "
            f"{result['parameters']:,} parameters instead of {result['teacher']['parameters']:,}"
        )
    if (reference := result.get("reference")) is not None:
        gain = reference["gain"]
        low, high = gain["ci95"]
        lines.append(f"  reference policy   {interval(reference)}")
        lines.append(f"  agent's gain on it, episode by episode   {gain['mean']:.2f}  [{low:.2f}, {high:.2f}]")
    if result["human"] is not None:
        lines.append(f"  human   {result['human']:.2f}  ({result['human_source']})")
    return lines
