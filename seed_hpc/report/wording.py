# SPDX-License-Identifier: Apache-2.0
"""Numbers and times as a reader says them: 2.0 M frames, 9 min 12 s, 1.4 GiB."""

from __future__ import annotations

from typing import Any

ABSENT = "–"


def count(value: float | None) -> str:
    """12,345 below a million, then 2.00 M or 1.20 G."""
    if value is None:
        return ABSENT
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:,.0f}"


def number(value: float | None, digits: int = 4) -> str:
    """A figure with `digits` significant digits, thousands separated, a true minus sign, no exponent below 1e6."""
    if value is None:
        return ABSENT
    if abs(value) >= 10 ** (digits - 1):
        text = f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "\N{MINUS SIGN}") if "e" not in text else text


def score(value: float | None) -> str:
    """A return: one decimal below 1,000, none above."""
    if value is None:
        return ABSENT
    rounded = round(value, 1) + 0.0  # + 0.0 turns minus zero into zero
    return (f"{rounded:.1f}" if abs(rounded) < 1000 else f"{rounded:,.0f}").replace("-", "\N{MINUS SIGN}")


def duration(seconds: float | None) -> str:
    """41 s, 9 min 12 s, 3 h 05 min."""
    if seconds is None:
        return ABSENT
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(num_bytes: float | None) -> str:
    """1.4 GiB, 512 MiB, 12 KiB."""
    if num_bytes is None:
        return ABSENT
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if num_bytes >= 2**power:
            scaled = num_bytes / 2**power
            return f"{scaled:.1f} {unit}" if scaled < 100 else f"{scaled:,.0f} {unit}"
    return f"{num_bytes:.0f} B"


def percent(share: float | None) -> str:
    """38 %."""
    return ABSENT if share is None else f"{round(100 * share)} %".replace("-", "\N{MINUS SIGN}")


def signed_percent(share: float | None) -> str:
    """+2.2 %, −4.1 %."""
    return ABSENT if share is None else f"{100 * share:+.1f} %".replace("-", "\N{MINUS SIGN}")


def plural(number_of: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{number_of} {noun}{'' if number_of == 1 else 's'}"


def command(words: Any) -> str | None:
    """The command that a record holds, as a user types it; None where it holds none."""
    if isinstance(words, list):
        if words[:1] in (["cli.py"], ["__main__.py"]):  # started with python -m
            words = ["seed-hpc", *words[1:]]
        return " ".join(map(str, words))
    return None if words is None else str(words)
