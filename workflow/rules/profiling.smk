# SPDX-License-Identifier: Apache-2.0
# Profiles a short run of each experiment with the settings of the real one.
#
# Inputs:  the finished run (its directory takes the tables), the experiment's file
# Outputs: <results>/<experiment>/<run_id>/profile/<tool>-rank0.json, and analysis.json beside it
# Steps:   profile_run; the run that it makes is under profile/run and may be deleted. A tool that is not installed is a
#          note in the tables, and so in the report, not a failure.


rule profile_run:
    input:
        trained=rules.train_agent.output.record,
        experiment=ancient(lambda wildcards: str(planned(wildcards).config)),
        libraries=ancient(library_records()),
        image=image(),
    output:
        tables=f"{RESULTS}/{{experiment}}/{{run_id}}/profile/{CONFIG['profile']['tool']}-rank0.json",
        analysis=f"{RESULTS}/{{experiment}}/{{run_id}}/profile/analysis.json",
    log:
        f"{PIPELINE}/logs/profile_run/{{experiment}}/{{run_id}}.log",
    benchmark:
        f"{PIPELINE}/benchmarks/profile_run/{{experiment}}/{{run_id}}.tsv"
    threads: 2
    resources:
        mem_mb=6000,
        runtime=30,
    params:
        run=subpath(input.trained, parent=True),
        folder=subpath(output.tables, parent=True),
        libraries=LIBRARIES,
        tool=CONFIG["profile"]["tool"],
        overrides=lambda wildcards: planned(wildcards).overrides,
        frames=lambda wildcards: pipeline.profile_frames(planned(wildcards), ROOT, CONFIG["profile"]["window"]),
        window=CONFIG["profile"]["window"],
    message:
        "Profiling {wildcards.experiment}/{wildcards.run_id} with {params.tool}"
    shell:
        # Files of an earlier profile are refused by the command, so that a report never shows another run's figures. What
        # somebody has measured there, `seed-hpc profile ceilings`, stays.
        "find {params.folder:q} -mindepth 1 -maxdepth 1 ! -name ceilings.json -exec rm -rf {{}} + && SEED_HPC_LIBRARY_DIR={params.libraries:q} "
        "python -m seed_hpc.cli profile run --config {input.experiment:q} --tool {params.tool} --if-possible"
        " --window {params.window:q} --output {params.folder:q} --results {params.folder:q}/run"
        " {params.overrides:q} training.total_frames={params.frames} training.tensorboard=false >{log:q} 2>&1 && "
        "python -m seed_hpc.cli profile analyse {params.run:q} >>{log:q} 2>&1"
