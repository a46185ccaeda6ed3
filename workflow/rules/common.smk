# SPDX-License-Identifier: Apache-2.0
# Reads and checks the configuration; the only file that does. Rules take their values and targets from here.
#
# Inputs: config/config.yaml (checked against workflow/schemas/config.schema.yaml), config/experiments/*.yaml.
# Offers: RESULTS, PIPELINE, RUNS, and functions that list files.
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from seed_hpc import pipeline
from seed_hpc.errors import UserError

ROOT = Path(workflow.basedir)

try:
    CONFIG = pipeline.check_config(config, pipeline.read_yaml(ROOT / "workflow/schemas/config.schema.yaml"))
    RUNS = {(run.experiment, run.run_id): run for run in pipeline.planned_runs(CONFIG, ROOT)}
    if workflow.is_main_process:
        pipeline.check_experiments(list(RUNS.values()), ROOT)
except UserError as error:
    raise WorkflowError(f"configuration: {error}") from None

RESULTS = CONFIG["results"]
PIPELINE = f"{RESULTS}/pipeline"  # logs and benchmark files of the jobs

# Outside of a container, `python` in a rule is the interpreter that runs Snakemake, whether its environment is
# activated or not.
if not workflow.deployment_settings.deployment_method:
    shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")


wildcard_constraints:
    experiment="[A-Za-z0-9][A-Za-z0-9_.-]*",
    run_id="[A-Za-z0-9][A-Za-z0-9_.-]*",
    arch="[0-9]+",
    tool="torch|nsys|ncu",


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


def profile_tables():
    """Tables of the profiled runs; none where profiling is off."""
    profile = CONFIG["profile"]
    return of_each_run(f"profile/{profile['tool']}-rank0.json") if profile["enabled"] else []


def report_targets():
    """What `rule all` asks for."""
    return [f"{RESULTS}/report/{name}" for name in ("index.html", "report.json", "summary.md")]


def native_sources():
    """Everything that the libraries are compiled from."""
    files = [path for path in (ROOT / "cuda").rglob("*") if path.is_file() and "tests" not in path.parts]
    return sorted(str(path.relative_to(ROOT)) for path in [ROOT / "CMakeLists.txt", *files])


def allowed_kernels():
    """Options of `seed-hpc kernels build` for the kernels that may spill or have low occupancy."""
    entries = [shlex.quote(f"{name}={reason}") for name, reason in CONFIG["kernels"]["allow"].items()]
    return " ".join(["--allow", *entries]) if entries else ""


def launcher(resources):
    """What starts the ranks of a training job: nothing for one process, srun where a profile asks for several."""
    if not resources.get("mpi"):
        return ""
    return f"{resources.mpi} --mpi=none -N {resources.get('nodes', 1)} -n {resources.tasks}"
