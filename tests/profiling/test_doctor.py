# SPDX-License-Identifier: Apache-2.0
"""Every check of the doctor against machines made up for it."""

import json
from types import MappingProxyType

import pytest

from seed_hpc import cli
from seed_hpc.errors import MissingDependencyError
from seed_hpc.profiling import doctor
from seed_hpc.profiling.doctor import GIB, Check, Driver, Gpu, Machine, Plan, Torch

H100 = Gpu("NVIDIA H100", (9, 0), 80 * GIB, False, [True] * 18, 0)
A100 = Gpu("NVIDIA A100", (8, 0), 40 * GIB, False, [], 0)
V100 = Gpu("Tesla V100", (7, 0), 16 * GIB, None, [], 0)


class Fake(Machine):
    """A healthy machine without a GPU; keyword arguments change single answers."""

    environ = MappingProxyType({})
    driver = Driver("NVML is not usable: NVML Shared Library Not Found")
    torch = Torch(None, "2.13.0+cpu")

    def __init__(self, **answers):
        self.programs = {}  # program or "program argument" -> (status, output)
        self.files = {}
        self.folders = {"/dev": ["shm"]}
        self.libraries = {"cpu": "/lib/libseed_cpu.so"}
        self.disks = {"/dev/shm": (8 * GIB, 8 * GIB), "results": (900 * GIB, 500 * GIB)}
        self.limits = {"nofile": 65536, "memlock": -1}
        self.is_writable = True
        self.rom_images = ("/ale_py/roms", 108)
        self.version = (3, 12, 1)
        self.num_cores = 8
        self.flags = "fpu avx2"
        self.memory_bytes = (64 * GIB, 32 * GIB)
        self.network = {"eth0": True}
        for name, value in answers.items():
            setattr(self, name, value)

    def which(self, program):
        return f"/bin/{program}" if any(name.split()[0] == program for name in self.programs) else None

    def output(self, *command):
        return self.programs.get(" ".join(command[:2]), self.programs.get(command[0], (127, "not found")))

    def read(self, path):
        return self.files.get(path)

    def folder(self, path):
        return self.folders.get(path, [])

    def disk(self, path):
        return self.disks.get(path)

    def writable(self, path):
        return self.is_writable

    def limit(self, name):
        return self.limits[name]

    def python_version(self):
        return self.version

    def cores(self):
        return self.num_cores

    def cpu_flags(self):
        return self.flags

    def memory(self):
        return self.memory_bytes

    def interfaces(self):
        return self.network

    def load_library(self, backend, architecture=""):
        if backend not in self.libraries:
            raise MissingDependencyError(f"libseed_{backend}.so was not found in /x: build it")
        return self.libraries[backend]

    def roms(self):
        if isinstance(self.rom_images, str):
            raise MissingDependencyError(self.rom_images)
        return self.rom_images


def with_gpus(*gpus, cuda=(12, 4), **answers):
    return Fake(driver=Driver(None, "550.54", cuda, list(gpus)), **answers)


def verdict(check, machine, plan=None):
    result = check(machine, plan or Plan())
    assert isinstance(result, Check)
    assert result.found
    if result.status in ("warn", "fail"):
        assert result.advice
    return result.status


def test_a_healthy_machine_without_a_gpu_has_no_failure_and_no_warning():
    checks = doctor.examine(Fake(), Plan())
    assert {check.status for check in checks} == {"ok", "absent"}
    assert len({check.name for check in checks}) == len(doctor.CHECKS)


def test_python():
    assert verdict(doctor.check_python, Fake()) == "ok"
    assert verdict(doctor.check_python, Fake(version=(3, 10, 9))) == "fail"


def test_torch():
    check = doctor.check_torch
    cuda = Torch(None, "2.13.0", "12.8", "2.27.3", ["sm_80", "sm_90", "compute_90"])
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(torch=Torch("libc10.so: undefined symbol"))) == "fail"
    assert verdict(check, with_gpus(H100)) == "warn"  # CPU build beside a GPU
    assert verdict(check, with_gpus(H100, torch=cuda)) == "ok"
    assert verdict(check, with_gpus(H100, torch=Torch(None, "2.13.0", "13.0", None, ["sm_90"]))) == "fail"
    assert verdict(check, with_gpus(H100, V100, torch=cuda)) == "fail"


@pytest.mark.parametrize(
    ("capability", "architectures", "covered"),
    [
        ((9, 0), ["sm_90"], True),
        ((8, 6), ["sm_80"], True),  # same major version, later minor version
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),  # a cubin does not cross major versions
        ((9, 0), ["compute_80"], True),  # PTX does
        ((10, 0), ["sm_90", "compute_90"], True),
        ((12, 0), ["sm_120"], True),
        ((9, 0), ["sm_90a"], True),
    ],
)
def test_code_runs_on_an_architecture(capability, architectures, covered):
    assert doctor._covered(Gpu("x", capability, None, None, [], None), architectures) is covered


def test_cpu_library():
    assert verdict(doctor.check_cpu_library, Fake()) == "ok"
    result = doctor.check_cpu_library(Fake(libraries={}), Plan())
    assert (result.status, result.advice) == ("fail", "build it: make setup")


def test_cuda_library():
    check = doctor.check_cuda_library
    built = {"cpu": "a", "cuda": "/lib/libseed_cuda.so"}
    elf = {"cuobjdump --list-elf": (0, "ELF file 1: x.1.sm_80.cubin\nELF file 2: x.2.sm_90.cubin\n")}
    assert verdict(check, Fake()) == "absent"
    assert verdict(check, with_gpus(H100)) == "fail"
    assert verdict(check, with_gpus(H100, libraries=built, programs=elf)) == "ok"
    result = check(with_gpus(V100, libraries=built, programs=elf), Plan())
    assert (result.status, result.advice) == ("fail", "build it for Tesla V100: sm_70")
    assert verdict(check, with_gpus(V100, libraries=built)) == "ok"  # without cuobjdump it cannot be told
    record = {"/lib/kernels.json": '{"backend": "cuda", "arch": "80"}'}
    assert verdict(check, with_gpus(A100, libraries=built, files=record)) == "ok"
    assert verdict(check, with_gpus(H100, libraries=built, files=record)) == "fail"


def test_roms():
    assert verdict(doctor.check_roms, Fake()) == "ok"
    assert verdict(doctor.check_roms, Fake(rom_images=("/empty", 0))) == "fail"
    assert verdict(doctor.check_roms, Fake(rom_images="no ROM images")) == "fail"


def test_driver():
    check = doctor.check_driver
    assert verdict(check, Fake()) == "absent"
    assert verdict(check, Fake(folders={"/dev": ["nvidia0", "shm"]})) == "fail"
    mismatch = Driver("NVML is not usable: RM has detected an NVML/RM version mismatch.")
    assert "restart" in check(Fake(driver=mismatch), Plan()).advice
    assert verdict(check, with_gpus()) == "warn"
    assert check(with_gpus(H100, H100), Plan()).found == "550.54, CUDA up to 12.4; 2 x NVIDIA H100"


def test_toolkit():
    check = doctor.check_toolkit
    nvcc12, nvcc13 = ({"nvcc": (0, f"Cuda compilation tools, release {v}, V{v}.1")} for v in ("12.8", "13.0"))
    assert verdict(check, Fake()) == "absent"
    assert verdict(check, Fake(programs=nvcc13)) == "ok"
    assert verdict(check, Fake(programs={"nvcc": (1, "broken")})) == "warn"
    assert verdict(check, with_gpus(H100, programs=nvcc13)) == "warn"  # the driver is older
    assert verdict(check, with_gpus(V100, cuda=(13, 0), programs=nvcc13)) == "fail"
    assert verdict(check, with_gpus(V100, cuda=(13, 0), programs=nvcc12)) == "ok"


def test_nvlink():
    check = doctor.check_nvlink
    half = Gpu("x", (9, 0), GIB, False, [True] * 9 + [False] * 9, 0)
    dark = Gpu("x", (9, 0), GIB, False, [False] * 18, 0)
    assert verdict(check, with_gpus(A100)) == "absent"
    assert verdict(check, with_gpus(H100, H100)) == "ok"
    assert verdict(check, with_gpus(H100, half)) == "warn"
    assert verdict(check, with_gpus(dark, dark)) == "warn"
    assert verdict(check, with_gpus(half, half)) == "ok"  # a board without a switch uses some of its links


def test_mig():
    split = Gpu("x", (9, 0), GIB, True, [], 0)
    assert verdict(doctor.check_mig, Fake()) == "absent"
    assert verdict(doctor.check_mig, with_gpus(H100)) == "ok"
    assert verdict(doctor.check_mig, with_gpus(H100, split)) == "warn"


def test_gpu_errors():
    broken = Gpu("x", (9, 0), GIB, False, [], 2)
    assert verdict(doctor.check_gpu_errors, Fake()) == "absent"
    assert verdict(doctor.check_gpu_errors, with_gpus(H100)) == "ok"
    assert doctor.check_gpu_errors(with_gpus(H100, broken), Plan()).found == "uncorrected on GPU 1"


def test_counters(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    closed = {"/proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n"}
    tools = {"nsys": (0, ""), "ncu": (0, "")}
    assert verdict(doctor.check_counters, Fake()) == "absent"
    assert verdict(doctor.check_counters, Fake(programs=tools)) == "ok"
    assert verdict(doctor.check_counters, Fake(programs=tools, files=closed)) == "warn"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert verdict(doctor.check_counters, Fake(programs=tools, files=closed)) == "ok"


def test_nccl():
    cuda = Torch(None, "2.13.0", "12.8", "2.27.3", ["sm_90"])
    assert verdict(doctor.check_nccl, Fake()) == "absent"
    assert verdict(doctor.check_nccl, with_gpus(H100, H100)) == "warn"
    assert verdict(doctor.check_nccl, with_gpus(H100, H100, torch=cuda)) == "ok"


def test_network():
    check = doctor.check_network
    folders = {"/sys/class/infiniband": ["mlx5_0"], "/sys/class/infiniband/mlx5_0/ports": ["1"]}
    state = "/sys/class/infiniband/mlx5_0/ports/1/state"
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(network={"eth0": False})) == "warn"
    assert check(Fake(folders=folders, files={state: "4: ACTIVE"}), Plan()).found == "eth0; InfiniBand mlx5_0/1"
    assert verdict(check, Fake(folders=folders, files={state: "1: DOWN"})) == "warn"
    assert verdict(check, Fake(environ={"NCCL_SOCKET_IFNAME": "ib0"})) == "fail"
    assert verdict(check, Fake(environ={"NCCL_SOCKET_IFNAME": "eth"})) == "ok"  # NCCL matches prefixes
    assert verdict(check, Fake(environ={"NCCL_SOCKET_IFNAME": "^docker"})) == "ok"


def test_cpu(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    check = doctor.check_cpu
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(flags="fpu sse2")) == "warn"
    assert verdict(check, Fake(files={"/sys/fs/cgroup/cpu.max": "200000 100000\n"})) == "warn"
    assert verdict(check, Fake(files={"/sys/fs/cgroup/cpu.max": "max 100000\n"})) == "ok"
    in_job = {"/proc/self/cgroup": "0::/job_7/step_0\n", "/sys/fs/cgroup/job_7/cpu.max": "150000 100000\n"}
    assert verdict(check, Fake(files=in_job)) == "warn"
    assert verdict(check, Fake(environ={"OMP_NUM_THREADS": "64"})) == "warn"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert verdict(check, Fake(flags="asimd")) == "ok"


def test_memory():
    check = doctor.check_memory
    limited = {"/sys/fs/cgroup/memory.max": str(8 * GIB), "/sys/fs/cgroup/memory.current": str(2 * GIB)}
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(memory_bytes=(8 * GIB, GIB))) == "warn"
    assert verdict(check, Fake(), Plan(host_bytes=20 * GIB)) == "ok"
    assert verdict(check, Fake(), Plan(host_bytes=31 * GIB)) == "warn"
    assert verdict(check, Fake(), Plan(host_bytes=33 * GIB)) == "fail"
    assert verdict(check, Fake(files=limited), Plan(host_bytes=7 * GIB)) == "fail"
    assert check(Fake(files=limited), Plan()).found == "6.0 GiB available (limit of the job or container)"
    # On a node itself a job's limit is on the way from its own group to the root.
    job = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7"
    in_job = {
        "/proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_7/step_0\n",
        f"{job}/memory.max": str(4 * GIB),
        f"{job}/memory.current": str(GIB),
    }
    assert check(Fake(files=in_job), Plan()).found == "3.0 GiB available (limit of the job or container)"


def test_gpu_memory():
    check = doctor.check_gpu_memory
    assert verdict(check, Fake()) == "absent"
    assert verdict(check, with_gpus(H100)) == "ok"
    assert verdict(check, with_gpus(H100, A100), Plan(device_bytes=60 * GIB)) == "fail"  # the smallest counts
    assert verdict(check, with_gpus(H100), Plan(device_bytes=60 * GIB)) == "ok"


def test_shared_memory():
    check = doctor.check_shared_memory
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(disks={"/dev/shm": (64 << 20, 64 << 20)})) == "warn"
    assert verdict(check, Fake(folders={"/dev": ["null"]})) == "warn"


def test_limits():
    check = doctor.check_limits
    infiniband = {"/sys/class/infiniband": ["mlx5_0"]}
    low = {"nofile": 65536, "memlock": 65536}
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(limits={"nofile": 1024, "memlock": -1})) == "warn"
    assert verdict(check, Fake(limits=low)) == "ok"
    assert verdict(check, Fake(limits=low, folders=infiniband)) == "warn"
    assert verdict(check, Fake(limits={"nofile": -1, "memlock": -1}, folders=infiniband)) == "ok"


def test_results():
    check = doctor.check_results
    assert verdict(check, Fake()) == "ok"
    assert verdict(check, Fake(is_writable=False)) == "fail"
    assert verdict(check, Fake(disks={"results": (GIB, GIB)})) == "warn"


def test_slurm():
    check = doctor.check_slurm
    version = {"sbatch": (0, "slurm-wlm 22.05.8")}
    up, down = ((0, f"Slurmctld(primary) at n1 is {state}") for state in ("UP", "DOWN"))
    assert verdict(check, Fake()) == "absent"
    assert check(Fake(programs={**version, "scontrol": up}), Plan()) == Check("Slurm", "ok", "slurm-wlm 22.05.8")
    assert verdict(check, Fake(programs={**version, "scontrol": down})) == "warn"
    broken = {"sbatch": (1, "sbatch: error: a\nsbatch: fatal: b"), "scontrol": (1, "error")}
    assert check(Fake(programs=broken), Plan()).found == "sbatch is installed, no controller answers"


def test_apptainer():
    check = doctor.check_apptainer
    version = {"apptainer": (0, "apptainer version 1.4.5")}
    assert verdict(check, Fake()) == "absent"
    assert verdict(check, Fake(programs=version)) == "ok"
    assert verdict(check, Fake(programs={"singularity": (0, "singularity-ce version 4.1.0")})) == "ok"
    assert verdict(check, Fake(programs={"apptainer": (1, "error while loading shared libraries: x.so")})) == "warn"
    assert verdict(check, Fake(programs=version, files={"/proc/sys/user/max_user_namespaces": "0\n"})) == "warn"


def test_a_check_that_breaks_is_a_failed_check():
    class Broken(Fake):
        def cores(self):
            raise RuntimeError("boom")

    checks = {check.name: check for check in doctor.examine(Broken(), Plan())}
    assert (checks["cpu"].status, checks["cpu"].found) == ("fail", "RuntimeError: boom")
    assert checks["Python"].status == "ok"


def test_the_real_machine_answers_every_check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    output = tmp_path / "doctor.json"
    status = cli.main(["doctor", "--json", str(output)])
    document = json.loads(output.read_text())
    assert len(document["checks"]) == len(doctor.CHECKS)
    assert not any("please report this" in check["advice"] for check in document["checks"])
    assert status == (1 if document["failed"] else 0)
    assert "Python" in capsys.readouterr().out


def test_command_fails_on_a_failed_check_and_refuses_bad_options(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("seed_hpc.profiling.doctor_command.Machine", Fake)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor"]) == 0
    capsys.readouterr()
    assert cli.main(["doctor", "--host-memory", "4000", "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == 1
    assert cli.main(["doctor", "--gpu-memory", "-3"]) == 2


def test_driver_through_nvml(with_nvml):
    code = """
        from seed_hpc.profiling.doctor import Machine, Plan, check_mig, check_nvlink, check_driver
        machine = Machine()
        for check in (check_driver, check_nvlink, check_mig):
            result = check(machine, Plan())
            print(result.status, "|", result.found)
    """
    mig = with_nvml("mig", code).splitlines()
    assert mig[0] == "ok | 550.54.15, CUDA up to 12.4; 1 x NVIDIA H100 80GB HBM3"
    assert mig[2] == "warn | on for GPU 0"
    assert with_nvml("groups", code).splitlines()[1].startswith("ok | GPU 0: 6 of 18 up")
    assert with_nvml("no_driver", code).splitlines()[0].startswith("absent")
    assert with_nvml("mismatch", code).splitlines()[0].startswith("fail")
