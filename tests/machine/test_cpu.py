# SPDX-License-Identifier: Apache-2.0
"""Every documented 6502 instruction against py65, an independent implementation; undocumented ones against the two
documented instructions that they combine.

The program stands in RAM, so a case is one call: random registers, random RAM, one instruction. Cases that touch the
TIA or the timer (py65 has neither) are drawn again.
"""

from __future__ import annotations

import random

import pytest
from console_probe import ConsoleProbe, build_library
from py65.devices.mpu6502 import MPU

NUM_CASES = 300
PY65_CYCLE_ERRORS = {0xCE: 6}  # py65 1.2 gives DEC absolute 3 cycles, its data sheet 6
DOCUMENTED = [opcode for opcode in range(256) if MPU.disassemble[opcode][0] != "???"]
N, V, B, D, I, Z, C = 0x80, 0x40, 0x30, 0x08, 0x04, 0x02, 0x01  # noqa: E741 (names of the status bits)

# Opcode: the documented ones that do the same, one after the other, with the same operand. Source of the pairs: the
# names that the literature gives them (SLO = shift left and OR, ...).
COMBINATIONS = {
    "SLO": ({0x03: 0x01, 0x07: 0x05, 0x0F: 0x0D, 0x13: 0x11, 0x17: 0x15, 0x1B: 0x19, 0x1F: 0x1D}, "ASL"),
    "RLA": ({0x23: 0x21, 0x27: 0x25, 0x2F: 0x2D, 0x33: 0x31, 0x37: 0x35, 0x3B: 0x39, 0x3F: 0x3D}, "ROL"),
    "SRE": ({0x43: 0x41, 0x47: 0x45, 0x4F: 0x4D, 0x53: 0x51, 0x57: 0x55, 0x5B: 0x59, 0x5F: 0x5D}, "LSR"),
    "RRA": ({0x63: 0x61, 0x67: 0x65, 0x6F: 0x6D, 0x73: 0x71, 0x77: 0x75, 0x7B: 0x79, 0x7F: 0x7D}, "ROR"),
    "DCP": ({0xC3: 0xC1, 0xC7: 0xC5, 0xCF: 0xCD, 0xD3: 0xD1, 0xD7: 0xD5, 0xDB: 0xD9, 0xDF: 0xDD}, "DEC"),
    "ISB": ({0xE3: 0xE1, 0xE7: 0xE5, 0xEF: 0xED, 0xF3: 0xF1, 0xF7: 0xF5, 0xFB: 0xF9, 0xFF: 0xFD}, "INC"),
}
MODIFY = {"ASL": 0x06, "ROL": 0x26, "LSR": 0x46, "ROR": 0x66, "DEC": 0xC6, "INC": 0xE6}  # their zero-page opcodes


class OutsideError(Exception):
    """The instruction touched something that is neither RAM nor ROM."""


class Memory:
    """The address space of a 2600 without its TIA, timer and ports; keeps the addresses that were read."""

    def __init__(self, rom: bytes, ram: bytes) -> None:
        self.rom, self.ram = rom, bytearray(ram)
        self.read: list[int] = []

    def __getitem__(self, address: int) -> int:
        self.read.append(address)
        if address & 0x1000:
            return self.rom[address & 0xFFF]
        return self.ram[self._index(address)]

    def __setitem__(self, address: int, value: int) -> None:
        if address & 0x1000:
            raise OutsideError
        self.ram[self._index(address)] = value & 0xFF

    def _index(self, address: int) -> int:
        if address & 0x1280 != 0x80:
            raise OutsideError
        return address & 0x7F


class Case:
    """Random registers and RAM with one instruction in it."""

    def __init__(self, generator: random.Random, opcode: int, decimal: bool) -> None:
        self.ram = bytearray(generator.randbytes(128))
        pc = generator.randrange(0x88, 0xF0)
        # Half of the operands point at RAM or ROM: few random ones would.
        high = (
            generator.choice((0x00, 0x01, 0x10, 0xF0, 0xFE)) if generator.random() < 0.5 else generator.randrange(256)
        )
        self.ram[pc - 0x80 : pc - 0x80 + 3] = bytes((opcode, generator.randrange(256), high))
        status = generator.randrange(256) & ~(D | B) | (D if decimal else 0)
        self.registers = bytes((*generator.randbytes(4), status, pc, 0))


def run_py65(rom: bytes, registers: bytes, ram: bytes) -> tuple[bytes, bytes, int, list[int]]:
    """Returns registers, RAM, cycles and the addresses read."""
    memory = Memory(rom, ram)
    mpu = MPU(memory)
    mpu.a, mpu.x, mpu.y, mpu.sp, mpu.p = registers[:5]
    mpu.p |= B
    mpu.pc = registers[5] | registers[6] << 8
    mpu.step()
    after = bytes((mpu.a, mpu.x, mpu.y, mpu.sp, mpu.p | B, mpu.pc & 0xFF, mpu.pc >> 8))
    return after, bytes(memory.ram), mpu.processorCycles, memory.read


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    rom = random.Random(0).randbytes(4096)
    console = ConsoleProbe(build_library(tmp_path_factory.mktemp("probe")), rom, "4K", predecode=False)
    console.set_display()
    console.reset()
    return console, rom


def cases(opcode: int, decimal: bool, run):
    """Yields (case, what `run` makes of it) NUM_CASES times, leaving out cases that `run` refuses."""
    generator = random.Random(opcode)
    found = 0
    for _ in range(NUM_CASES * 1000):
        case = Case(generator, opcode, decimal)
        try:
            expected = run(case)
        except OutsideError:
            continue
        yield case, expected
        found += 1
        if found == NUM_CASES:
            return
    pytest.fail(f"only {found} of {NUM_CASES} cases could be drawn")


def stack_meets_program(case: Case) -> bool:
    """Pushes over the instruction itself: its bytes are read at other times by py65."""
    return any((case.registers[3] - i) & 0xFF in range(case.registers[5], case.registers[5] + 3) for i in range(3))


@pytest.mark.parametrize("decimal", [False, True], ids=["binary", "decimal"])
@pytest.mark.parametrize("opcode", DOCUMENTED, ids=lambda opcode: f"{opcode:02X}-{MPU.disassemble[opcode][0]}")
def test_documented_instruction_equals_py65(probe, opcode, decimal):
    console, rom = probe
    arithmetic = decimal and MPU.disassemble[opcode][0] in ("ADC", "SBC")

    def run(case):
        if stack_meets_program(case):
            raise OutsideError
        return run_py65(rom, case.registers, case.ram)

    for case, (registers, ram, cycles, _) in cases(opcode, decimal, run):
        actual = console.execute(case.registers, bytes(case.ram))
        if arithmetic:  # A and C have a test of their own, below
            assert actual[0][1:4] + actual[0][5:] == registers[1:4] + registers[5:], case.registers.hex()
        else:
            assert actual[0] == registers, case.registers.hex()
        assert actual[1:] == (ram, PY65_CYCLE_ERRORS.get(opcode, cycles)), case.registers.hex()


@pytest.mark.parametrize("opcode", [0x69, 0xE9], ids=["ADC", "SBC"])
def test_decimal_arithmetic_equals_py65(probe, opcode):
    """All pairs of two-digit numbers; N, V and Z are left out, for ale-py sets them in a way of its own."""
    console, rom = probe
    for a in range(100):
        for m in range(100):
            for carry in (0, C):
                ram = bytes((opcode, m // 10 << 4 | m % 10)) + bytes(126)
                registers = bytes((a // 10 << 4 | a % 10, 0, 0, 0xFF, D | B | carry, 0x80, 0))
                after, _, _, _ = run_py65(rom, registers, ram)
                actual, _, _ = console.execute(registers, ram)
                assert (actual[0], actual[4] & C) == (after[0], after[4] & C), (a, m, carry)


@pytest.mark.parametrize(
    ("opcode", "first", "second"),
    [
        (opcode, MODIFY[modify], documented)
        for table, modify in COMBINATIONS.values()
        for opcode, documented in table.items()
    ],
    ids=lambda value: f"{value:02X}",
)
def test_undocumented_instruction_is_two_documented_ones(probe, opcode, first, second):
    """Read, change, write, then use the new value: first on a zero-page copy of the operand, then on A."""
    console, rom = probe

    def run(case):
        program = bytearray(case.ram)
        program[case.registers[5] - 0x80] = second
        _, _, _, read = run_py65(rom, case.registers, bytes(program))
        if read[-1] & 0x1000:
            raise OutsideError
        cells = [0x80 | address & 0x7F for address in read]
        operand, code = cells[-1], range(case.registers[5], case.registers[5] + 3)
        # Neither the operand nor a pointer to it may be the program's own bytes, which differ from run to run.
        if operand in code or cells.count(code[0]) > 1:
            raise OutsideError
        # The change: a zero-page instruction at the same operand.
        program[case.registers[5] - 0x80 : case.registers[5] - 0x7E] = bytes((first, operand))
        registers, ram, _, _ = run_py65(rom, case.registers, bytes(program))
        # The use: the immediate form would be simplest, but zero page has the same low bits in all eight groups.
        program = bytearray(ram)
        program[case.registers[5] - 0x80 : case.registers[5] - 0x7E] = bytes(((second & 0xE0) | 0x05, operand))
        registers, ram, _, _ = run_py65(rom, registers[:5] + case.registers[5:], bytes(program))
        return registers, ram, operand

    length = 3 if opcode & 0x0F in (0x0B, 0x0F) else 2
    for case, (registers, ram, operand) in cases(opcode, False, run):
        after, ram_after, _ = console.execute(case.registers, bytes(case.ram))
        assert after[:5] == registers[:5], case.registers.hex()
        assert after[5] == case.registers[5] + length
        assert ram_after[operand & 0x7F] == ram[operand & 0x7F]
