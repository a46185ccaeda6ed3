# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc env`: writes the template of an environment, lists the environments that are no Atari games."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from seed_hpc.envs.environment_table import EnvironmentInfo, find_environment, library_environments
from seed_hpc.errors import UserError

_TEMPLATES = Path(__file__).parent / "template"
# File of the template -> file that is written.
_FILES = {
    "environment.h": "{name}.h",
    "test_environment.txt": "test_{name}.py",
    "experiment.yaml": "{name}_ppo.yaml",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="write a working environment, its test and an experiment to start from")
    new.add_argument("name", metavar="NAME", help="snake case, for example my_env")
    new.add_argument("--folder", type=Path, metavar="DIR", help="where to write (default: a folder of that name)")
    show = actions.add_parser("list", help="list environments with spaces and options")
    show.add_argument("names", nargs="*", metavar="NAME", help="default: all")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action."""
    if args.action == "new":
        return _new(args.name, args.folder or Path(args.name))
    return _list(args.names)


def _new(name: str, folder: Path) -> int:
    from seed_hpc.envs.environment_build import check_name

    check_name(name)
    paths = write_template(name, folder)
    header, test, experiment = paths
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"wrote {', '.join(map(str, paths))}; now:")
    console.print(f"  seed-hpc kernels build --env {header}")
    console.print(f"  python -m pytest {test}")
    console.print(f"  seed-hpc train --config {experiment}")
    return 0


def write_template(name: str, folder: Path) -> list[Path]:
    """Writes header, test and experiment of an environment and returns their paths.

    Raises:
        UserError: A file exists already, or the folder cannot be written; nothing was changed then.
    """
    type_name = "".join(word.capitalize() for word in name.split("_"))
    targets = {folder / target.format(name=name): _TEMPLATES / source for source, target in _FILES.items()}
    for target in targets:
        if target.exists():
            raise UserError(f"{target} exists already: choose another name, or another --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, source in targets.items():
            text = source.read_text(encoding="utf-8")
            target.write_text(re.sub(r"\bMyEnv\b", type_name, text.replace("my_env", name)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): choose another --folder") from error
    return list(targets)


def _list(names: list[str]) -> int:
    from seed_hpc.envs.environment_build import built_names

    infos, broken = [], []
    for name in names or [*library_environments(), *built_names()]:
        try:
            infos.append(find_environment(name))
        except UserError as error:
            if names:
                raise
            broken.append(f"{name}: {error}")  # one of the cache's; the others are there all the same
    table = Table("environment", "observation", "action", "steps", "options")
    for info in infos:
        options = "\n".join(f"{option.name}={option.value:g}: {option.text}" for option in info.options)
        table.add_row(info.name, _observation(info), _action(info), str(info.max_episode_steps or "any"), options)
    Console().print(table)
    for reason in broken:
        print(reason, file=sys.stderr)
    return 1 if broken else 0


def _observation(info: EnvironmentInfo) -> str:
    shape = " x ".join(map(str, info.observation_space.shape))
    return f"{info.observation_space.dtype} {shape}"


def _action(info: EnvironmentInfo) -> str:
    if isinstance(info.action_space, spaces.Discrete):
        return f"one of {info.action_space.n}"
    return f"{info.action_space.shape[0]} numbers in [-1, 1]"
