# SPDX-License-Identifier: Apache-2.0
"""Reads a profiler's text file into lines and strict CSV rows, and says in one sentence when it is cut or no text."""

from __future__ import annotations

import csv
from pathlib import Path

from seed_hpc.errors import UserError


def read_text(path: Path) -> str:
    """Returns the file's text (UTF-8, or UTF-16 as some shells redirect it) without a byte order mark.

    Raises:
        UserError: The file is missing, empty or not text.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise UserError(f"{path} is empty: the tool that should have written it failed; look at its log")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file") from None
    if "\0" in text:
        raise UserError(f"{path} is not a text file")
    return text


def delimiter(header: str) -> str:
    """Returns the separator of a header line: a comma, or what a spreadsheet of another locale writes."""
    return max(",;\t", key=header.count)


def rows(path: Path, lines: list[str], separator: str) -> list[list[str]]:
    """Splits lines into fields; quoted fields may span lines.

    Raises:
        UserError: A quote is not closed, which means that the file is cut.
    """
    try:
        return list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error as error:
        raise UserError(f"{path} is damaged or cut off ({error}): export it again") from None


def split_line(line: str, separator: str) -> list[str]:
    """Splits one line into fields; an unclosed quote does not matter here."""
    return next(csv.reader([line], delimiter=separator), [])


def check_widths(path: Path, rows: list[list[str]], minimum: int, maximum: int) -> None:
    """Raises `UserError` for a row that is cut, or split by decimal commas without quotes."""
    for number, row in enumerate(rows, start=1):
        if not minimum <= len(row) <= maximum:
            raise UserError(
                f"{path}: row {number} of a table has {len(row)} fields instead of {maximum}: the file is cut off, or "
                "its decimal commas are not quoted; export it again with LC_ALL=C"
            )
