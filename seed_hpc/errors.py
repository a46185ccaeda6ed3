# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can cause: one sentence each, shown without a traceback, exit code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user gave cannot be used; the message says what came, what is allowed and what to do."""


class MissingDependencyError(UserError):
    """An optional package, library or device is needed; the message says how to get it."""


class RunFailedError(RuntimeError):
    """A run ended early, not through the user: a lost peer, a full disk; the message says how to go on; exit code 1."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `` (did you mean 'x'?)`` for the known name closest to `name`, or an empty string.

    Args:
        name: What the user wrote.
        known: The names that exist.
    """
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" (did you mean '{match[0]}'?)" if match else ""
