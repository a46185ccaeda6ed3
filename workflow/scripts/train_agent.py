# SPDX-License-Identifier: Apache-2.0
"""Rule train_agent: starts or resumes one run and writes its record when it has finished."""

import os
import sys
from pathlib import Path

from seed_hpc import pipeline
from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.files import write_json

run = pipeline.PlannedRun(
    experiment=snakemake.wildcards.experiment,
    run_id=snakemake.wildcards.run_id,
    config=Path(snakemake.input.experiment),
    overrides=tuple(snakemake.params.overrides),
    digest=snakemake.params.digest,
)
try:
    folders = snakemake.params.libraries.split(os.pathsep)
    os.environ["SEED_HPC_LIBRARY_DIR"] = os.pathsep.join(str(Path(folder).resolve()) for folder in folders)
    record = pipeline.train(
        run,
        Path(snakemake.output.record).parents[2],
        Path(snakemake.log[0]),
        launcher=snakemake.params.launcher,
        python=snakemake.params.python,
    )
except (UserError, RunFailedError) as error:
    sys.exit(f"train_agent: {error}")
write_json(Path(snakemake.output.record), record)
