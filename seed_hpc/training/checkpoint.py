# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a folder of whole files, and latest.json that names the newest.

A file is written beside its place, flushed and renamed, and only then named in latest.json; a process killed at any
moment leaves the previous checkpoint in charge. With several processes each writes a file of its own environments,
and the checkpoint counts when all of them are there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.files import write_atomically, write_json

logger = logging.getLogger(__name__)

FORMAT = 2  # since 2 the last convolution is flattened pixel by pixel


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: Made when it is absent.
        keep: Older checkpoints than the newest `keep` are removed.
    """

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder, self.keep = folder, keep

    def save(self, state: dict[str, Any], *, frames: int) -> Path:
        """Writes a checkpoint of a single process and returns its file; see `write`."""
        path = self.write(state, frames=frames)
        self.commit(frames)
        return path

    def write(self, state: dict[str, Any], *, frames: int, rank: int = 0) -> Path:
        """Writes one rank's file and returns it; it does not count before `commit`.

        Args:
            state: Tensors and plain values, nested.
            frames: Position in the run; part of the name.
            rank: Whose state it is.

        Raises:
            RunFailedError: The disk does not take it; the earlier checkpoints are untouched.
        """
        path = self.folder / _file_name(frames, rank)
        with _explaining(path):
            self.folder.mkdir(exist_ok=True)
            write_atomically(path, lambda file: torch.save({"format": FORMAT, **state}, file))
        return path

    def commit(self, frames: int) -> None:
        """Makes a checkpoint that every rank has written the newest one, and removes those that are too old.

        Files beyond it go too: a run that was resumed from before them has left them behind.

        Raises:
            RunFailedError: As for `write`.
        """
        newest = self.folder / _file_name(frames)
        with _explaining(newest):
            write_json(self.folder / "latest.json", {"file": newest.name, "frames": frames, "format": FORMAT})
            whole = sorted(path for path in self.folder.glob("checkpoint_*.pt") if path.suffixes == [".pt"])
            kept = [path for path in whole if path.name <= newest.name][-self.keep :]
            for old in set(whole) - set(kept):
                for path in self.folder.glob(f"{old.stem}.*"):
                    path.unlink(missing_ok=True)

    def latest(self) -> Path | None:
        """Returns the newest checkpoint, or None where there is none.

        Raises:
            UserError: There are checkpoints, but latest.json does not tell which of them counts.
        """
        index = self.folder / "latest.json"
        whole = sorted(path for path in self.folder.glob("checkpoint_*.pt") if path.suffixes == [".pt"])
        try:
            named = self.folder / str(json.loads(index.read_text())["file"])
            if named in whole:
                return named
            reason = f"names {named.name}, which is not there"
        except FileNotFoundError:
            if len(whole) < 2:  # a run that ended while it wrote its first one
                return None
            reason = "is missing"
        except (OSError, ValueError, KeyError, TypeError):
            reason = "is damaged"
        if not whole:
            return None
        raise UserError(
            f'{index} {reason}: to go on from the newest file there, write {{"file": "{whole[-1].name}"}} into it'
        )


def _file_name(frames: int, rank: int = 0) -> str:
    return f"checkpoint_{frames:015d}{f'.rank{rank}' if rank else ''}.pt"


@contextlib.contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        raise RunFailedError(
            f"the checkpoint {path} cannot be written ({_reason(error)}): free space, then resume the run from the "
            "checkpoint before"
        ) from error


def rank_file(path: Path, rank: int) -> Path:
    """Returns the file of one rank that belongs to a checkpoint's own file `path`."""
    return path.with_suffix(f".rank{rank}.pt") if rank else path


def load_checkpoint(path: Path, device: torch.device | str = "cpu", *, lazily: bool = False) -> dict[str, Any]:
    """Reads a checkpoint; nothing in it is executed.

    Args:
        path: The file.
        device: Where its tensors are to be.
        lazily: Read a tensor when it is used (on a CPU): a replay may be gigabytes that an evaluation does not need.

    Raises:
        UserError: The file is absent, damaged, or of another format.
    """
    try:
        mmap = lazily and torch.device(device).type == "cpu"
        state = torch.load(path, map_location=device, weights_only=True, mmap=mmap)
    except FileNotFoundError as error:
        raise UserError(f"the checkpoint {path} does not exist") from error
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise UserError(f"the checkpoint {path} is damaged and cannot be read: {_reason(error)}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of format {FORMAT}: it was written by another version")
    return state


def _reason(error: BaseException) -> str:
    """The first line of what went wrong; torch hides the system's error behind one of its own."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return (str(error) or type(error).__name__).splitlines()[0]
