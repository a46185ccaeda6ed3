# SPDX-License-Identifier: Apache-2.0
# Writes the performance report of all runs.
#
# Inputs:  run directories, evaluations, profiles, library records; <results>/benchmarks/architectures.json where
#          somebody has measured it (`seed-hpc bench architectures`; it needs the machine for itself, so no rule does)
# Outputs: <results>/report/index.html (one file, works offline), report.json, summary.md
# Steps:   write_report


rule write_report:
    input:
        trained=of_each_run("training.json"),
        scores=of_each_run("evaluation.json"),
        profiles=profiles(),
        kernels=library_records(),
        architectures=measured_architectures(),
        image=image(),
    output:
        page=report(
            f"{RESULTS}/report/index.html",
            caption="../report/performance.rst",
            category="Performance",
            labels={"page": "performance report"},
        ),
        data=f"{RESULTS}/report/report.json",
        summary=report(
            f"{RESULTS}/report/summary.md",
            caption="../report/summary.rst",
            category="Performance",
            labels={"page": "summary"},
        ),
    log:
        f"{PIPELINE}/logs/write_report.log",
    benchmark:
        f"{PIPELINE}/benchmarks/write_report.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        benchmarks=f"{PIPELINE}/benchmarks",
        title=CONFIG["report"]["title"],
    message:
        "Writing the report"
    script:
        "../scripts/write_report.py"
