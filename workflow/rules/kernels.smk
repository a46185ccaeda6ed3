# SPDX-License-Identifier: Apache-2.0
# Compiles the native libraries and records what was built.
#
# Inputs:  cuda/ and CMakeLists.txt
# Outputs: <results>/kernels/{cpu,sm_<arch>}/kernels.json, and the libraries beside them
# Steps:   build_kernels_cpu, build_kernels_cuda (without an nvcc: a record that says why not)


rule build_kernels_cpu:
    input:
        sources=native_sources(),
        image=image(),
    output:
        record=f"{RESULTS}/kernels/cpu/kernels.json",
        library=f"{RESULTS}/kernels/cpu/libseed_cpu.so",
    log:
        f"{PIPELINE}/logs/build_kernels_cpu.log",
    benchmark:
        f"{PIPELINE}/benchmarks/build_kernels_cpu.tsv"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        folder=subpath(output.record, parent=True),
    message:
        "Building libseed_cpu.so"
    shell:
        "python -m seed_hpc.cli kernels build --output {params.folder:q} --jobs {threads} >{log:q} 2>&1"


rule build_kernels_cuda:
    input:
        sources=native_sources(),
        image=image(),
    output:
        record=f"{RESULTS}/kernels/sm_{{arch}}/kernels.json",
        resources=f"{RESULTS}/kernels/sm_{{arch}}/resources.json",
    log:
        f"{PIPELINE}/logs/build_kernels_cuda/sm_{{arch}}.log",
    benchmark:
        f"{PIPELINE}/benchmarks/build_kernels_cuda/sm_{{arch}}.tsv"
    threads: 2
    resources:
        mem_mb=6000,
        runtime=60,
    params:
        folder=subpath(output.record, parent=True),
        allow=allowed_kernels(),
    message:
        "Building libseed_cuda.so for sm_{wildcards.arch}"
    shell:
        "python -m seed_hpc.cli kernels build --backend cuda --arch {wildcards.arch} --if-possible"
        " --output {params.folder:q} --jobs {threads} {params.allow} >{log:q} 2>&1"
