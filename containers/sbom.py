# SPDX-License-Identifier: Apache-2.0
"""Prints the Debian and Python packages of the machine or image it runs in, as CycloneDX 1.5 JSON."""

import argparse
import json
import shutil
import subprocess
from importlib.metadata import distributions
from urllib.parse import quote


def debian_packages() -> list[dict[str, str]]:
    """Installed Debian packages; none where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return []
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n"]
    rows = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        component(name, version, f"pkg:deb/debian/{name}@{quote(version)}?arch={architecture}")
        for name, version, architecture in map(str.split, rows)
    ]


def python_packages() -> list[dict[str, str]]:
    """Distributions that this interpreter can import."""
    found = {dist.metadata["Name"].lower().replace("_", "-"): dist.version for dist in distributions()}
    return [component(name, version, f"pkg:pypi/{name}@{quote(version)}") for name, version in found.items()]


def component(name: str, version: str, purl: str) -> dict[str, str]:
    """One entry of the list, with its package URL."""
    return {"type": "library", "name": name, "version": version, "purl": purl}


def main() -> None:
    """Writes to standard output; sorted, so that two images can be compared with diff."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    args = parser.parse_args()
    components = sorted(debian_packages() + python_packages(), key=lambda entry: entry["purl"])
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": args.name, "version": args.version}},
        "components": components,
    }
    print(json.dumps(bom, indent=1))


if __name__ == "__main__":
    main()
