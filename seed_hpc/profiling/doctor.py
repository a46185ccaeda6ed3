# SPDX-License-Identifier: Apache-2.0
"""The checks of `seed-hpc doctor`: each is one small function from the machine to a `Check`.

`Machine` is everything the checks ask of the system, so that a test can hand in another one. A check's status is
"ok", "warn" (works, but slower or not everywhere), "fail" (a needed thing does not work) or "absent" (an optional
thing is not there).
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import psutil

from seed_hpc import _native
from seed_hpc.envs import cuda_device
from seed_hpc.envs.roms import rom_folder
from seed_hpc.errors import MissingDependencyError, UserError
from seed_hpc.profiling.nvml import Nvml

Status = Literal["ok", "warn", "fail", "absent"]
GIB = 1 << 30
_OLDEST_PYTHON = (3, 11)
_SHARED_MEMORY_BYTES = 1 * GIB  # NCCL and DataLoader workers exchange buffers there; containers give 64 MB by default
_OPEN_FILES = 4096
_FREE_DISK_BYTES = 5 * GIB
_HOST_MEMORY_BYTES = 4 * GIB


@dataclass(frozen=True)
class Check:
    """One line of the doctor's table."""

    name: str
    status: Status
    found: str  # what is there
    advice: str = ""  # what to do; empty when nothing needs doing


@dataclass(frozen=True)
class Gpu:
    """What the checks need to know of one GPU."""

    name: str
    compute_capability: tuple[int, int] | None
    memory_bytes: int | None
    mig: bool | None  # None: cannot be split
    nvlinks: list[bool]  # for each link whether it is up
    ecc_uncorrected: int | None


@dataclass(frozen=True)
class Driver:
    """What NVML says of the NVIDIA driver; `error` when there is none that works."""

    error: str | None
    version: str | None = None
    cuda: tuple[int, int] | None = None
    gpus: list[Gpu] = field(default_factory=list)


@dataclass(frozen=True)
class Torch:
    """What the installed torch can do; `error` when it cannot be imported."""

    error: str | None
    version: str = ""
    cuda: str | None = None  # CUDA version it was built for
    nccl: str | None = None
    architectures: list[str] = field(default_factory=list)  # such as sm_90


class Machine:
    """The system as the checks see it."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables."""
        return os.environ

    def which(self, program: str) -> str | None:
        """Returns the path of a program on the PATH."""
        return shutil.which(program)

    def output(self, *command: str) -> tuple[int, str]:
        """Runs a command for at most 10 s; returns (exit code, its output), 127 where it cannot be run."""
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 127, str(error)
        return result.returncode, (result.stdout + result.stderr).strip()

    def read(self, path: str) -> str | None:
        """Returns a file's text, or None."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def folder(self, path: str) -> list[str]:
        """Returns the names in a folder; an empty list where there is none."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def disk(self, path: str) -> tuple[int, int] | None:
        """Returns (total, free) bytes of the file system that holds `path`."""
        existing = Path(path).absolute()
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        try:
            usage = shutil.disk_usage(existing)
        except OSError:
            return None
        return usage.total, usage.free

    def writable(self, path: str) -> bool:
        """Tells whether files can be made in `path` or, where it is not there yet, in its nearest parent."""
        existing = Path(path).absolute()
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        return os.access(existing, os.W_OK)

    def limit(self, name: str) -> int:
        """Returns a soft resource limit ("nofile", "memlock"); -1 is unlimited."""
        return resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[0]

    def python_version(self) -> tuple[int, int, int]:
        """Returns the interpreter's version."""
        return sys.version_info[:3]

    def cores(self) -> int:
        """Returns how many cores this process may use."""
        return len(os.sched_getaffinity(0))

    def cpu_flags(self) -> str:
        """Returns the instruction sets of the CPU in the kernel's words."""
        match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", self.read("/proc/cpuinfo") or "", re.M)
        return match[1] if match else ""

    def memory(self) -> tuple[int, int]:
        """Returns (total, available) bytes of main memory."""
        memory = psutil.virtual_memory()
        return int(memory.total), int(memory.available)

    def interfaces(self) -> dict[str, bool]:
        """Returns the network interfaces apart from loopback, and whether each is up."""
        return {name: stats.isup for name, stats in psutil.net_if_stats().items() if name != "lo"}

    def load_library(self, backend: str, architecture: str = "") -> str:
        """Loads libseed_<backend>.so, for an architecture ("90") if given; returns its path.

        Raises:
            MissingDependencyError: There is none.
        """
        path = cuda_device.find_library(architecture) if architecture else _native.library_path(backend)
        _native.load_path(path)
        return str(path)

    def roms(self) -> tuple[str, int]:
        """Returns (folder of the ROM images, images in it). Raises UserError, also where there is no folder."""
        folder = rom_folder()
        return str(folder), len(list(folder.glob("*.bin")))

    @cached_property
    def driver(self) -> Driver:
        """The NVIDIA driver and its GPUs."""
        try:
            with Nvml() as session:
                gpus = []
                for device in session.devices:
                    if device.parent_uuid is None:
                        row = session.read(device)
                        gpus.append(
                            Gpu(
                                device.name,
                                session.compute_capability(device),
                                _integer(row["memory_total_bytes"]),
                                session.mig_enabled(device),
                                session.nvlink_states(device),
                                _integer(row["ecc_uncorrected"]),
                            )
                        )
                return Driver(None, session.driver_version(), session.cuda_version(), gpus)
        except MissingDependencyError as error:
            return Driver(str(error))

    @cached_property
    def torch(self) -> Torch:
        """The installed torch."""
        try:
            import torch
        except (ImportError, OSError) as error:
            return Torch(str(error))
        nccl = None
        if torch.version.cuda is not None:
            try:
                version: Any = torch.cuda.nccl.version  # type: ignore[attr-defined,unused-ignore]
                nccl = ".".join(map(str, version()))
            except (AttributeError, RuntimeError):
                nccl = None
        architectures = list(torch.cuda.get_arch_list()) if torch.version.cuda is not None else []
        return Torch(None, str(torch.__version__), torch.version.cuda, nccl, architectures)


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


@dataclass(frozen=True)
class Plan:
    """What a planned run needs; 0 where it is not known."""

    host_bytes: int = 0
    device_bytes: int = 0
    results: str = "results"


# ---- software


def check_python(machine: Machine, plan: Plan) -> Check:
    """The interpreter."""
    version = machine.python_version()
    text = ".".join(map(str, version))
    if version[:2] < _OLDEST_PYTHON:
        return Check("Python", "fail", text, "use Python 3.11 or newer")
    return Check("Python", "ok", text)


def check_torch(machine: Machine, plan: Plan) -> Check:
    """Torch, and whether its build fits the driver and the GPUs."""
    torch, driver = machine.torch, machine.driver
    if torch.error is not None:
        return Check("torch", "fail", f"cannot be imported: {torch.error}", "pip install torch")
    if torch.cuda is None:
        if driver.gpus:
            advice = "install a CUDA build of torch to use the GPU (pytorch.org says which)"
            return Check("torch", "warn", f"{torch.version}, for the CPU only", advice)
        return Check("torch", "ok", f"{torch.version}, for the CPU")
    found = f"{torch.version}, CUDA {torch.cuda}"
    built = int(torch.cuda.split(".")[0])
    if driver.cuda is not None and built > driver.cuda[0]:
        newest = f"{driver.cuda[0]}.{driver.cuda[1]}"
        return Check(
            "torch", "fail", found, f"the driver runs CUDA up to {newest}: renew it, or install an older build"
        )
    missing = [gpu for gpu in driver.gpus if gpu.compute_capability and not _covered(gpu, torch.architectures)]
    if torch.architectures and missing:
        return Check("torch", "fail", found, f"this build has no code for {missing[0].name}: install another build")
    return Check("torch", "ok", found)


def _covered(gpu: Gpu, architectures: list[str]) -> bool:
    """A cubin runs on the same major version from its minor version on; PTX (compute_XX) on anything newer."""
    major, minor = gpu.compute_capability or (0, 0)
    for name in architectures:
        if match := re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name):
            built = int(match[2]), int(match[3])
            if built <= (major, minor) and (match[1] == "compute" or built[0] == major):
                return True
    return False


def check_cpu_library(machine: Machine, plan: Plan) -> Check:
    """The native library for the CPU."""
    try:
        return Check("library (CPU)", "ok", machine.load_library("cpu"))
    except MissingDependencyError as error:
        return Check("library (CPU)", "fail", str(error).split(":")[0], "build it: make setup")


def check_cuda_library(machine: Machine, plan: Plan) -> Check:
    """The native library for CUDA, and whether it holds code for these GPUs."""
    gpus = machine.driver.gpus
    capability = next((gpu.compute_capability for gpu in gpus if gpu.compute_capability), ())
    try:
        path = machine.load_library("cuda", "".join(map(str, capability)))
    except MissingDependencyError as error:
        if not gpus:
            return Check("library (CUDA)", "absent", "not built; there is no GPU")
        return Check("library (CUDA)", "fail", str(error).split(":")[0], "build it: make kernels")
    architectures = _library_architectures(machine, path)
    found = f"{path} ({', '.join(architectures) or 'architectures not known: cuobjdump is not installed'})"
    missing = [gpu for gpu in gpus if gpu.compute_capability and architectures and not _covered(gpu, architectures)]
    if missing:
        major, minor = missing[0].compute_capability or (0, 0)
        return Check("library (CUDA)", "fail", found, f"build it for {missing[0].name}: sm_{major}{minor}")
    return Check("library (CUDA)", "ok", found)


def _library_architectures(machine: Machine, path: str) -> list[str]:
    """Asks the record of `seed-hpc kernels build`, else the library itself."""
    try:
        record = json.loads(machine.read(str(Path(path).with_name("kernels.json"))) or "")
        return [f"sm_{record['arch']}"]
    except (ValueError, KeyError, TypeError):
        pass
    names = set()
    for option, prefix in (("--list-elf", "sm"), ("--list-ptx", "compute")):
        status, text = machine.output("cuobjdump", option, path)
        if status == 0:
            names |= {f"{prefix}_{number}" for number in re.findall(r"sm_(\d+[af]?)", text)}
    return sorted(names)


def check_roms(machine: Machine, plan: Plan) -> Check:
    """The ROM images: of the folder that SEED_HPC_ROMS names, else of the ale-py package."""
    try:
        folder, count = machine.roms()
    except UserError as error:
        return Check("ROMs", "fail", str(error), "pip install ale-py, or set SEED_HPC_ROMS to your own folder")
    if count == 0:
        return Check("ROMs", "fail", f"no <game>.bin in {folder}", "pip install --force-reinstall ale-py")
    return Check("ROMs", "ok", f"{count} in {folder}")


# ---- GPU


def check_driver(machine: Machine, plan: Plan) -> Check:
    """The NVIDIA driver."""
    driver = machine.driver
    if driver.error is not None:
        if "mismatch" in driver.error.lower():
            return Check("NVIDIA driver", "fail", driver.error, "restart the machine: the driver was renewed under it")
        if any(re.fullmatch(r"nvidia\d+", name) for name in machine.folder("/dev")):
            advice = "in a container: start it with --nv or --gpus; on the host: load the driver (nvidia-smi shows why)"
            return Check("NVIDIA driver", "fail", f"/dev has GPUs, but {driver.error}", advice)
        return Check("NVIDIA driver", "absent", "none: runs use the CPU")
    cuda = f", CUDA up to {driver.cuda[0]}.{driver.cuda[1]}" if driver.cuda else ""
    if not driver.gpus:
        return Check(
            "NVIDIA driver", "warn", f"{driver.version}{cuda}, no GPU", "ask the scheduler for one (--gres=gpu:1)"
        )
    names: dict[str, int] = {}
    for gpu in driver.gpus:
        names[gpu.name] = names.get(gpu.name, 0) + 1
    listed = ", ".join(f"{count} x {name}" for name, count in names.items())
    return Check("NVIDIA driver", "ok", f"{driver.version}{cuda}; {listed}")


def check_toolkit(machine: Machine, plan: Plan) -> Check:
    """The CUDA compiler."""
    if machine.which("nvcc") is None:
        return Check("CUDA toolkit", "absent", "no nvcc on the PATH", "needed only to build the CUDA library")
    _, text = machine.output("nvcc", "--version")
    match = re.search(r"release (\d+)\.(\d+)", text)
    if match is None:
        return Check("CUDA toolkit", "warn", "nvcc does not tell its version", "run `nvcc --version` and see")
    version = int(match[1]), int(match[2])
    found = f"nvcc {version[0]}.{version[1]}"
    cuda = machine.driver.cuda
    if cuda is not None and version[0] > cuda[0]:
        advice = f"what it builds needs a newer driver than the one here (CUDA up to {cuda[0]}.{cuda[1]})"
        return Check("CUDA toolkit", "warn", found, advice)
    old = [gpu for gpu in machine.driver.gpus if version >= (13, 0) and (gpu.compute_capability or (99, 0)) < (7, 5)]
    if old:
        return Check("CUDA toolkit", "fail", found, f"CUDA 13 has no code for {old[0].name}: use CUDA 12.8 or 12.9")
    return Check("CUDA toolkit", "ok", found)


def check_nvlink(machine: Machine, plan: Plan) -> Check:
    """The NVLinks of each GPU."""
    linked = {index: gpu.nvlinks for index, gpu in enumerate(machine.driver.gpus) if gpu.nvlinks}
    if not linked:
        return Check("NVLink", "absent", "none")
    up = {index: sum(states) for index, states in linked.items()}
    found = ", ".join(f"GPU {index}: {count} of {len(linked[index])} up" for index, count in up.items())
    if len(set(up.values())) > 1 or (len(linked) > 1 and not any(up.values())):
        return Check("NVLink", "warn", found, "links are down: see `nvidia-smi nvlink -s` and the fabric manager's log")
    return Check("NVLink", "ok", found)


def check_mig(machine: Machine, plan: Plan) -> Check:
    """Whether GPUs are split into instances."""
    split = [index for index, gpu in enumerate(machine.driver.gpus) if gpu.mig]
    if not machine.driver.gpus:
        return Check("MIG", "absent", "no GPU")
    if split:
        listed = ", ".join(map(str, split))
        advice = "name an instance by UUID in CUDA_VISIBLE_DEVICES; instances cannot talk to each other through NCCL"
        return Check("MIG", "warn", f"on for GPU {listed}", advice)
    return Check("MIG", "ok", "off")


def check_gpu_errors(machine: Machine, plan: Plan) -> Check:
    """Memory errors that ECC could not correct."""
    if not machine.driver.gpus:
        return Check("GPU memory errors", "absent", "no GPU")
    broken = [index for index, gpu in enumerate(machine.driver.gpus) if gpu.ecc_uncorrected]
    if broken:
        listed = ", ".join(map(str, broken))
        return Check("GPU memory errors", "warn", f"uncorrected on GPU {listed}", "ask for a reset or another node")
    return Check("GPU memory errors", "ok", "none")


def check_counters(machine: Machine, plan: Plan) -> Check:
    """The profilers, and whether this user may read the GPU's counters."""
    tools = [tool for tool in ("nsys", "ncu") if machine.which(tool)]
    if not tools:
        return Check("Nsight", "absent", "neither nsys nor ncu", "without them profiles come from torch.profiler")
    parameters = machine.read("/proc/driver/nvidia/params") or ""
    if "ncu" in tools and "RmProfilingAdminOnly: 1" in parameters and os.geteuid() != 0:
        advice = "for ncu the administrator must set NVreg_RestrictProfilingToAdminUsers=0"
        return Check("Nsight", "warn", f"{', '.join(tools)}; counters are for administrators", advice)
    return Check("Nsight", "ok", ", ".join(tools))


# ---- communication


def check_nccl(machine: Machine, plan: Plan) -> Check:
    """The collective library for several GPUs."""
    torch, gpus = machine.torch, machine.driver.gpus
    if torch.nccl is None:
        status: Status = "warn" if len(gpus) > 1 else "absent"
        advice = "install a CUDA build of torch to train on several GPUs" if len(gpus) > 1 else ""
        return Check("NCCL", status, "not in this torch; the CPU uses Gloo", advice)
    return Check("NCCL", "ok", torch.nccl)


def check_network(machine: Machine, plan: Plan) -> Check:
    """Interfaces that ranks on several nodes can talk over."""
    up = [name for name, is_up in machine.interfaces().items() if is_up]
    active = [
        f"{device}/{port}"
        for device in machine.folder("/sys/class/infiniband")
        for port in machine.folder(f"/sys/class/infiniband/{device}/ports")
        if "ACTIVE" in (machine.read(f"/sys/class/infiniband/{device}/ports/{port}/state") or "")
    ]
    infiniband = f"; InfiniBand {', '.join(active)}" if active else ""
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        chosen = machine.environ.get(variable, "")
        wanted = [part.lstrip("^=") for part in chosen.split(",") if part]
        if wanted and not chosen.startswith("^") and not any(name.startswith(tuple(wanted)) for name in [*up, "lo"]):
            return Check("network", "fail", f"{variable}={chosen}; up: {', '.join(up)}", f"correct or unset {variable}")
    if machine.folder("/sys/class/infiniband") and not active:
        return Check(
            "network", "warn", f"{', '.join(up)}; no InfiniBand port is active", "see `ibstat`; NCCL uses TCP now"
        )
    if not up:
        return Check("network", "warn", "no interface but loopback", "one node only: several nodes cannot be reached")
    return Check("network", "ok", ", ".join(up) + infiniband)


# ---- limits of the machine


def _control_groups(machine: Machine) -> list[str]:
    """Folders of this process's control groups (version 2), its own first; inside a container the root alone."""
    lines = (machine.read("/proc/self/cgroup") or "").splitlines()
    own = next((line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")), "")
    names = [name for name in own.split("/") if name]
    return ["/".join(("/sys/fs/cgroup", *names[:depth])) for depth in range(len(names), -1, -1)]


def check_cpu(machine: Machine, plan: Plan) -> Check:
    """Cores of this process, the container's quota and the instruction set."""
    cores = machine.cores()
    allowed = float(cores)
    for group in _control_groups(machine):
        quota = (machine.read(f"{group}/cpu.max") or "max 100000").split()
        if len(quota) == 2 and quota[0] != "max":
            allowed = min(allowed, float(quota[0]) / float(quota[1]))
    found = f"{cores} cores, {platform.machine()}"
    if allowed < cores - 0.5:
        advice = f"the container or job may use {allowed:g} of them: set env.num_threads and OMP_NUM_THREADS to that"
        return Check("CPU", "warn", found, advice)
    threads = machine.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > cores:
        return Check("CPU", "warn", f"{found}, OMP_NUM_THREADS={threads}", "more threads than cores: lower or unset it")
    if platform.machine() == "x86_64" and "avx2" not in machine.cpu_flags().split():
        return Check("CPU", "warn", f"{found}, no AVX2", "works, but slower than the benchmarks say")
    return Check("CPU", "ok", found)


def check_memory(machine: Machine, plan: Plan) -> Check:
    """Main memory against the plan, with the limit of the container or job."""
    total, available = machine.memory()
    source = ""
    for group in _control_groups(machine):
        limit = (machine.read(f"{group}/memory.max") or "max").strip()
        if limit.isdigit() and int(limit) < total:
            used = (machine.read(f"{group}/memory.current") or "0").strip()
            available = min(available, int(limit) - int(used if used.isdigit() else 0))
            source = " (limit of the job or container)"
    found = f"{available / GIB:.1f} GiB available{source}"
    if plan.host_bytes:
        found += f", the plan needs {plan.host_bytes / GIB:.1f} GiB"
        if plan.host_bytes > available:
            return Check("memory", "fail", found, "lower env.num_envs or the replay's capacity, or ask for more memory")
        if plan.host_bytes > 0.9 * available:
            return Check("memory", "warn", found, "little is left: ask for more memory")
        return Check("memory", "ok", found)
    if available < _HOST_MEMORY_BYTES:
        return Check("memory", "warn", found, "enough for small runs only: lower env.num_envs or ask for more memory")
    return Check("memory", "ok", found)


def check_gpu_memory(machine: Machine, plan: Plan) -> Check:
    """Device memory against the plan."""
    sizes = [gpu.memory_bytes for gpu in machine.driver.gpus if gpu.memory_bytes]
    if not sizes:
        return Check("GPU memory", "absent", "no GPU")
    found = f"{min(sizes) / GIB:.1f} GiB"
    if plan.device_bytes:
        found += f", the plan needs {plan.device_bytes / GIB:.1f} GiB"
        if plan.device_bytes > min(sizes):
            return Check("GPU memory", "fail", found, "lower env.num_envs or the replay's capacity")
    return Check("GPU memory", "ok", found)


def check_shared_memory(machine: Machine, plan: Plan) -> Check:
    """/dev/shm, where processes of one node exchange data."""
    disk = machine.disk("/dev/shm") if "shm" in machine.folder("/dev") else None
    if disk is None:
        return Check("/dev/shm", "warn", "absent", "several processes on a node need it: mount a tmpfs there")
    found = f"{disk[1] / GIB:.2f} of {disk[0] / GIB:.2f} GiB free"
    if disk[1] < _SHARED_MEMORY_BYTES:
        return Check("/dev/shm", "warn", found, "start the container with --shm-size=1g or --ipc=host")
    return Check("/dev/shm", "ok", found)


def check_limits(machine: Machine, plan: Plan) -> Check:
    """Open files, and locked memory where InfiniBand needs it."""
    files, locked = machine.limit("nofile"), machine.limit("memlock")
    found = f"{_limit(files)} open files, {_limit(locked)} bytes locked"
    if files != -1 and files < _OPEN_FILES:
        return Check("limits", "warn", found, f"ulimit -n {_OPEN_FILES}: many ranks and workers need that many sockets")
    if machine.folder("/sys/class/infiniband") and locked != -1:
        return Check("limits", "warn", found, "InfiniBand needs unlimited locked memory: ulimit -l unlimited")
    return Check("limits", "ok", found)


def _limit(value: int) -> str:
    return "unlimited" if value == -1 else str(value)


def check_results(machine: Machine, plan: Plan) -> Check:
    """Where runs write."""
    disk = machine.disk(plan.results)
    if not machine.writable(plan.results):
        return Check(
            "results", "fail", f"{plan.results} is read-only", "run where you may write, or set another folder"
        )
    if disk is None:
        return Check("results", "warn", f"{plan.results}: free space is not known")
    found = f"{disk[1] / GIB:.1f} GiB free for {plan.results}"
    if disk[1] < _FREE_DISK_BYTES:
        return Check("results", "warn", found, "checkpoints and traces need a few GiB: make room")
    return Check("results", "ok", found)


# ---- cluster


def check_slurm(machine: Machine, plan: Plan) -> Check:
    """The batch system."""
    if machine.which("sbatch") is None:
        return Check("Slurm", "absent", "no sbatch on the PATH: use profiles/local")
    _, text = machine.output("sbatch", "--version")
    match = re.search(r"^slurm\S* \S+$", text, re.M)
    version = match[0] if match else "sbatch is installed"
    status, text = machine.output("scontrol", "ping")
    if status != 0 or " UP" not in text:
        return Check("Slurm", "warn", f"{version}, no controller answers", "see `scontrol ping`; jobs cannot start now")
    return Check("Slurm", "ok", version)


def check_apptainer(machine: Machine, plan: Plan) -> Check:
    """The container runtime."""
    program = next((name for name in ("apptainer", "singularity") if machine.which(name)), None)
    if program is None:
        return Check("Apptainer", "absent", "not on the PATH: runs use this Python environment")
    status, version = machine.output(program, "--version")
    if status != 0:
        return Check("Apptainer", "warn", f"{program} does not start", version.splitlines()[-1] if version else "")
    namespaces = (machine.read("/proc/sys/user/max_user_namespaces") or "1").strip()
    if namespaces == "0":
        return Check("Apptainer", "warn", version, "user namespaces are off: images cannot be built here, only run")
    return Check("Apptainer", "ok", version)


CHECKS: tuple[Callable[[Machine, Plan], Check], ...] = (
    check_python,
    check_torch,
    check_cpu_library,
    check_cuda_library,
    check_roms,
    check_driver,
    check_toolkit,
    check_nvlink,
    check_mig,
    check_gpu_errors,
    check_counters,
    check_nccl,
    check_network,
    check_cpu,
    check_memory,
    check_gpu_memory,
    check_shared_memory,
    check_limits,
    check_results,
    check_slurm,
    check_apptainer,
)


def examine(machine: Machine, plan: Plan) -> list[Check]:
    """Runs every check; one that breaks is a failed check, not the end of the examination."""
    results = []
    for check in CHECKS:
        try:
            results.append(check(machine, plan))
        except Exception as error:
            name = check.__name__.removeprefix("check_").replace("_", " ")
            results.append(Check(name, "fail", f"{type(error).__name__}: {error}", "please report this"))
    return results


def to_json(checks: list[Check]) -> dict[str, Any]:
    """Returns the document of `seed-hpc doctor --json`."""
    return {
        "schema_version": 1,
        "host": platform.node(),
        "failed": sum(check.status == "fail" for check in checks),
        "checks": [asdict(check) for check in checks],
    }
