# SPDX-License-Identifier: Apache-2.0
"""What a compiled CUDA kernel needs, and how many of them a multiprocessor holds: no GPU is needed to know.

The assembler (`nvcc -Xptxas -v`) prints registers, spills, shared and local memory of every kernel; theoretical
occupancy follows from them and the limits of the architecture (CUDA C++ Programming Guide, table "Technical
Specifications per Compute Capability"; the rounding rules are those of cuda_occupancy.h in the toolkit).
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

WARP_SIZE = 32
REGISTERS = 65_536  # a multiprocessor, on every architecture here
REGISTER_UNIT = 256  # registers are given to a warp in this unit
WARP_UNIT = 4  # and warps to a block in this one: one for each scheduler
KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """Limits of one multiprocessor, and the toolkits that compile for it."""

    max_warps: int
    max_blocks: int
    shared_kib: int
    reserved_shared_bytes: int  # that the system takes for each block
    first_toolkit: str
    last_toolkit: str | None = None  # None: still supported

    @property
    def toolkits(self) -> str:
        """The toolkits in words."""
        return f"CUDA {self.first_toolkit} " + (f"to {self.last_toolkit}" if self.last_toolkit else "or newer")


ARCHITECTURES = {
    "70": Architecture(64, 32, 96, 0, "9.0", "12.9"),
    "75": Architecture(32, 16, 64, 0, "10.0"),
    "80": Architecture(64, 32, 164, KIB, "11.0"),
    "86": Architecture(48, 16, 100, KIB, "11.1"),
    "87": Architecture(48, 16, 164, KIB, "11.4"),
    "89": Architecture(48, 24, 100, KIB, "11.8"),
    "90": Architecture(64, 32, 228, KIB, "11.8"),
    "100": Architecture(64, 32, 228, KIB, "12.8"),
    "103": Architecture(64, 32, 228, KIB, "12.9"),
    "120": Architecture(48, 24, 100, KIB, "12.8"),
    "121": Architecture(48, 24, 100, KIB, "12.9"),
}


@dataclass(frozen=True, kw_only=True)
class KernelResources:
    """One kernel on one architecture.

    Attributes:
        name: Demangled where possible.
        registers: A thread.
        spill_bytes: Registers that went to local memory, stores and loads together, a thread; with those of the
            functions that the kernel calls.
        shared_bytes: Static shared memory, a block.
        local_bytes: Stack, a thread.
        block_size: Threads a block, from `__launch_bounds__`; None where the kernel states none.
        occupancy: Resident warps over the architecture's limit, 0 to 1; None without a block size.
        limited_by: registers | shared memory | warps | blocks; None without a block size.
    """

    name: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    local_bytes: int
    block_size: int | None = None
    occupancy: float | None = None
    limited_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The kernel as resources.json and the report hold it."""
        return asdict(self)


def theoretical_occupancy(arch: str, block_size: int, registers: int, shared_bytes: int) -> tuple[float, str]:
    """Returns resident warps over the limit, and what limits them.

    Args:
        arch: Number of the architecture, "90".
        block_size: Threads a block.
        registers: A thread.
        shared_bytes: A block, static and dynamic.
    """
    limits = ARCHITECTURES[arch]
    warps = -(-block_size // WARP_SIZE)
    registers_warp = -(-registers * WARP_SIZE // REGISTER_UNIT) * REGISTER_UNIT
    warps_by_registers = REGISTERS // registers_warp // WARP_UNIT * WARP_UNIT if registers_warp else limits.max_warps
    shared_block = shared_bytes + limits.reserved_shared_bytes
    blocks = {
        "warps": limits.max_warps // warps,
        "blocks": limits.max_blocks,
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_kib * KIB // shared_block if shared_block else limits.max_blocks,
    }
    limiter = min(blocks, key=lambda name: blocks[name])
    return blocks[limiter] * warps / limits.max_warps, limiter


_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)' for 'sm_(?P<arch>\d+)a?f?'")
_SPILLS = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+)(?:\+\d+)? bytes smem")


def parse_assembler_lines(text: str) -> dict[str, list[KernelResources]]:
    """Reads the lines of `-Xptxas -v`.

    Args:
        text: Output of the build.

    Returns:
        Architecture to its kernels, in the order of the text; functions that are no kernels are left out. Names are
        still mangled.
    """
    found: dict[str, list[KernelResources]] = {}
    entry: tuple[str, str] | None = None
    kernels: list[KernelResources] | None = None  # of the last entry: what follows its line belongs to it
    stack = spills = 0
    for line in text.splitlines():
        if match := _ENTRY.search(line):
            entry, stack, spills, kernels = (match["name"], match["arch"]), 0, 0, None
        elif (match := _SPILLS.search(line)) and kernels:  # of a function that the kernel calls
            more = int(match["stores"]) + int(match["loads"])
            kernels[-1] = replace(kernels[-1], spill_bytes=kernels[-1].spill_bytes + more)
        elif match:
            stack, spills = int(match["stack"]), int(match["stores"]) + int(match["loads"])
        elif (match := _USED.search(line)) and entry is not None:
            shared = _SHARED.search(line)
            kernels = found.setdefault(entry[1], [])
            kernels.append(
                KernelResources(
                    name=entry[0],
                    registers=int(match["registers"]),
                    spill_bytes=spills,
                    shared_bytes=int(shared["bytes"]) if shared else 0,
                    local_bytes=stack,
                )
            )
            entry = None
    return found


_PTX_ENTRY = re.compile(r"\.entry\s+(?P<name>[\w$]+)\s*(?:\([^)]*\))?(?P<directives>[^{;]*)\{")
_MAX_THREADS = re.compile(r"\.(?:max|req)ntid\s+(?P<sizes>\d+(?:\s*,\s*\d+)*)")


def parse_launch_bounds(ptx: str) -> dict[str, int]:
    """Reads the `__launch_bounds__` of kernels from PTX (`.maxntid`): mangled name to threads a block."""
    bounds: dict[str, int] = {}
    for entry in _PTX_ENTRY.finditer(ptx):
        if match := _MAX_THREADS.search(entry["directives"]):
            bounds[entry["name"]] = math.prod(int(size) for size in match["sizes"].split(","))
    return bounds
