# SPDX-License-Identifier: Apache-2.0
# Reads and checks the configuration; the only file that does. Rules take their values and targets from here.
#
# Inputs: config/config.yaml (checked against workflow/schemas/config.schema.yaml), config/experiments/*.yaml.
# Offers: RESULTS, PIPELINE, RUNS, and functions that list files.
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from seed_hpc import pipeline
from seed_hpc.errors import UserError

ROOT = Path(workflow.basedir)

try:
    CONFIG = pipeline.check_config(config, pipeline.read_yaml(ROOT / "workflow/schemas/config.schema.yaml"))
    RUNS = {(run.experiment, run.run_id): run for run in pipeline.planned_runs(CONFIG, ROOT)}
    # A login node need not have torch, which the agents' options import; there the training job finds a mistake.
    if workflow.is_main_process and find_spec("torch"):
        pipeline.check_experiments(list(RUNS.values()), ROOT)
except UserError as error:
    raise WorkflowError(f"configuration: {error}") from None

RESULTS = CONFIG["results"]
PIPELINE = f"{RESULTS}/pipeline"  # logs and benchmark files of the jobs

# Where the package looks for libseed_cpu.so and for sm_*/libseed_cuda.so: SEED_HPC_LIBRARY_DIR of the jobs.
LIBRARIES = f"{RESULTS}/kernels/cpu:{RESULTS}/kernels"

USES_IMAGE = DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method

# Outside of a container, `python` in a rule is the interpreter that runs Snakemake, whether its environment is
# activated or not.
if not USES_IMAGE:
    shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    experiment="[A-Za-z0-9][A-Za-z0-9_.-]*",
    run_id="[A-Za-z0-9][A-Za-z0-9_.-]*",
    arch="[0-9]+",


def planned(wildcards):
    """The run that a job's wildcards name."""
    key = (wildcards.experiment, wildcards.run_id)
    if key not in RUNS:
        known = ", ".join("/".join(name) for name in RUNS)
        raise WorkflowError(f"config/config.yaml asks for no run {'/'.join(key)}; it asks for {known}")
    return RUNS[key]


def of_each_run(pattern):
    """One file of every run: `pattern` inside its directory."""
    return [f"{RESULTS}/{experiment}/{run_id}/{pattern}" for experiment, run_id in RUNS]


def library_records():
    """Records of the libraries: the CPU's, and one for each CUDA architecture."""
    architectures = CONFIG["kernels"]["cuda_architectures"]
    return [f"{RESULTS}/kernels/{name}/kernels.json" for name in ("cpu", *(f"sm_{arch}" for arch in architectures))]


def profiles():
    """Tables and analyses of the profiled runs; none where profiling is off."""
    profile = CONFIG["profile"]
    names = (f"{profile['tool']}-rank0.json", "analysis.json") if profile["enabled"] else ()
    return [path for name in names for path in of_each_run(f"profile/{name}")]


def measured_architectures():
    """The comparison of architectures, where it has been measured."""
    path = f"{RESULTS}/benchmarks/architectures.json"
    return [path] if Path(path).is_file() else []


def report_targets():
    """What `rule all` asks for."""
    return [f"{RESULTS}/report/{name}" for name in ("index.html", "report.json", "summary.md")]


def native_sources():
    """Everything that the libraries are compiled from."""
    skipped = {"tests", "__pycache__"}
    files = [path for path in (ROOT / "cuda").rglob("*") if path.is_file() and not skipped & set(path.parts)]
    return sorted(str(path.relative_to(ROOT)) for path in [ROOT / "CMakeLists.txt", *files])


def allowed_kernels():
    """Options of `seed-hpc kernels build` for the kernels that may spill or have low occupancy."""
    entries = [shlex.quote(f"{name}={reason}") for name, reason in CONFIG["kernels"]["allow"].items()]
    return " ".join(["--allow", *entries]) if entries else ""


def launcher(threads, resources):
    """What starts the processes of a training job: srun where a profile asks for several, the image where there is one."""
    words = []
    if resources.get("mpi"):
        words += [resources.mpi, f"--mpi=none --kill-on-bad-exit=1 -N {resources.get('nodes', 1)}"]
        per_node = resources.get("tasks_per_node")
        words += [f"--ntasks-per-node={per_node}" if per_node else f"-n {resources.tasks}"]
        # Slurm 22.05 and later: srun does not take the cores of a task from sbatch.
        words += [f"-c {threads}"]
    if USES_IMAGE:
        words += [
            "apptainer --quiet exec",
            workflow.deployment_settings.apptainer_args,
            CONFIG["container"]["image"],
        ]
    return " ".join(words)


def image():
    """Input of the rules that run in the image: the directive `container` does not make its rule run first.

    It is `ancient` to them, because what depends on the sources has those as inputs of its own.
    """
    return ancient([CONFIG["container"]["image"]]) if USES_IMAGE else []


def image_sources():
    """What an image is made from, beside its definition."""
    folders, packed = ("cuda", "seed_hpc", "containers"), ("CMakeLists.txt", "constraints.txt", "pyproject.toml")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    skipped = {"__pycache__", "_lib"}
    files = [path for path in files if path.suffix != ".def" and not skipped & set(path.parts)]
    return sorted(str(path.relative_to(ROOT)) for path in [*(ROOT / name for name in packed), *files])


def image_options():
    """Options of containers/build_image.sh."""
    chosen = CONFIG["container"]
    options = [f"--{name} {shlex.quote(chosen[name])}" for name in ("base", "wheels") if chosen[name]]
    arguments = dict(chosen["arguments"])
    if "{{ architectures }}" in (ROOT / chosen["definition"]).read_text():
        arguments.setdefault("architectures", ";".join(CONFIG["kernels"]["cuda_architectures"]))
    options += [f"--arg {shlex.quote(f'{name}={value}')}" for name, value in arguments.items()]
    return " ".join(options)
