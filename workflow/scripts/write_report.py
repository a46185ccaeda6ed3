# SPDX-License-Identifier: Apache-2.0
"""Rule write_report: one report of all runs of the pipeline."""

import logging
import sys
from pathlib import Path

from seed_hpc.errors import UserError
from seed_hpc.report.report_command import write_report

logging.basicConfig(filename=snakemake.log[0], filemode="w", level=logging.INFO, format="%(message)s")
try:
    document = write_report(
        [Path(record).parent for record in snakemake.input.trained],
        Path(snakemake.output.page).parent,
        kernels=[Path(record) for record in snakemake.input.kernels],
        jobs=Path(snakemake.params.benchmarks),
        title=snakemake.params.title,
        architectures=next(map(Path, snakemake.input.architectures), None),
    )
except UserError as error:
    sys.exit(f"write_report: {error}")
print(f"\n{document['verdict']['text']}\nReport: {snakemake.output.page}\n", file=sys.stderr)
