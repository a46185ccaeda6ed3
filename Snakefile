# SPDX-License-Identifier: Apache-2.0
# The front door of the pipeline: config/config.yaml says what to run, profiles/ where. Default target: the report.
#
#     build_kernels -> train_agent -> evaluate_agent -> write_report
#                                  \> profile_run ---^
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"


# Used with `--software-deployment-method apptainer` only; holds for the rules that follow.
container: CONFIG["container"]["image"]


include: "workflow/rules/container.smk"
include: "workflow/rules/kernels.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/profiling.smk"
include: "workflow/rules/report.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        report_targets(),
