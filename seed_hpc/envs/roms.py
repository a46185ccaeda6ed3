# SPDX-License-Identifier: Apache-2.0
"""Finds ROM images: in a folder that the user names, or in the installed ale-py package. None comes with SEED-HPC."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from seed_hpc.envs.games import GameInfo, find_game, game_names
from seed_hpc.errors import MissingDependencyError, UserError


def rom_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Returns the folder that holds `<game>.bin` files.

    Args:
        folder: The user's choice; None takes the environment variable SEED_HPC_ROMS, then the ale-py package.

    Raises:
        UserError: The named folder does not exist.
        MissingDependencyError: Nothing was named and ale-py is not installed.
    """
    named = folder or os.environ.get("SEED_HPC_ROMS")
    if named:
        path = Path(named).expanduser()
        if not path.is_dir():
            origin = "" if folder else " (from the environment variable SEED_HPC_ROMS)"
            raise UserError(f"the ROM folder {path}{origin} does not exist: name a folder that holds <game>.bin files")
        return path
    package = importlib.util.find_spec("ale_py")
    if package is None or not package.submodule_search_locations:
        raise MissingDependencyError(
            "no ROM images: install them with `pip install ale-py`, or name your own folder in SEED_HPC_ROMS"
        )
    return Path(next(iter(package.submodule_search_locations))) / "roms"


def check_rom(game: GameInfo, image: bytes, where: str) -> None:
    """Raises a UserError unless `image` is the ROM that the game's rules were written for.

    Args:
        game: The game.
        image: The file's bytes.
        where: What to call the image in the message.
    """
    if len(image) != game.size:
        raise UserError(f"{where} has {len(image)} bytes, the ROM image of {game.name} has {game.size}")
    md5 = hashlib.md5(image, usedforsecurity=False).hexdigest()
    if md5 != game.md5:
        raise UserError(f"{where} has the MD5 hash {md5}, the ROM image of {game.name} has {game.md5}")


def read_rom(game: GameInfo, folder: str | os.PathLike[str] | None = None) -> bytes:
    """Returns the checked ROM image of `game`.

    Args:
        game: The game.
        folder: See `rom_folder`.

    Raises:
        UserError: The file is missing, unreadable, or another image.
    """
    return read_rom_file(game, rom_folder(folder) / f"{game.name}.bin")


def read_rom_file(game: GameInfo, path: Path) -> bytes:
    """Returns the checked ROM image in the file `path`.

    Raises:
        UserError: The file is missing, unreadable, or another image.
    """
    image = _read(path)
    check_rom(game, image, str(path))
    return image


def identify_rom(path: Path) -> tuple[GameInfo, bytes]:
    """Returns the game whose ROM image is in the file `path`, whatever the file's name, and the image.

    Raises:
        UserError: The file is missing, unreadable, or the image of no game.
    """
    image = _read(path)
    md5 = hashlib.md5(image, usedforsecurity=False).hexdigest()
    known = [game for game in map(find_game, game_names()) if game.md5 == md5]
    game = known[0] if known else find_game(path.stem)
    check_rom(game, image, str(path))
    return game, image


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"the ROM image {path} cannot be read: {error.strerror}") from error
