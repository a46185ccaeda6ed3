# SPDX-License-Identifier: Apache-2.0
# Trains and evaluates the agents.
#
# Inputs:  config/experiments/<experiment>.yaml, the libraries
# Outputs: <results>/<experiment>/<run_id>/training.json (written when the run has finished), evaluation.json
# Steps:   train_agent (resumes a run that was interrupted; how often by itself is the profile's `retries`, since `retries`
#          of the rule would count inside the cluster's job, too, whose time is over), evaluate_agent
#
# The experiment's file and the libraries are `ancient`: a changed experiment has another run_id, and a rebuilt library
# is bit-exact with the old one (`seed-hpc parity`), so neither makes a finished run out of date. (Snakemake 9.27 looks at
# a job behind an `ancient` input that is being made again only where another job needs it: ask for the default target,
# or call twice for a single file while the library is out of date.)


rule train_agent:
    input:
        experiment=ancient(lambda wildcards: str(planned(wildcards).config)),
        libraries=ancient(library_records()),
        image=image(),
    output:
        record=f"{RESULTS}/{{experiment}}/{{run_id}}/training.json",
    log:
        f"{PIPELINE}/logs/train_agent/{{experiment}}/{{run_id}}.log",
    benchmark:
        f"{PIPELINE}/benchmarks/train_agent/{{experiment}}/{{run_id}}.tsv"
    # The host starts the ranks, each in the image: the image needs no Slurm.
    container:
        lambda wildcards: None
    threads: 2
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        overrides=lambda wildcards: planned(wildcards).overrides,
        digest=lambda wildcards: planned(wildcards).digest,
        launcher=lambda wildcards, threads, resources: launcher(threads, resources),
        libraries=LIBRARIES,
        # A function of the resources is no reason to train again, unlike the path of an environment that has moved.
        python=lambda wildcards, resources: "python" if USES_IMAGE else sys.executable,
    message:
        "Training {wildcards.experiment}/{wildcards.run_id}"
    script:
        "../scripts/train_agent.py"


rule evaluate_agent:
    input:
        trained=rules.train_agent.output.record,
        libraries=ancient(library_records()),
        image=image(),
    output:
        scores=f"{RESULTS}/{{experiment}}/{{run_id}}/evaluation.json",
    log:
        f"{PIPELINE}/logs/evaluate_agent/{{experiment}}/{{run_id}}.log",
    benchmark:
        f"{PIPELINE}/benchmarks/evaluate_agent/{{experiment}}/{{run_id}}.tsv"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        # The settings `evaluation.*` of the run; the digest stands for them.
        digest=lambda wildcards: planned(wildcards).digest,
        folder=subpath(input.trained, parent=True),
        libraries=LIBRARIES,
    message:
        "Evaluating {wildcards.experiment}/{wildcards.run_id}"
    shell:
        "SEED_HPC_LIBRARY_DIR={params.libraries:q} python -m seed_hpc.cli evaluate {params.folder:q} >{log:q} 2>&1"
