# SPDX-License-Identifier: Apache-2.0
# Builds the image that jobs run in, with `--software-deployment-method apptainer`; otherwise no job asks for it.
#
# Inputs:  the definition, what all definitions share, the sources that are installed
# Outputs: the image, and beside it its packages (.sbom.json) and the digests of its inputs (.inputs.json)
# Steps:   build_image (fakeroot, on local disk). With `container.definition: null` the image is one that you bring.


if CONFIG["container"]["definition"]:

    rule build_image:
        input:
            definition=CONFIG["container"]["definition"],
            parts=image_sources(),
        output:
            image=CONFIG["container"]["image"],
            packages=Path(CONFIG["container"]["image"]).with_suffix(".sbom.json").as_posix(),
            inputs=Path(CONFIG["container"]["image"]).with_suffix(".inputs.json").as_posix(),
        log:
            f"{PIPELINE}/logs/build_image.log",
        benchmark:
            f"{PIPELINE}/benchmarks/build_image.tsv"
        # Built on the host.
        container:
            lambda wildcards: None
        threads: 2
        resources:
            mem_mb=8000,
            runtime=120,
        params:
            options=lambda wildcards: image_options(),
        message:
            "Building {output.image}"
        shell:
            "bash containers/build_image.sh {input.definition:q} {output.image:q} {params.options} >{log:q} 2>&1"
