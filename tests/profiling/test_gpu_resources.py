# SPDX-License-Identifier: Apache-2.0
"""Resources of kernels from the assembler's lines, and occupancy worked by hand."""

import pytest

from seed_hpc.profiling.gpu_resources import parse_assembler_lines, parse_launch_bounds, theoretical_occupancy

# nvcc 13.0 -Xptxas -v, two kernels and a device function on two architectures.
ASSEMBLER = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5plainIdEvPT_' for 'sm_90'
ptxas info    : Function properties for _Z5plainIdEvPT_
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 18.086 ms
ptxas info    : Function properties for _Z6helperi
    16 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
ptxas info    : Compiling entry function 'step' for 'sm_90'
ptxas info    : Function properties for step
    48 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem, 372 bytes cmem[0]
ptxas info    : Compiling entry function 'step' for 'sm_80'
ptxas info    : Function properties for step
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 2048+0 bytes smem, 372 bytes cmem[0]
"""

PTX = """
.visible .entry step(
	.param .u64 step_param_0,
	.param .u32 step_param_1
)
.maxntid 128, 2, 1
.minnctapersm 4
{
	ret;
}
.visible .entry _Z5plainIdEvPT_(
	.param .u64 _Z5plainIdEvPT__param_0
)
{
	ret;
}
"""


def test_assembler_lines():
    found = parse_assembler_lines(ASSEMBLER)
    assert set(found) == {"90", "80"}
    plain, step = found["90"]
    assert (plain.name, plain.registers, plain.shared_bytes) == ("_Z5plainIdEvPT_", 8, 0)
    assert plain.spill_bytes == 24  # those of the function that it calls
    assert (step.registers, step.spill_bytes, step.shared_bytes, step.local_bytes) == (255, 64, 1024, 48)
    assert found["80"][0].shared_bytes == 2048


def test_launch_bounds():
    assert parse_launch_bounds(PTX) == {"step": 256}


@pytest.mark.parametrize(
    ("arch", "block", "registers", "shared", "occupancy", "limiter"),
    [
        # 32 x 128 = 4096 registers a warp: 16 warps of 64, two blocks of 8.
        ("90", 256, 128, 0, 16 / 64, "registers"),
        # 65536 / (32 x 40 -> 1280) = 51 warps, rounded down to 48; six blocks of 8.
        ("90", 256, 40, 0, 48 / 64, "registers"),
        # The same 51, rounded down to 48, is what tells 16 blocks of 3 from 17.
        ("90", 96, 40, 0, 48 / 64, "registers"),
        # (40 + 1) KiB a block, 164 KiB a multiprocessor: four blocks of 8 warps.
        ("80", 256, 32, 40 * 1024, 32 / 64, "shared memory"),
        # 2048 registers a warp: 32 warps, which the architecture holds.
        ("75", 1024, 64, 0, 1.0, "warps"),
        # Sixteen blocks of one warp, of 48.
        ("86", 32, 16, 0, 16 / 48, "blocks"),
        # A block that does not fit at all.
        ("90", 1024, 255, 0, 0.0, "registers"),
    ],
)
def test_occupancy_by_hand(arch, block, registers, shared, occupancy, limiter):
    found = theoretical_occupancy(arch, block, registers, shared)
    assert found == (pytest.approx(occupancy), limiter)
