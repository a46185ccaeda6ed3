# SPDX-License-Identifier: Apache-2.0
"""How each cartridge type shows its ROM in the 4 KB window, as far as it is known while translating."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mapping:
    """One cartridge type.

    Attributes:
        window: Bytes that are switched as one piece; code runs on within it.
        hot_spots: Window offset of an access that switches -> the 4 KB bank it brings; -1: not known beforehand.
        effects: Window offsets that are no plain ROM: an access does more than read a byte, hot spots included.
    """

    window: int = 4096
    hot_spots: dict[int, int] = field(default_factory=dict)
    effects: frozenset[int] = frozenset()

    def location(self, address: int, seen_from: int) -> int | None:
        """Where the byte at `address` is in the image for code at location `seen_from`; None: it depends."""
        return seen_from - seen_from % self.window + address % self.window


class SlicedMapping(Mapping):
    """E0: three 1 KB quarters show any slice, the last always slice 7."""

    def location(self, address: int, seen_from: int) -> int | None:
        """See `Mapping`."""
        return 7 * 1024 + (address & 0x3FF) if address & 0xC00 == 0xC00 else None


class AddressMapping(Mapping):
    """FE: address bit 13 is the bank."""

    def location(self, address: int, seen_from: int) -> int | None:
        """See `Mapping`."""
        return (~address & 0x2000) >> 1 | address & 0xFFF


def _banked(first_hot_spot: int, banks: int, effects: range | tuple[int, ...] = ()) -> Mapping:
    hot_spots = {first_hot_spot + bank: bank for bank in range(banks)}
    return Mapping(4096, hot_spots, frozenset(hot_spots) | frozenset(effects))


_SUPERCHIP_RAM = range(0x100)
# Pitfall II's chip counts its random register on these reads.
_DISPLAY_CHIP = (*range(0x80), *range(0xFC0, 0x1000))
_SLICE_SPOTS = dict.fromkeys(range(4064, 4088), -1)

MAPPINGS: dict[str, Mapping] = {
    "2K": Mapping(2048),
    "4K": Mapping(),
    "F8": _banked(0xFF8, 2),
    "F8SC": _banked(0xFF8, 2, _SUPERCHIP_RAM),
    "F6": _banked(0xFF6, 4),
    "F6SC": _banked(0xFF6, 4, _SUPERCHIP_RAM),
    "E0": SlicedMapping(1024, _SLICE_SPOTS, frozenset(_SLICE_SPOTS)),
    "FE": AddressMapping(),
    "DPC": _banked(0xFF8, 2, _DISPLAY_CHIP),
}
