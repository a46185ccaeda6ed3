# SPDX-License-Identifier: Apache-2.0
"""Readers of profiler files: values read by eye from real exports of several versions, and every way to be unusable."""

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seed_hpc import cli
from seed_hpc.errors import UserError
from seed_hpc.profiling import ncu, nsys, torch_trace
from seed_hpc.profiling.profiler_files import parse_since, read_profiler_file, refuse_stale
from seed_hpc.profiling.tables import Profile

DATA = Path(__file__).parent / "data"
KERNEL_HEADER = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
NCU_DETAILS_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"'
)


def database(tmp_path, script, name="trace.sqlite"):
    path = tmp_path / name
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def write(tmp_path, text, name="report.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def ncu_row(launch, kernel, section, metric, unit, value):
    return (
        f'"{launch}","1","a.out","127.0.0.1","{kernel}","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0",'
        f'"{section}","{metric}","{unit}","{value}",\n'
    )


# ---- nsys, CSV


def test_nsys_kernel_report_holds_what_nsys_printed():
    profile = read_profiler_file(DATA / "nsys_lei_cuda_gpu_kern_sum.csv")
    assert (profile.tool, len(profile.kernels)) == ("nsys", 14)
    first, last = profile.kernels[0], profile.kernels[-1]
    assert first.name.startswith("sm80_xmma_fprop_implicit_gemm_f16f16")
    assert first.name.endswith("_execute_kernel_trt")
    assert (first.count, first.total_ns, first.min_ns, first.max_ns) == (7, 1881582, 160866, 317987)
    assert (first.avg_ns, first.med_ns, first.stddev_ns) == (268797.4, 293250.0, 64041.6)
    assert (last.name, last.count, last.total_ns) == (
        "trt_ampere_h16816gemm_64x64_ldg8_relu_stages_64x5_tn_v1",
        1,
        8512,
    )
    # The names with commas are quoted in the file.
    (copy,) = (kernel for kernel in profile.kernels if "copyVectorizedKernel" in kernel.name)
    assert (copy.count, copy.total_ns) == (12, 20128)
    assert copy.name.startswith("void genericReformat::copyVectorizedKernel<double, __half, __half, (bool)1")
    # 1881582 + 879046 + ... + 8512, added up on paper.
    assert sum(kernel.total_ns for kernel in profile.kernels) == 6415244
    assert first.share_pct == pytest.approx(29.33, abs=0.005)


def test_nsys_report_of_one_kernel():
    (kernel,) = read_profiler_file(DATA / "nsys_sc23_cuda_gpu_kern_sum.csv").kernels
    assert (kernel.name, kernel.count, kernel.total_ns) == ("nvkernel_solve_F1L204_2", 50, 1071243791)
    assert (kernel.avg_ns, kernel.stddev_ns, kernel.share_pct) == (21424875.8, 2154674.6, 100.0)


def test_nsys_skipped_report_is_an_empty_list_with_a_note():
    profile = read_profiler_file(DATA / "nsys_vqe_cuda_gpu_kern_sum.csv")
    assert profile.kernels == []
    assert any("vqe.sqlite does not contain CUDA kernel data" in note for note in profile.notes)


def test_nsys_api_and_memory_reports_are_not_taken_for_kernels():
    api = read_profiler_file(DATA / "nsys_lei_cuda_api_sum.csv")
    assert api.kernels == []
    assert any("no kernel table" in note for note in api.notes)
    assert [(call.name, call.count, call.total_ns) for call in api.api][:2] == [
        ("cuModuleUnload", 5490, 479449057),
        ("cuMemUnmap", 7, 8091006),
    ]
    memory = read_profiler_file(DATA / "nsys_lei_cuda_gpu_mem_time_sum.csv")
    assert memory.kernels == []
    assert [(row.name, row.count, row.total_ns) for row in memory.memory] == [
        ("[CUDA memcpy Device-to-Device]", 4, 6176)
    ]


def test_older_nsys_names_the_report_gpukernsum_and_its_columns_without_units(tmp_path):
    text = (
        "Running [/opt/nvidia/nsight-systems/2021.5.2/target-linux-x64/reports/gpukernsum.py report1.sqlite]... \n"
        "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n"
        '75.0,3000,3,1000.0,500,1500,"add(float *, int)"\n'
        "25.0,1000,2,500.0,400,600,scale\n\n"
    )
    profile = read_profiler_file(write(tmp_path, text))
    assert profile.version == "2021.5.2"
    assert [(k.name, k.count, k.total_ns, k.min_ns, k.max_ns) for k in profile.kernels] == [
        ("add(float *, int)", 3, 3000, 500, 1500),
        ("scale", 2, 1000, 400, 600),
    ]


def test_several_reports_in_one_output_and_other_time_units(tmp_path):
    text = (
        "NOTICE: Existing SQLite export found: r.sqlite\n"
        "Processing [r.sqlite] with [/opt/nvidia/nsight-systems/2024.6.1/reports/cuda_gpu_kern_sum.py]...\n"
        "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Name\n"
        "100.0,1.500,2,0.750,0.750,0.500,1.000,0.354,add\n"
        "\n"
        "Processing [r.sqlite] with [/opt/nvidia/nsight-systems/2024.6.1/reports/nvtx_sum.py]...\n"
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Style,Range\n"
        "100.0,4000,2,2000.0,2000.0,1000,3000,1414.2,PushPop,:inference\n"
        "\n"
        "SKIPPED: r.sqlite does not contain CUDA memory data.\n"
    )
    profile = read_profiler_file(write(tmp_path, text))
    assert profile.version == "2024.6.1"
    assert [(k.name, k.count, k.total_ns, k.max_ns) for k in profile.kernels] == [("add", 2, 1500, 1000)]
    assert [(r.name, r.count, r.total_ns) for r in profile.ranges] == [(":inference", 2, 4000)]
    assert any("CUDA memory data" in note for note in profile.notes)


def test_a_trace_report_is_added_up_by_name(tmp_path):
    text = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Bytes (MB),Device,Ctx,Strm,Name\n"
        "100,30,1,1,1,1,,A100 (0),1,7,add\n"
        "200,50,2,1,1,1,,A100 (0),1,7,add\n"
        "300,8,3,,,,0.004,A100 (0),1,7,[CUDA memcpy HtoD]\n"
    )
    profile = read_profiler_file(write(tmp_path, text))
    assert [(k.name, k.count, k.total_ns) for k in profile.kernels] == [("add", 2, 80)]
    assert [(m.name, m.count, m.total_ns) for m in profile.memory] == [("[CUDA memcpy HtoD]", 1, 8)]


@pytest.mark.parametrize("separator", [",", ";"])
def test_nsys_with_decimal_commas(tmp_path, separator):
    fields = [
        ["75,0", "3.000.000", "3", "1.000.000,0", "900.000,5", "500.000", "1.500.000", "12,3", "add"],
        ["25,0", "1.000.000", "2", "500.000,0", "500.000,0", "400.000", "600.000", "9,9", "scale"],
    ]
    quoted = "\n".join(separator.join(f'"{field}"' for field in row) for row in fields)
    profile = read_profiler_file(write(tmp_path, KERNEL_HEADER.replace(",", separator) + "\n" + quoted + "\n"))
    add, scale = profile.kernels
    assert (add.count, add.total_ns, add.avg_ns, add.med_ns, add.stddev_ns) == (3, 3_000_000, 1e6, 900_000.5, 12.3)
    assert (scale.count, scale.total_ns, scale.min_ns) == (2, 1_000_000, 400_000)


def test_unquoted_decimal_commas_are_refused_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match="LC_ALL=C"):
        read_profiler_file(write(tmp_path, KERNEL_HEADER + "\n100,0,3000,3,1000,0,900,0,500,1500,12,3,add\n"))


# ---- nsys, SQLite


def test_nsys_2023_export_equals_what_nsys_stats_printed_of_it(tmp_path):
    profile = read_profiler_file(database(tmp_path, (DATA / "nsys_2023_1.sql").read_text()))
    assert profile.version == "2023.1.2.43"
    assert profile.devices == ["NVIDIA GeForce RTX 3090"] * 4
    printed = read_profiler_file(DATA / "nsys_lei_cuda_gpu_kern_sum.csv").kernels
    assert [(k.count, k.total_ns, k.med_ns, k.min_ns, k.max_ns) for k in profile.kernels] == [
        (k.count, k.total_ns, k.med_ns, k.min_ns, k.max_ns) for k in printed
    ]
    for kernel, expected in zip(profile.kernels, printed, strict=True):
        assert kernel.avg_ns == pytest.approx(expected.avg_ns, abs=0.05)
        assert kernel.stddev_ns == (None if kernel.count == 1 else pytest.approx(expected.stddev_ns, abs=0.05))
    assert [(row.name, row.count, row.total_ns) for row in profile.memory] == [
        ("[CUDA memcpy Device-to-Device]", 4, 6176)
    ]
    # One range encloses every launch of the trace: 25834711 - 18992108 ns long, with all the kernel time in it.
    outer = profile.ranges[0]
    assert (outer.name, outer.count, outer.total_ns) == ("TensorRT:ExecutionContext::execute", 1, 6842603)
    assert outer.gpu_ns == 6415244


def test_nsys_2025_export_without_a_kernel_table(tmp_path):
    profile = read_profiler_file(database(tmp_path, (DATA / "nsys_2025_6.sql").read_text()))
    assert (profile.version, profile.kernels) == ("2025.6.1.190", [])
    assert any("no kernel table" in note for note in profile.notes)
    assert any("No CUDA events collected" in note for note in profile.notes)


def test_kernels_are_credited_to_the_ranges_of_their_own_thread(tmp_path):
    script = """
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'act'), (2, 'learn'), (3, 'outer'), (4, 'inner'),
            (5, 'cudaLaunchKernel_v7000');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT,
            demangledName INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 1010, 0, 7, 1, 1), (1020, 1050, 0, 7, 2, 2),
            (1060, 1160, 0, 7, 3, 2);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (110, 112, 8, 1, 5), (150, 152, 8, 2, 5), (150, 152, 9, 3, 5);
        CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, domainId INT,
            globalTid INT);
        INSERT INTO NVTX_EVENTS VALUES (100, 200, 59, NULL, 3, 0, 8), (140, 160, 59, NULL, 4, 0, 8),
            (170, NULL, 59, 'never closed', NULL, 0, 8);
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (2000, 2500);
    """
    path = database(tmp_path, script)
    profile = read_profiler_file(path)
    assert [(k.name, k.count, k.total_ns) for k in profile.kernels] == [("learn", 2, 130), ("act", 1, 10)]
    assert [(r.name, r.total_ns, r.gpu_ns) for r in profile.ranges] == [("outer", 100, 40), ("inner", 20, 30)]
    assert [(call.name, call.count) for call in profile.api] == [("cudaLaunchKernel", 3)]
    assert any("--cuda-graph-trace=node" in note for note in profile.notes)
    intervals = nsys.read_kernel_intervals(path)
    assert [(i.start_ns, i.end_ns, i.name) for i in intervals[:1]] == [(1000, 1010, "act")]


def test_an_empty_kernel_table_has_a_note(tmp_path):
    script = (
        "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT); CREATE TABLE StringIds (id INT, value TEXT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, demangledName INT);"
    )
    profile = read_profiler_file(database(tmp_path, script))
    assert profile.kernels == []
    assert any("kernel table is empty" in note for note in profile.notes)


# ---- ncu


def test_ncu_raw_page():
    profile = read_profiler_file(DATA / "ncu_mc_raw.csv")
    assert profile.tool == "ncu"
    assert [(k.name[:34], k.count, k.total_ns) for k in profile.kernels] == [
        ("initRNG(curandStateXORWOW*, unsign", 1, 77_686_368),
        ("void computeValue<float>(unsigned ", 1, 7_597_056),
    ]
    first, second = profile.launches
    assert (first.block, first.compute_capability) == ((128, 1, 1), "8.6")
    assert first.values["achieved_occupancy_pct"] == 28.073377
    assert first.values["theoretical_occupancy_pct"] == 33.333333
    limits = {name: value for name, value in first.values.items() if name.startswith("limit_")}
    assert limits == {
        "limit_blocks_blocks": 16,
        "limit_registers_blocks": 4,
        "limit_shared_memory_blocks": 100,
        "limit_warps_blocks": 12,
    }
    assert first.values["registers_per_thread"] == 107
    assert first.values["dram_bytes_per_s"] == 41_673_741_000  # 41.673741 Gbyte/second
    assert first.values["dram_read_bytes"] == 2_249_524_000  # Gbyte in this row, as the unit row says
    assert second.values["dram_read_bytes"] == 7_975_000
    assert first.values["sm_clock_hz"] == 1_442_244_000  # cycle/nsecond
    assert second.values["achieved_occupancy_pct"] == 16.633695


def test_ncu_details_page_gives_the_same_launches_rounded():
    details = read_profiler_file(DATA / "ncu_mc_details.csv")
    raw = read_profiler_file(DATA / "ncu_mc_raw.csv")
    assert [(k.count, k.total_ns) for k in details.kernels] == [(1, 77_690_000), (1, 7_600_000)]
    for rounded, exact in zip(details.launches, raw.launches, strict=True):
        assert rounded.name == exact.name
        for name in ("achieved_occupancy_pct", "theoretical_occupancy_pct", "limit_registers_blocks", "sm_clock_hz"):
            assert rounded.values[name] == pytest.approx(exact.values[name], rel=2e-3)
    assert any("Uncoalesced global access" in advice for advice in details.launches[0].advice)


def test_ncu_details_with_rule_rows_and_missing_values():
    (launch,) = read_profiler_file(DATA / "ncu_loop_details.csv").launches
    assert launch.duration_ns == 6880  # 6.88 usecond
    assert launch.values["memory_throughput_pct"] == 12.61  # not the 1.23 Gbyte/second of another section
    assert launch.values["dram_bytes_per_s"] == 1_230_000_000
    assert launch.metrics["GPU and Memory Workload Distribution: Average MC Channel Active Cycles"] is None
    assert launch.metrics["Launch Statistics: Cluster Scheduling Policy"] == "PolicySpread"
    assert launch.values["achieved_occupancy_pct"] == 43.22
    assert launch.grid == (1056, 1, 1)
    assert len(launch.advice) == 6


@pytest.mark.parametrize(
    ("unit", "value", "expected_ns"),
    [("usecond", "6.88", 6880), ("us", "6.88", 6880), ("ms", "1.5", 1_500_000), ("msecond", "1.5", 1_500_000),
     ("nsecond", "6,880.00", 6880), ("ns", "6,880", 6880), ("second", "0.25", 250_000_000), ("s", "2", 2_000_000_000)],
)  # fmt: skip
def test_ncu_spellings_of_time(tmp_path, unit, value, expected_ns):
    text = NCU_DETAILS_HEADER + "\n" + ncu_row(0, "add", "GPU Speed Of Light Throughput", "Duration", unit, value)
    (kernel,) = read_profiler_file(write(tmp_path, text)).kernels
    assert kernel.total_ns == expected_ns


@pytest.mark.parametrize("unit", ["cycle/nsecond", "Ghz", "cycle/usecond"])
def test_ncu_spellings_of_frequency(tmp_path, unit):
    value = "1,470.00" if unit == "cycle/usecond" else "1.47"
    text = NCU_DETAILS_HEADER + "\n" + ncu_row(0, "add", "GPU Speed Of Light Throughput", "SM Frequency", unit, value)
    profile = read_profiler_file(write(tmp_path, text))
    assert profile.launches[0].values["sm_clock_hz"] == 1.47e9
    assert profile.kernels[0].total_ns is None
    assert any("no duration" in note for note in profile.notes)


def test_ncu_with_thousands_separators_counts_launches_by_name(tmp_path):
    text = NCU_DETAILS_HEADER + "\n"
    for launch, duration in enumerate(["1,234.50", "2,000.00", "n/a"]):
        kernel = "scale" if launch == 2 else "add"
        text += ncu_row(launch, kernel, "GPU Speed Of Light Throughput", "Duration", "us", duration)
        text += ncu_row(launch, kernel, "GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "112,044,038")
    profile = read_profiler_file(write(tmp_path, text))
    assert [(k.name, k.count, k.total_ns) for k in profile.kernels] == [("add", 2, 3_234_500), ("scale", 1, None)]
    assert profile.launches[0].values["elapsed_cycles"] == 112_044_038


def test_ncu_with_decimal_commas(tmp_path):
    section = "GPU Speed Of Light Throughput"
    text = NCU_DETAILS_HEADER + "\n"
    text += ncu_row(0, "add", section, "Duration", "usecond", "77,69")
    text += ncu_row(0, "add", section, "Elapsed Cycles", "cycle", "112.044.038")
    text += ncu_row(0, "add", section, "SM Active Cycles", "cycle", "7.653,73")
    text += ncu_row(0, "add", "Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "1,234")
    (launch,) = read_profiler_file(write(tmp_path, text)).launches
    assert launch.duration_ns == 77_690
    assert launch.values["elapsed_cycles"] == 112_044_038
    assert launch.metrics[f"{section}: SM Active Cycles"] == 7653.73
    assert launch.values["dram_bytes_per_s"] == 1.234e9


def test_ncu_raw_page_with_decimal_commas(tmp_path):
    text = (
        '"ID";"Process ID";"Kernel Name";"Block Size";"Grid Size";"CC";"gpu__time_duration.sum"\n'
        '"";"";"";"";"";"";"msecond"\n'
        '"0";"1";"add";"(32, 1, 1)";"(1, 1, 1)";"8.6";"77,686368"\n'
    )
    (kernel,) = read_profiler_file(write(tmp_path, text)).kernels
    assert (kernel.name, kernel.total_ns) == ("add", 77_686_368)


def test_ncu_log_of_the_metrics_option_and_of_print_summary(tmp_path):
    text = (
        "==PROF== Connected to process 42 (/usr/bin/python3)\n"
        '==PROF== Profiling "add": 0%....50%....100% - 1 pass\n'
        "a line that the program printed\n" + NCU_DETAILS_HEADER + "\n"
    )
    text += ncu_row(0, "add", "Command line profiler metrics", "gpu__time_duration.sum", "ns", "5,120")
    assert [(k.name, k.total_ns) for k in read_profiler_file(write(tmp_path, text)).kernels] == [("add", 5120)]
    summary = (
        '"Kernel Name","Block Size","Grid Size","Device","CC","Invocations","Section Name","Metric Name","Metric Unit",'
        '"Minimum","Maximum","Average"\n'
        '"add","(32, 1, 1)","(4, 1, 1)","0","8.0","10","GPU Speed Of Light","Duration","us","1.00","3.00","2.00"\n'
    )
    (kernel,) = read_profiler_file(write(tmp_path, summary)).kernels
    assert (kernel.count, kernel.total_ns, kernel.avg_ns) == (10, 20_000, 2000)


def test_forbidden_counters_are_a_note(tmp_path):
    text = (
        "==PROF== Connected to process 42 (/usr/bin/python3)\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
    )
    profile = read_profiler_file(write(tmp_path, text))
    assert profile.kernels == []
    assert ncu.COUNTERS_FORBIDDEN in profile.notes


# ---- torch.profiler


def test_torch_trace_has_kernels_ranges_and_the_own_time_of_operators(tmp_path):
    def event(category, name, start_us, duration_us, thread=1, **arguments):
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "ts": start_us,
            "dur": duration_us,
            "tid": thread,
            "args": arguments,
        }

    events = [
        event("cpu_op", "aten::linear", 0.0, 10.0),
        event("cpu_op", "aten::addmm", 1.0, 6.0),
        event("cpu_op", "aten::expand", 2.0, 1.5),
        event("cpu_op", "aten::addmm", 20.0, 4.0),
        event("cpu_op", "aten::copy_", 3.0, 30.0, thread=2),
        event("user_annotation", "learner", 0.0, 25.0),
        event("kernel", "gemm", 5.0, 2.5, device=0, stream=7),
        event("kernel", "gemm", 30.0, 3.0, device=0, stream=7),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 40.0, 1.0),
        {"ph": "i", "cat": "cpu_op", "name": "an instant", "ts": 1.0},
    ]
    path = write(tmp_path, json.dumps({"schemaVersion": 1, "traceEvents": events}), "trace.json")
    profile = read_profiler_file(path)
    assert [(row.name, row.count, row.total_ns) for row in profile.kernels] == [("gemm", 2, 5500)]
    assert {row.name: (row.count, row.total_ns) for row in profile.api} == {
        "aten::copy_": (1, 30_000),
        "aten::addmm": (2, 8500),  # 6 - 1.5 and 4
        "aten::linear": (1, 4000),
        "aten::expand": (1, 1500),
    }
    assert [(row.name, row.total_ns) for row in profile.ranges] == [("learner", 25_000)]
    assert [(row.name, row.total_ns) for row in profile.memory] == [("Memcpy HtoD (Pinned -> Device)", 1000)]
    intervals = torch_trace.read_kernel_intervals(path)
    assert [(i.start_ns, i.end_ns, i.device, i.stream) for i in intervals] == [
        (5000, 7500, 0, 7),
        (30_000, 33_000, 0, 7),
    ]


# ---- unusable files


@pytest.mark.parametrize("name", ["nsys_lei_cuda_gpu_kern_sum.csv", "ncu_mc_details.csv", "ncu_mc_raw.csv"])
def test_a_file_that_is_cut_off_is_refused(tmp_path, name):
    text = (DATA / name).read_text()
    for cut in (len(text) // 2, len(text) - 200):
        with pytest.raises(UserError, match=r"cut off|interrupted"):
            read_profiler_file(write(tmp_path, text[:cut]))


def test_left_out_rows_are_noticed_by_their_shares(tmp_path):
    lines = (DATA / "nsys_lei_cuda_gpu_kern_sum.csv").read_text().splitlines(keepends=True)
    profile = read_profiler_file(write(tmp_path, "".join(lines[:4])))
    assert any("the rows hold 43.0 % of the time" in note for note in profile.notes)
    with pytest.raises(UserError, match=r"cut off: its rows hold 43\.0 %"):
        read_profiler_file(write(tmp_path, "".join(lines[:4]).rstrip("\n")))


def test_an_nsys_report_of_its_first_line_only_is_refused(tmp_path):
    with pytest.raises(UserError, match="cut off"):
        read_profiler_file(write(tmp_path, "Processing [a.sqlite] with [cuda_gpu_kern_sum.py]... \n"))


def test_a_database_that_is_cut_off_is_refused(tmp_path):
    path = database(tmp_path, (DATA / "nsys_2023_1.sql").read_text())
    data = path.read_bytes()
    for size in (50, 4096, len(data) - 4096):
        path.write_bytes(data[:size])
        with pytest.raises(UserError, match=r"cut off|complete"):
            read_profiler_file(path)
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    with pytest.raises(UserError, match="damaged"):
        read_profiler_file(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty"),
        ("notes.txt", b"three words here\n", "no profiler file"),
        ("other.csv", b"a,b,c\n1,2,3\n", "no profiler file"),
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a text file"),
        ("run.nsys-rep", b"whatever", "nsys export"),
        ("run.ncu-rep", b"whatever", "ncu --import"),
        ("run.json", b'{"a": 1}', "traceEvents"),
        ("run.json", b'{"traceEvents": [{"ph": "X"', "cut off"),
        ("run.json.gz", b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 20, "cut off"),  # no such deflate block
    ],
)
def test_foreign_files_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_profiler_file(path)


def test_a_foreign_database_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(UserError, match="no nsys export"):
        read_profiler_file(database(tmp_path, "CREATE TABLE people (name TEXT);"))
    with pytest.raises(UserError, match="does not exist"):
        read_profiler_file(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="folder"):
        read_profiler_file(tmp_path)


def test_an_export_older_than_the_report_beside_it_is_stale(tmp_path):
    path = database(tmp_path, (DATA / "nsys_2023_1.sql").read_text())
    report = path.with_suffix(".nsys-rep")
    report.write_bytes(b"report")
    os.utime(report, (path.stat().st_mtime + 5,) * 2)
    with pytest.raises(UserError, match="stale"):
        read_profiler_file(path)
    os.utime(report, (path.stat().st_mtime - 5,) * 2)
    assert len(read_profiler_file(path).kernels) == 14


def test_a_file_older_than_the_run_is_stale(tmp_path):
    path = write(tmp_path, "text")
    now = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    refuse_stale(path, now - timedelta(seconds=1))
    with pytest.raises(UserError, match="stale"):
        refuse_stale(path, now + timedelta(seconds=1))


def test_since_is_a_run_or_a_time(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"started": "2026-01-31T12:00:00+00:00"}))
    assert parse_since(str(tmp_path)) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_since("2026-01-31T12:00:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_since("86400") == datetime(1970, 1, 2, tzinfo=UTC)
    with pytest.raises(UserError, match="neither a run's folder nor a time"):
        parse_since("yesterday")


# ---- the command


def test_command_writes_json_that_reads_back(tmp_path):
    output = tmp_path / "new" / "kernels.json"
    assert cli.main(["profile", "parse", str(DATA / "nsys_sc23_cuda_gpu_kern_sum.csv"), "--json", str(output)]) == 0
    document = json.loads(output.read_text())
    assert {"tool", "version", "kernels", "notes"} <= document.keys()
    assert document["kernels"][0]["name"] == "nvkernel_solve_F1L204_2"
    assert document["kernels"][0]["total_ns"] == 1071243791
    assert Profile.from_json(document).to_json() == document


def test_command_refuses_a_bad_file_and_writes_nothing(tmp_path, capsys):
    output = tmp_path / "kernels.json"
    assert cli.main(["profile", "parse", str(write(tmp_path, "hello\n")), "--json", str(output)]) == 2
    assert not output.exists()
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no profiler file" in error


@pytest.mark.skipif("SEED_HPC_SAMPLES" not in os.environ, reason="SEED_HPC_SAMPLES names no folder of complete exports")
def test_complete_exports():
    samples = Path(os.environ["SEED_HPC_SAMPLES"])
    expected = {
        "lei.sqlite": ("2023.1.2.43", 14, 6415244),
        "ppcu.sqlite": ("2025.6.1.190", 0, 0),
        "ncu_loop_details.csv": (None, 1, 6880),
    }
    for name, (version, count, total_ns) in expected.items():
        profile = read_profiler_file(samples / name)
        assert (profile.version, len(profile.kernels), sum(k.total_ns for k in profile.kernels)) == (
            version,
            count,
            total_ns,
        )
