# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc kernels`: the CPU library from this checkout, a small CUDA library, records, and every refusal."""

import ctypes
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from seed_hpc import _native, cli
from seed_hpc.profiling import doctor, kernels_command
from seed_hpc.profiling.kernels_command import check_resources, find_nvcc
from seed_hpc.report.document import build_document, validate_document
from seed_hpc.report.run_record import RunRecord

ROOT = Path(__file__).resolve().parents[2]

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine: install a CUDA toolkit")


def kernels(*arguments):
    return cli.main(["kernels", *map(str, arguments)])


def error_of(capsys, *arguments):
    capsys.readouterr()
    assert kernels(*arguments) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def accepted_by_the_report(record):
    validate_document(build_document([RunRecord(directory=Path(), info={})], kernels=[record]))


@pytest.fixture
def small_checkout(tmp_path):
    """A project with the CUDA build of this one and a kernel of a few lines."""
    source = tmp_path / "checkout"
    (source / "cuda").mkdir(parents=True)
    shutil.copy(ROOT / "cuda" / "cuda_library.cmake", source / "cuda")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(small LANGUAGES CXX)\nfind_package(Threads REQUIRED)\n"
        "add_library(seed_game_tables INTERFACE)\nadd_subdirectory(cuda)\n"
    )
    (source / "cuda" / "CMakeLists.txt").write_text("if(SEED_CUDA_ARCHS)\n  include(cuda_library.cmake)\nendif()\n")
    return source


def add_kernel(source):
    (source / "cuda" / "pool").mkdir()
    (source / "cuda" / "pool" / "pool_cuda.cu").write_text(
        "template <class T> __global__ void __launch_bounds__(128) twice(T* x) { x[threadIdx.x] *= 2; }\n"
        "template __global__ void twice<float>(float*);\n"
        "__global__ void unbounded(int* x) { x[threadIdx.x] += 1; }\n"
    )


@pytest.mark.slow
def test_the_cpu_library_of_this_checkout(tmp_path, capsys):
    output = tmp_path / "cpu"
    assert kernels("build", "--output", output, "--build-dir", tmp_path / "build") == 0
    record = json.loads((output / "kernels.json").read_text())
    accepted_by_the_report(record)
    library = output / "libseed_cpu.so"
    assert record["status"] == "built"
    assert record["digest"] == "sha256:" + hashlib.sha256(library.read_bytes()).hexdigest()
    assert record["bytes"] == library.stat().st_size
    assert ctypes.CDLL(str(library)).seed_abi_version() == _native.ABI_VERSION
    assert (output / "build.log").stat().st_size > 0
    capsys.readouterr()
    assert kernels("inspect", tmp_path) == 0
    assert record["digest"][:19] in capsys.readouterr().out


@needs_nvcc
@pytest.mark.slow
def test_a_cuda_library_and_its_resources(small_checkout, tmp_path, capsys):
    add_kernel(small_checkout)
    output = tmp_path / "sm_90"
    command = ["build", "--backend", "cuda", "--arch", "90", "--source", small_checkout, "--output", output]
    assert kernels(*command) == 1
    assert "unbounded on sm_90 has no __launch_bounds__" in capsys.readouterr().err
    assert kernels(*command, "--allow", "unbounded=a test kernel") == 0
    record = json.loads((output / "kernels.json").read_text())
    accepted_by_the_report(record)
    found = {kernel["name"]: kernel for kernel in record["kernels"]}
    assert set(found) == {"twice<float>", "unbounded"}
    twice = found["twice<float>"]
    assert (twice["block_size"], twice["occupancy"], twice["spill_bytes"]) == (128, 1.0, 0)
    assert "nvcc" in record["compiler"]
    resources = json.loads((output / "resources.json").read_text())
    assert set(resources) == {"arch", "nvcc", "kernels"}
    assert resources["kernels"] == record["kernels"]


@needs_nvcc
def test_a_compiler_error_is_shown_and_leaves_no_record(small_checkout, tmp_path, capsys):
    add_kernel(small_checkout)
    (small_checkout / "cuda" / "pool" / "pool_cuda.cu").write_text("__global__ void broken( {}\n")
    output = tmp_path / "sm_90"
    command = ["build", "--backend", "cuda", "--arch", "90", "--source", small_checkout, "--output", output]
    assert kernels(*command, "--if-possible") == 1
    error = capsys.readouterr().err
    assert "seed_cuda could not be built" in error
    assert "pool_cuda.cu(1)" in error
    assert [path.name for path in output.iterdir()] == ["build.log"]


@needs_nvcc
def test_an_architecture_that_this_compiler_dropped(small_checkout, tmp_path, capsys, monkeypatch):
    add_kernel(small_checkout)
    monkeypatch.setattr(kernels_command, "compiler_architectures", lambda _: ["75", "80", "90"])
    command = ["build", "--backend", "cuda", "--arch", "80", "70", "--source", small_checkout]
    command += ["--output", tmp_path / "x"]
    error = error_of(capsys, *command, "--if-possible")
    assert "does not build for sm_70, only for 75, 80, 90: use CUDA 9.0 to 12.9" in error
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("cause", ["no nvcc", "no sources"])
def test_what_cannot_be_built_is_recorded_or_refused(small_checkout, tmp_path, capsys, monkeypatch, cause):
    monkeypatch.setattr(kernels_command, "find_nvcc", lambda: None if cause == "no nvcc" else Path("/bin/true"))
    says = "no nvcc was found" if cause == "no nvcc" else "no CUDA sources"
    command = ["build", "--backend", "cuda", "--arch", "90", "--source", small_checkout, "--output", tmp_path / "x"]
    assert says in error_of(capsys, *command)
    assert not (tmp_path / "x").exists()
    assert kernels(*command, "--if-possible") == 0
    record = json.loads((tmp_path / "x" / "kernels.json").read_text())
    accepted_by_the_report(record)
    assert record["status"] == "not_built"
    assert says in record["reason"]


def test_several_architectures_have_a_folder_each(small_checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(kernels_command, "find_nvcc", lambda: None)
    command = ["build", "--backend", "cuda", "--arch", "80", "90", "--source", small_checkout]
    assert kernels(*command, "--output", tmp_path / "x", "--if-possible") == 0
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["sm_80", "sm_90"]


def test_wrong_use(tmp_path, capsys):
    build = ["build", "--output", tmp_path / "x"]
    cases = [
        ([*build, "--backend", "cuda"], "needs --arch"),
        ([*build, "--backend", "cuda", "--arch", "sm_90"], "did you mean 90?"),
        ([*build, "--arch", "90"], "--arch belongs to --backend cuda"),
        ([*build, "--jobs", "0"], "--jobs 0 is not allowed"),
        ([*build, "--allow", "step"], "has no reason: write KERNEL=REASON"),
        ([*build, "--source", tmp_path], "is no checkout"),
        (["inspect", tmp_path / "none.json"], "does not exist"),
        (["inspect", tmp_path], "holds no kernels.json"),
    ]
    for arguments, says in cases:
        assert says in error_of(capsys, *arguments)
    assert not (tmp_path / "x").exists()


def test_a_damaged_record(tmp_path, capsys):
    path = tmp_path / "kernels.json"
    path.write_text("{")
    assert "cannot be read as JSON" in error_of(capsys, "inspect", path)
    path.write_text("{}")
    assert "is no record" in error_of(capsys, "inspect", path)


KERNEL = {"name": "step<State>", "spill_bytes": 0, "occupancy": 0.75, "limited_by": "registers"}


@pytest.mark.parametrize(
    ("arch", "change", "says"),
    [
        ("90", {}, None),
        ("90", {"spill_bytes": 8}, "spills 8 bytes"),
        ("80", {"occupancy": 0.375}, "reaches 38 % occupancy (limit: registers)"),
        ("75", {"spill_bytes": 8}, None),  # only sm_80 and sm_90 are held to it
    ],
)
def test_the_check_of_resources(arch, change, says):
    record = {"arch": arch, "kernels": [{**KERNEL, **change}]}
    complaints = check_resources(record, {})
    assert [says in text for text in complaints] == ([True] if says else [])
    assert check_resources(record, {"step<": "small grid"}) == []


def test_list_names_libraries_and_compiler(capsys):
    assert kernels("list") == 0
    printed = capsys.readouterr().out
    assert "cpu: " in printed
    assert "nvcc: " in printed


def test_list_and_doctor_look_where_a_run_looks(capsys, tmp_path, monkeypatch):
    """In a folder for each architecture, as `make kernels` and the pipeline lay them out."""
    library = tmp_path / "sm_90" / "libseed_cuda.so"
    library.parent.mkdir()
    library.write_bytes(_native.library_path("cpu").read_bytes())
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", f"{_native.library_path('cpu').parent}:{tmp_path}")
    assert kernels("list") == 0
    assert f"cuda: {library}, " in capsys.readouterr().out
    assert doctor.Machine().load_library("cuda", "90") == str(library)
