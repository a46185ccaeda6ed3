# SPDX-License-Identifier: Apache-2.0
"""Numbers and units as profilers print them: thousands separators, decimal commas, n/a, spellings of units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

_SPACES = re.compile(r"[\s\u00a0\u202f'’]")  # thousands separators of French and Swiss locales
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?%?")
_MISSING = frozenset({"", "n/a", "nan", "-", "(!) n/a", "none", "no data"})


@dataclass(frozen=True)
class NumberStyle:
    """How one file writes numbers. A single value may be ambiguous ("1,234"); a file seldom is."""

    decimal: str = "."

    def parse(self, text: str) -> float | None:
        """Returns the number; None for "n/a", an empty field, or text that is no number."""
        cleaned = _SPACES.sub("", text)
        if cleaned.lower() in _MISSING or not _NUMBER.fullmatch(cleaned):
            return None
        thousands = "," if self.decimal == "." else "."
        try:
            return float(cleaned.rstrip("%").replace(thousands, "").replace(self.decimal, "."))
        except ValueError:
            return None

    @classmethod
    def detect(cls, texts: Iterable[str], *, default: str = ".") -> NumberStyle:
        """Finds the decimal mark from all numbers of a file.

        A mark is the decimal one where it cannot be a thousands separator: it stands once and is not followed by
        exactly three digits, or it follows a zero or more than three digits, or the other mark precedes it.

        Args:
            texts: The fields of the numeric columns.
            default: The decimal mark of a file in which every number is ambiguous.
        """
        votes = {".": 0, ",": 0}
        for text in texts:
            cleaned = _SPACES.sub("", text)
            if _NUMBER.fullmatch(cleaned) and (mark := _decimal_mark(cleaned.lstrip("+-").rstrip("%"))):
                votes[mark] += 1
        if votes["."] == votes[","]:
            return cls(default)
        return cls("." if votes["."] > votes[","] else ",")


def _decimal_mark(number: str) -> str | None:
    """Returns the mark that must be the decimal one, or None where both readings are possible."""
    mantissa = re.split("[eE]", number)[0]
    last = max(mantissa.rfind("."), mantissa.rfind(","))
    if last < 0:
        return None
    mark, before, after = mantissa[last], mantissa[:last], mantissa[last + 1 :]
    other = "," if mark == "." else "."
    if mark in before:  # a thousands separator stands more than once
        return other
    if other in before:
        return mark
    if len(after) == 3 and 0 < len(before) <= 3 and before != "0":
        return None
    return mark


# Powers of ten; decimal also for bytes, as ncu's "Kbyte" is 1000.
_PREFIXES = {"n": -9, "u": -6, "µ": -6, "m": -3, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
# Spelling -> base unit. ncu wrote "usecond" and "Gbyte" up to 2024.1 and "us", "GB" since; "Ghz" is cycle/nsecond.
_BASE_UNITS = {
    "second": "second",
    "sec": "second",
    "s": "second",
    "byte": "byte",
    "bytes": "byte",
    "B": "byte",
    "hz": "cycle/second",
    "Hz": "cycle/second",
    **{name: name for name in ("cycle", "inst", "sector", "request", "warp", "block", "thread", "register", "flop")},
}


def base_unit(unit: str) -> tuple[int, str]:
    """Returns (exponent, base unit): a value times 10**exponent is in seconds, bytes, cycles, ...

    A unit without a known spelling is returned as it is with exponent 0.
    """
    numerator, _, denominator = unit.strip().partition("/")
    exponent, name = _split_prefix(numerator)
    if not denominator:
        return exponent, name
    below, below_name = _split_prefix(denominator)
    return exponent - below, f"{name}/{below_name}"


def scale(value: float, exponent: int) -> float:
    """Returns value * 10**exponent, exact to the decimal digits that were printed ("0.007975 Gbyte" is 7975000)."""
    return float(Decimal(repr(value)).scaleb(exponent))


def nanoseconds(value: float, unit: str) -> float | None:
    """Converts a time to nanoseconds; None where the unit is no time."""
    exponent, name = base_unit(unit)
    return scale(value, 9 + exponent) if name == "second" else None


def _split_prefix(unit: str) -> tuple[int, str]:
    if unit in _BASE_UNITS:
        return 0, _BASE_UNITS[unit]
    if unit[:1] in _PREFIXES and unit[1:] in _BASE_UNITS:
        return _PREFIXES[unit[0]], _BASE_UNITS[unit[1:]]
    return 0, unit
