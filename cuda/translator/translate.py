# SPDX-License-Identifier: Apache-2.0
"""Translates the code of a cartridge into C++: the same machine, with the 6502 compiled away.

An interpreter spends most of its time finding out what the next instruction is. The program of a cartridge never
changes, so that is known once and for all: every instruction becomes the few statements it stands for, addresses,
cycle counts and bus values are folded in, and the compiler removes flags that nobody reads. What cannot be known
beforehand (code in RAM, targets never seen, undocumented opcodes) goes to the interpreter, instruction by instruction.

    translate(rom_bytes, cartridge, trace) -> C++ source; cuda/translator/translated.h is what that source includes.

A *location* is an index into the ROM image; bank-switched images are a row of 4 KB banks. The trace says for each
location whether an instruction starts there (bit 0) and whether it is entered from elsewhere than its neighbour, a
branch or a call (bit 1: after RTS, RTI, JMP (), a bank switch, or at the start of a frame). Code that the trace did not
see but that follows statically is translated as well.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path

from opcodes import BRANCHES, OPCODES, READ_MODIFY_WRITES, READS, STORES, Opcode

EXECUTED, ENTERED = 1, 2

# Hot spots of the bank-switched types: offset in the 4 KB window -> bank.
HOT_SPOTS = {
    "2K": {},
    "4K": {},
    "F8": {0xFF8: 0, 0xFF9: 1},
    "F8SC": {0xFF8: 0, 0xFF9: 1},
    "F6": {0xFF6: 0, 0xFF7: 1, 0xFF8: 2, 0xFF9: 3},
    "F6SC": {0xFF6: 0, 0xFF7: 1, 0xFF8: 2, 0xFF9: 3},
}

# Branch -> its condition; `nz` keeps N and Z as the machine does (machine/mos6502.h).
CONDITION = {
    "BPL": "!(nz & 0x180)", "BMI": "nz & 0x180", "BNE": "nz & 0xFF", "BEQ": "!(nz & 0xFF)",
    "BVC": "!v", "BVS": "v", "BCC": "!c", "BCS": "c",
}  # fmt: skip


class UnsupportedCartridgeError(ValueError):
    """The cartridge type maps its ROM in smaller pieces than a bank; its games run in the interpreter."""


@dataclass
class Instruction:
    """One decoded instruction of the image."""

    location: int
    opcode: Opcode
    operand: int  # immediate, zero-page or absolute operand; for branches the target's location
    leads_to: list[int] = field(default_factory=list)  # locations that may follow and are known


class Translator:
    """Decodes the reachable code of one image and writes its C++."""

    def __init__(self, rom: bytes, cartridge: str, trace: bytes) -> None:
        if cartridge not in HOT_SPOTS:
            raise UnsupportedCartridgeError(f"cartridge type {cartridge} is not translated")
        self.rom = rom
        self.cartridge = cartridge
        self.hot_spots = HOT_SPOTS[cartridge]
        self.window = min(len(rom), 4096)
        self.mask = self.window - 1
        self.superchip = cartridge.endswith("SC")
        self.instructions: dict[int, Instruction] = {}
        self.leaders: set[int] = set()
        self.entries: set[int] = {i for i, bits in enumerate(trace) if bits & ENTERED}
        self._discover([i for i, bits in enumerate(trace) if bits & EXECUTED])

    # ---- Decoding ------------------------------------------------------------------------------------------------

    def _bank_base(self, location: int) -> int:
        return location - location % self.window

    def _decode(self, location: int) -> Instruction | None:
        opcode = OPCODES.get(self.rom[location])
        offset = location & self.mask
        if opcode is None or offset + opcode.length > self.window:
            return None  # undocumented, or wraps around the end of the bank
        bank = self._bank_base(location)
        raw = self.rom[location + 1 : location + opcode.length]
        operand = int.from_bytes(raw, "little")
        following = location + opcode.length
        instruction = Instruction(location, opcode, operand)
        name = opcode.mnemonic
        if name in BRANCHES:
            target = offset + 2 + (operand ^ 0x80) - 0x80
            if not 0 <= target < self.window or offset + 2 >= self.window:
                return None
            instruction.operand = bank + target
            instruction.leads_to = [bank + target, following]
        elif name == "JMP":
            if opcode.mode == "abs" and operand & 0x1000:
                instruction.leads_to = [bank + (operand & self.mask)]
        elif name == "JSR":
            if operand & 0x1000:
                instruction.leads_to = [bank + (operand & self.mask)]
            if following < bank + self.window:
                self.entries.add(following)
                instruction.leads_to.append(following)
        elif name not in ("RTS", "RTI", "BRK") and following < bank + self.window:
            instruction.leads_to = [following]
        return instruction

    def _discover(self, roots: list[int]) -> None:
        work = list(roots)
        while work:
            location = work.pop()
            if location in self.instructions:
                continue
            instruction = self._decode(location)
            if instruction is None:
                continue
            self.instructions[location] = instruction
            work.extend(instruction.leads_to)
        for instruction in self.instructions.values():
            following = instruction.location + instruction.opcode.length
            self.leaders.update(
                t for t in instruction.leads_to if t != following or instruction.opcode.mnemonic in BRANCHES
            )
            self._note_bank_switch(instruction)
        self.entries &= self.instructions.keys()
        self.leaders = (self.leaders | self.entries) & self.instructions.keys()

    def _note_bank_switch(self, instruction: Instruction) -> None:
        """After an access that switches banks the program goes on at the same offset of the other bank."""
        target = self._switch_target(instruction)
        if target is not None:
            self.entries.add(target)

    def _switch_target(self, instruction: Instruction) -> int | None:
        if instruction.opcode.mode != "abs" or instruction.opcode.mnemonic in ("JMP", "JSR"):
            return None
        if not instruction.operand & 0x1000:
            return None
        bank = self.hot_spots.get(instruction.operand & 0xFFF)
        if bank is None:
            return None
        return bank * 4096 + ((instruction.location + instruction.opcode.length) & 0xFFF)

    # ---- Writing -------------------------------------------------------------------------------------------------

    def source(self) -> str:
        """Returns the C++ of the whole cartridge."""
        entries = sorted(self.entries)
        number = {location: i + 1 for i, location in enumerate(entries)}
        table = [number.get(i, 0) for i in range(len(self.rom))]
        bases = self._pc_bases()
        lines = [
            "// Generated by cuda/translator/translate.py from the ROM image with MD5",
            f"// {hashlib.md5(self.rom).hexdigest()}. Do not edit.",
            f"#define SEED_ROM_MASK 0x{self.mask:X}",
            f"#define SEED_ROM_BANKED {int(bool(self.hot_spots))}",
            f"#define SEED_ROM_SUPERCHIP {int(self.superchip)}",
            f"#define SEED_ROM_BASE 0x{bases[0]:X}",
            f"#define SEED_ROM_HAS_ONE_BASE {int(len(bases) == 1)}",
            '#include "translator/translated.h"',
            "",
            "namespace {",
            "// Location -> number of the entry into translated code; 0 where there is none.",
            f"constexpr uint16_t kEntries[{len(self.rom)}] = {{",
            *("  " + ",".join(map(str, table[i : i + 64])) + "," for i in range(0, len(table), 64)),
            "};",
            "}  // namespace",
            "",
            "SEED_TRANSLATED_BEGIN",
            "SEED_DISPATCH_BEGIN",
            *(f"  case {number[location]}: goto L{location:04X};" for location in entries),
            "SEED_DISPATCH_END",
            *self._body(),
            "SEED_TRANSLATED_END",
            "",
        ]
        return "\n".join(lines)

    def _pc_bases(self) -> list[int]:
        """The PC bits above the window that jumps put there, the most frequent first."""
        count: dict[int, int] = {}
        for instruction in self.instructions.values():
            opcode, operand = instruction.opcode, instruction.operand
            if opcode.mnemonic in ("JMP", "JSR") and opcode.mode == "abs" and operand & 0x1000:
                base = operand & 0xFFFF & ~self.mask
                count[base] = count.get(base, 0) + 1
        vector = int.from_bytes(self.rom[-4:-2], "little") & ~self.mask & 0xFFFF
        count.setdefault(vector, 0)
        return sorted(count, key=lambda base: -count[base])

    def _body(self) -> list[str]:
        order = sorted(self.instructions)
        successor = dict(itertools.pairwise(order))
        # Where code overlaps, the following instruction is not the next one written and is reached by a jump.
        for location in order:
            following = location + self.instructions[location].opcode.length
            if following in self.instructions and successor.get(location) != following:
                self.leaders.add(following)
        self.lines: list[str] = []
        self.elapsed = 0  # cycles that `t` is behind, known while translating
        for location in order:
            instruction = self.instructions[location]
            if location in self.leaders:
                self.lines.append(f"L{location:04X}:")
            self._write(instruction)
            if instruction.opcode.mnemonic in ("JMP", "RTS", "RTI", "BRK", "JSR"):
                self.elapsed = 0
                continue
            following = location + instruction.opcode.length
            if following not in self.instructions:
                self._settle()
                self._emit(f"CONTINUE_AT(0x{following & self.mask:X});")
            elif successor.get(location) != following:
                self._settle()
                self._emit(f"goto L{following:04X};")
            elif following in self.leaders:
                self._settle()
        return self.lines

    def _emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def _settle(self) -> None:
        """Brings `t` up to date; what follows may be reached from elsewhere."""
        if self.elapsed:
            self._emit(f"t += {self.elapsed};")
            self.elapsed = 0

    def _goto(self, location: int) -> str:
        return (
            f"goto L{location:04X};" if location in self.instructions else f"CONTINUE_AT(0x{location & self.mask:X});"
        )

    def _write(self, instruction: Instruction) -> None:
        opcode, operand = instruction.opcode, instruction.operand
        name, mode = opcode.mnemonic, opcode.mode
        following = (instruction.location + opcode.length) & self.mask
        if name in BRANCHES:
            self._write_branch(instruction)
            return
        self.elapsed += opcode.cycles
        if name in READS:
            self._emit(f"{name}({self._read(instruction)});")
            self._check_bank(instruction)
        elif name in STORES:
            self._store(instruction, f"{name[2].lower()}")
            self._check_bank(instruction)
        elif name in READ_MODIFY_WRITES:
            if mode == "acc":
                self._emit(f"{name}(a);")
            else:
                self._read_modify_write(instruction)
        elif name == "JMP" and mode == "abs":
            self._settle()
            if operand & 0x1000:
                target = instruction.leads_to[0]
                check = f"CHECK_CYCLES(0x{operand:X}); " if target <= instruction.location else ""
                self._emit(f"SET_BASE(0x{operand & ~self.mask & 0xFFFF:X}); {check}{self._goto(target)}")
            else:
                self._emit(f"DISPATCH(0x{operand:X});")
        elif name == "JSR":
            self._settle()
            self._emit(f"PUSH_WORD(BASE + 0x{following - 1:X}, 0x{operand:X});")
            if operand & 0x1000:
                self._emit(f"SET_BASE(0x{operand & ~self.mask & 0xFFFF:X}); {self._goto(instruction.leads_to[0])}")
            else:
                self._emit(f"DISPATCH(0x{operand:X});")
        elif name in ("PHA", "PHP"):
            self._settle()
            self._emit(f"{name}(0x{following:X});")
        elif name in ("PLA", "PLP"):
            self._settle()
            self._emit(f"{name}(0x{self.rom[instruction.location]:X});")
        elif name == "RTS":
            self._settle()
            self._emit(f"RTS(0x{instruction.location & self.mask:X});")
        elif name in ("RTI", "BRK") or (name == "JMP" and mode == "ind"):
            self.elapsed -= opcode.cycles
            self._settle()
            self._emit(f"INTERPRET_AT(0x{instruction.location & self.mask:X});")
        else:
            self._emit(f"{name}();")

    def _write_branch(self, instruction: Instruction) -> None:
        target, location = instruction.operand, instruction.location
        self.elapsed += 2
        cycles = self.elapsed + (1 if (target ^ (location + 2)) & 0xFF00 == 0 else 2)
        check = f"CHECK_CYCLES(BASE + 0x{target & self.mask:X}); " if target <= location else ""
        self._emit(f"if ({CONDITION[instruction.opcode.mnemonic]}) {{ t += {cycles}; {check}{self._goto(target)} }}")

    # ---- Memory --------------------------------------------------------------------------------------------------

    def _stamp(self) -> str:
        return f"t + {self.elapsed}"

    def _read(self, instruction: Instruction) -> str:
        """Returns the expression of an instruction's operand."""
        mode, operand = instruction.opcode.mode, instruction.operand
        if mode == "imm":
            return f"0x{operand:02X}"
        if mode == "zp":
            return self._read_constant(instruction, operand, operand)
        if mode == "abs":
            return self._read_constant(instruction, operand, operand >> 8)
        if mode in ("zpx", "zpy"):
            return f"ZERO_PAGE_READ(0x{operand:02X} + {mode[2]}, {self._stamp()}, 0x{operand:02X})"
        if mode in ("abx", "aby"):
            index = mode[2]
            if instruction.opcode.page_penalty and operand & 0xFF:
                self._emit(f"t += (0x{operand & 0xFF:02X} + {index}) >> 8;")
            if self._is_plain_rom(operand):
                bank = self._bank_base(instruction.location)
                return f"rom_bytes[0x{bank + (operand & self.mask):X} + {index}]"
            return f"READ(0x{operand:04X} + {index}, {self._stamp()}, 0x{operand >> 8:02X})"
        if mode == "izx":
            self._emit(f"POINTER_X(0x{operand:02X});")
            return f"READ(pointer, {self._stamp()}, POINTER_HIGH)"
        self._emit(f"POINTER(0x{operand:02X});")
        if instruction.opcode.page_penalty:
            self._emit("t += ((pointer & 0xFF) + y) >> 8;")
        return f"READ(pointer + y, {self._stamp()}, POINTER_HIGH)"

    def _is_plain_rom(self, base: int) -> bool:
        """Whether base .. base + 255 is ROM of this bank without hot spots, RAM or an end of the window."""
        if not base & 0x1000 or (base + 255) & 0x1000 == 0 or base + 255 > 0xFFFF:
            return False
        first = base & self.mask
        if first + 255 > self.mask or (self.superchip and first < 0x100):
            return False
        return not any(first <= spot <= first + 255 for spot in self.hot_spots)

    def _read_constant(self, instruction: Instruction, address: int, bus: int) -> str:
        if address & 0x1000:
            offset = address & self.mask
            if (self.superchip and offset < 0x100) or (address & 0xFFF) in self.hot_spots:
                return f"READ(0x{address:04X}, {self._stamp()}, 0x{bus:02X})"
            return f"0x{self.rom[self._bank_base(instruction.location) + offset]:02X}"
        if address & 0x80 == 0:
            return f"TIA_READ(0x{address & 0xF:X}, {self._stamp()}, 0x{bus:02X})"
        if address & 0x200 == 0:
            return f"ram[0x{address & 0x7F:02X}]"
        return f"RIOT_READ(0x{address & 7:X}, {self._stamp()})"

    def _store(self, instruction: Instruction, value: str) -> None:
        mode, operand = instruction.opcode.mode, instruction.operand
        following = f"0x{(instruction.location + instruction.opcode.length) & self.mask:X}"
        address = {
            "zp": f"0x{operand:02X}", "abs": f"0x{operand:04X}", "zpx": f"(0x{operand:02X} + x) & 0xFF",
            "zpy": f"(0x{operand:02X} + y) & 0xFF", "abx": f"0x{operand:04X} + x", "aby": f"0x{operand:04X} + y",
            "izx": "pointer", "izy": "pointer + y",
        }[mode]  # fmt: skip
        if mode in ("zp", "abs") and not operand & 0x1000:
            self._store_constant(operand, value, following)
            return
        self._settle()
        if mode in ("izx", "izy"):
            self._emit(f"{'POINTER' if mode == 'izy' else 'POINTER_X'}(0x{operand:02X});")
        self._emit(f"WRITE({address}, {value}, {following});")

    def _store_constant(self, address: int, value: str, following: str) -> None:
        if address & 0x80 == 0:
            register = address & 0x3F
            if register == 2:
                self._settle()
                self._emit(f"WSYNC({value}, {following});")
            else:
                self._emit(f"TIA_WRITE(0x{register:02X}, {value}, {self.elapsed}, {following});")
        elif address & 0x200 == 0:
            self._emit(f"ram[0x{address & 0x7F:02X}] = {value};")
        else:
            self._emit(f"RIOT_WRITE(0x{address & 0x1F:02X}, {value}, {self._stamp()});")

    def _read_modify_write(self, instruction: Instruction) -> None:
        mode, operand, name = instruction.opcode.mode, instruction.operand, instruction.opcode.mnemonic
        if mode in ("zp", "abs") and not operand & 0x1000 and operand & 0x280 == 0x80:
            self._emit(f"{name}(ram[0x{operand & 0x7F:02X}]);")
            return
        self._settle()
        address = {
            "zp": f"0x{operand:02X}", "abs": f"0x{operand:04X}", "zpx": f"(0x{operand:02X} + x) & 0xFF",
            "abx": f"0x{operand:04X} + x",
        }[mode]  # fmt: skip
        bus = operand >> 8 if mode in ("abs", "abx") else operand
        following = (instruction.location + instruction.opcode.length) & self.mask
        self._emit(
            f"{{ const uint16_t address = {address}; uint8_t value = READ(address, t, 0x{bus:02X}); {name}(value); "
            f"WRITE(address, value, 0x{following:X}); }}"
        )
        self._check_bank(instruction)

    def _check_bank(self, instruction: Instruction) -> None:
        """After an access that may hit a hot spot: go on in the bank that is there now."""
        mode, operand = instruction.opcode.mode, instruction.operand
        if not self.hot_spots or mode in ("imm", "zp", "zpx", "zpy", "imp", "acc"):
            return
        following = instruction.location + instruction.opcode.length
        if mode == "abs":
            if not operand & 0x1000 or (operand & 0xFFF) not in self.hot_spots:
                return
            target = self._switch_target(instruction)
            assert target is not None
            self._settle()
            if target != following:
                self._emit(self._goto(target))
            return
        if mode in ("abx", "aby") and (self._is_plain_rom(operand) or operand + 255 < 0x1000):
            return
        bank = self._bank_base(instruction.location) // 4096
        self._emit(f"CHECK_BANK({bank}, {self.elapsed}, 0x{following & self.mask:X});")


def translate(rom: bytes, cartridge: str, trace: bytes) -> str:
    """Returns C++ for a ROM image.

    Args:
        rom: The image.
        cartridge: Its type ("2K", "4K", "F8", "F8SC", "F6" or "F6SC").
        trace: One byte for each byte of the image; see the module's text.

    Raises:
        UnsupportedCartridgeError: The type is not translated.
    """
    return Translator(rom, cartridge, trace).source()


def main() -> int:
    """Command line: image, type, trace -> source file."""
    parser = argparse.ArgumentParser(description="Translate a cartridge into C++.")
    parser.add_argument("rom", type=Path)
    parser.add_argument("cartridge", choices=sorted(HOT_SPOTS))
    parser.add_argument("trace", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    args.output.write_text(translate(args.rom.read_bytes(), args.cartridge, args.trace.read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
