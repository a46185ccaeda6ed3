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

from mapping import MAPPINGS
from opcodes import BRANCHES, OPCODES, READ_MODIFY_WRITES, READS, STORES, Opcode

EXECUTED, ENTERED = 1, 2

# Branch -> its condition; `nz` keeps N and Z as the machine does (machine/mos6502.h).
CONDITION = {
    "BPL": "!(nz & 0x180)", "BMI": "nz & 0x180", "BNE": "nz & 0xFF", "BEQ": "!(nz & 0xFF)",
    "BVC": "!v", "BVS": "v", "BCC": "!c", "BCS": "c",
}  # fmt: skip


JUMPS = BRANCHES | {"JMP", "JSR"}

# Register that a timer poll loads -> the instruction that may compare it.
COMPARE_OF = {"LDA": "CMP", "LDX": "CPX", "LDY": "CPY"}


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
        self.rom = rom
        self.cartridge = cartridge
        self.mapping = MAPPINGS[cartridge]
        self.window = self.mapping.window
        self.mask = self.window - 1
        self.instructions: dict[int, Instruction] = {}
        self.leaders: set[int] = set()
        self.entries: set[int] = {i for i, bits in enumerate(trace) if bits & ENTERED}
        self._discover([i for i, bits in enumerate(trace) if bits & EXECUTED])

    # ---- Decoding ------------------------------------------------------------------------------------------------

    def _decode(self, location: int) -> Instruction | None:
        opcode = OPCODES.get(self.rom[location])
        offset = location % self.window
        if opcode is None or offset + opcode.length > self.window:
            return None  # undocumented, or wraps around the end of the bank
        following = location + opcode.length
        if any(byte & 0xFFF in self.mapping.effects for byte in range(location, following)):
            return None  # fetching it does something
        operand = int.from_bytes(self.rom[location + 1 : following], "little")
        instruction = Instruction(location, opcode, operand)
        name = opcode.mnemonic
        if name in BRANCHES:
            target = following + (operand ^ 0x80) - 0x80
            if target // self.window != location // self.window or following % self.window == 0:
                return None
            instruction.operand = target
            instruction.leads_to = [target, following]
            return instruction
        if name in ("JMP", "JSR") and opcode.mode == "abs" and operand & 0x1000:
            target = self.mapping.location(operand, location)
            if target is not None:
                instruction.leads_to = [target]
        if following % self.window:
            if name == "JSR":
                self.entries.add(following)
            if name not in ("JMP", "RTS", "RTI", "BRK"):
                instruction.leads_to.append(following)
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
                t for t in instruction.leads_to if t != following or instruction.opcode.mnemonic in JUMPS
            )
            switched = self._switched(instruction)
            if switched is not None:
                self.entries.add(switched)
        self.entries &= self.instructions.keys()
        self.leaders = (self.leaders | self.entries) & self.instructions.keys()

    def _switched(self, instruction: Instruction) -> int | None:
        """Where the program goes on after an access that surely switches banks; the same place for slices."""
        if instruction.opcode.mode != "abs" or instruction.opcode.mnemonic in ("JMP", "JSR"):
            return None
        if not instruction.operand & 0x1000:
            return None
        bank = self.mapping.hot_spots.get(instruction.operand & 0xFFF)
        following = instruction.location + instruction.opcode.length
        if bank is None or bank < 0:
            return bank and following
        return bank * 4096 + (following & 0xFFF)

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
            f"#define SEED_ROM_TYPE seed::CartridgeType::k{self.cartridge}",
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
        last_bank = min(len(self.rom), 8192)
        start = int.from_bytes(self.rom[last_bank - 4 : last_bank - 2], "little")
        count.setdefault(start & ~self.mask & 0xFFFF, 0)
        return sorted(count, key=lambda base: -count[base])

    def _body(self) -> list[str]:
        order = sorted(self.instructions)
        successor = dict(itertools.pairwise(order))
        # Where code overlaps, the following instruction is not the next one written and is reached by a jump.
        for location in order:
            following = location + self.instructions[location].opcode.length
            if following in self.instructions and following % self.window and successor.get(location) != following:
                self.leaders.add(following)
        self.lines: list[str] = []
        self.elapsed = 0  # cycles that `t` is behind, known while translating
        for location in order:
            instruction = self.instructions[location]
            if location in self.leaders:
                self.lines.append(f"L{location:04X}:")
                self._skip_idle_rounds(instruction)
            self._write(instruction)
            if instruction.opcode.mnemonic in ("JMP", "RTS", "RTI", "BRK", "JSR"):
                self.elapsed = 0
                continue
            following = location + instruction.opcode.length
            if following not in self.instructions or following % self.window == 0:
                self._settle()
                self._emit(f"CONTINUE_AT(0x{self._offset_after(instruction):X});")
            elif successor.get(location) != following:
                self._settle()
                self._emit(f"goto L{following:04X};")
            elif following in self.leaders:
                self._settle()
        return self.lines

    def _skip_idle_rounds(self, head: Instruction) -> None:
        """Before a loop that only waits: skips the rounds that surely go on. The last one runs as it is.

        `DEX/DEY/INX/INY; BNE head` is a delay, `LDA INTIM; (CMP #n;) Bxx head` waits for the timer.
        """
        body = [head]
        while body[-1].opcode.mnemonic not in BRANCHES:
            following = self.instructions.get(body[-1].location + body[-1].opcode.length)
            if following is None or following.location in self.leaders or len(body) == 3:
                return
            body.append(following)
        branch = body[-1]
        if branch.operand != head.location or len(body) == 1:
            return
        crosses = (branch.location + 2) & 0xFF00 != head.location & 0xFF00
        cycles = sum(instruction.opcode.cycles for instruction in body) + (2 if crosses else 1)
        name, condition = head.opcode.mnemonic, branch.opcode.mnemonic
        if name in ("DEX", "DEY", "INX", "INY") and len(body) == 2 and condition == "BNE":
            self._emit(f"SKIP_DELAY_{name[:2]}({name[2].lower()}, {cycles});")
            return
        if head.opcode.mode != "abs" or name not in COMPARE_OF or head.operand & 0x1285 != 0x284:
            return
        if len(body) == 2:
            going_on = {"BNE": (1, 255), "BPL": (0, 127), "BMI": (128, 255)}
        elif body[1].opcode.mnemonic == COMPARE_OF[name] and body[1].opcode.mode == "imm":
            going_on = {"BNE": (body[1].operand + 1, 255), "BCS": (body[1].operand, 255)}
        else:
            return
        lowest, highest = going_on.get(condition, (1, 0))
        if lowest <= highest:
            self._emit(f"SKIP_TIMER_POLLS({head.opcode.cycles}, {cycles}, {lowest}, {highest});")

    def _offset_after(self, instruction: Instruction) -> int:
        """Distance of the next instruction from the start of the window: what to add to BASE for its PC."""
        return instruction.location % self.window + instruction.opcode.length

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
        opcode = instruction.opcode
        name, mode = opcode.mnemonic, opcode.mode
        following = self._offset_after(instruction)
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
        elif name in ("JMP", "JSR") and mode == "abs":
            self._write_jump(instruction)
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

    def _write_jump(self, instruction: Instruction) -> None:
        location, operand = instruction.location, instruction.operand
        self._settle()
        if instruction.opcode.mnemonic == "JSR":
            self._emit(f"PUSH_WORD(BASE + 0x{(location & self.mask) + 2:X}, 0x{operand:X});")
        target = self.mapping.location(operand, location) if operand & 0x1000 else None
        if target is None:
            self._emit(f"DISPATCH(0x{operand:X});")
            return
        check = f"CHECK_CYCLES(0x{operand:X}); " if target <= location else ""
        self._emit(f"SET_BASE(0x{operand & ~self.mask & 0xFFFF:X}); {check}{self._goto(target)}")

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
            if self._is_plain_rom(operand, instruction.location):
                return f"rom_bytes[0x{self.mapping.location(operand, instruction.location):X} + {index}]"
            return f"READ(0x{operand:04X} + {index}, {self._stamp()}, 0x{operand >> 8:02X})"
        if mode == "izx":
            self._emit(f"POINTER_X(0x{operand:02X});")
            return f"READ(pointer, {self._stamp()}, POINTER_HIGH)"
        self._emit(f"POINTER(0x{operand:02X});")
        if instruction.opcode.page_penalty:
            self._emit("t += ((pointer & 0xFF) + y) >> 8;")
        return f"READ(pointer + y, {self._stamp()}, POINTER_HIGH)"

    def _is_plain_rom(self, base: int, seen_from: int) -> bool:
        """Whether base .. base + 255 is one run of known ROM bytes without side effects."""
        if not base & 0x1000 or (base & 0xFFF) + 255 > 0xFFF:
            return False
        first, last = (self.mapping.location(address, seen_from) for address in (base, base + 255))
        if first is None or last is None or last - first != 255:
            return False
        return not any((base & 0xFFF) <= effect <= (base & 0xFFF) + 255 for effect in self.mapping.effects)

    def _read_constant(self, instruction: Instruction, address: int, bus: int) -> str:
        if address & 0x1000:
            location = self.mapping.location(address, instruction.location)
            if location is None or (address & 0xFFF) in self.mapping.effects:
                return f"READ(0x{address:04X}, {self._stamp()}, 0x{bus:02X})"
            return f"0x{self.rom[location]:02X}"
        if address & 0x80 == 0:
            return f"TIA_READ(0x{address & 0xF:X}, {self._stamp()}, 0x{bus:02X})"
        if address & 0x200 == 0:
            return f"ram[0x{address & 0x7F:02X}]"
        return f"RIOT_READ(0x{address & 7:X}, {self._stamp()})"

    def _store(self, instruction: Instruction, value: str) -> None:
        mode, operand = instruction.opcode.mode, instruction.operand
        following = f"0x{self._offset_after(instruction):X}"
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
        following = self._offset_after(instruction)
        self._emit(
            f"{{ const uint16_t address = {address}; uint8_t value = READ(address, t, 0x{bus:02X}); {name}(value); "
            f"WRITE(address, value, 0x{following:X}); }}"
        )
        self._check_bank(instruction)

    def _check_bank(self, instruction: Instruction) -> None:
        """After an access that may hit a hot spot: go on with what is there now."""
        mode, operand = instruction.opcode.mode, instruction.operand
        if not self.mapping.hot_spots or mode in ("imm", "zp", "zpx", "zpy", "imp", "acc"):
            return
        following = instruction.location + instruction.opcode.length
        if mode == "abs":
            switched = self._switched(instruction)
            if switched is None:
                return
            self._settle()
            if self.mapping.hot_spots[operand & 0xFFF] < 0:
                self._emit(f"CONTINUE_AT(0x{self._offset_after(instruction):X});")
            elif switched != following:
                self._emit(self._goto(switched))
            return
        if mode in ("abx", "aby") and (self._is_plain_rom(operand, instruction.location) or operand + 255 < 0x1000):
            return
        self._emit(f"CHECK_BANK(0x{following:X}, {self.elapsed}, 0x{self._offset_after(instruction):X});")


def translate(rom: bytes, cartridge: str, trace: bytes) -> str:
    """Returns C++ for a ROM image.

    Args:
        rom: The image.
        cartridge: Its type, a key of `MAPPINGS`.
        trace: One byte for each byte of the image; see the module's text.
    """
    return Translator(rom, cartridge, trace).source()


def main() -> int:
    """Command line: image, type, trace -> source file."""
    parser = argparse.ArgumentParser(description="Translate a cartridge into C++.")
    parser.add_argument("rom", type=Path)
    parser.add_argument("cartridge", choices=sorted(MAPPINGS))
    parser.add_argument("trace", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    args.output.write_text(translate(args.rom.read_bytes(), args.cartridge, args.trace.read_bytes()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
