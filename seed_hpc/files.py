# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or absent: written beside their place, flushed to the disk, then renamed. And reading JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from seed_hpc.errors import UserError


def new_file(text: str) -> Path:
    """Returns the path of a file to write; an argparse type, so that a bad one is refused before the work it is for.

    Raises:
        argparse.ArgumentTypeError: A file cannot be made there.
    """
    path = Path(text)
    if text == "-":  # the terminal, where a command offers that
        return path
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is a folder: name a file")
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{path} cannot be written: {folder} is no folder, name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written: you may not write to {folder}, name another file")
    return path


def read_json_object(path: Path, advice: str) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        path: The file.
        advice: What to do if it is none: "name a kernels.json".

    Raises:
        UserError: The file does not exist or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: {advice}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {advice}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no JSON object: {advice}")
    return value


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Calls `write` with a file that takes the place of `path` once it is complete on the disk.

    A process that dies in between leaves the old file as it was; the leftover is overwritten the next time.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)  # on a full disk its space is needed
        if isinstance(error, OSError) and error.filename is None:  # neither write nor fsync tells of which file
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8, atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically, and makes its folder; NaN and infinity become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
