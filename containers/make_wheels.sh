#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the wheels that an image installs, for builds without a network: make_wheels.sh FOLDER [PYTHON].
# The package index is the one pip on this machine is configured for; PYTHON must be the image's version.
set -euo pipefail

FOLDER=${1:?usage: make_wheels.sh FOLDER [PYTHON]}
PYTHON=${2:-python3}
ROOT=$(cd "$(dirname "$0")/.." && pwd)

mkdir -p "$FOLDER"
digest=$({ "$PYTHON" --version; cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"; } | sha256sum)
[ "$(cat "$FOLDER/.inputs" 2>/dev/null)" != "$digest" ] || exit 0
"$PYTHON" - "$ROOT/pyproject.toml" >"$FOLDER/requirements.txt" <<'EOF'
import sys
import tomllib

pyproject = tomllib.load(open(sys.argv[1], "rb"))
project = pyproject["project"]
needed = [*project["dependencies"], *project["optional-dependencies"]["nsight"]]
print(*pyproject["build-system"]["requires"], "cmake", "ninja", *needed, sep="\n")
EOF
"$PYTHON" -m pip --disable-pip-version-check download --quiet --only-binary :all: --dest "$FOLDER" \
  --constraint "$ROOT/constraints.txt" --requirement "$FOLDER/requirements.txt" >"$FOLDER/pip.log" 2>&1 || {
  tail -n 3 "$FOLDER/pip.log" >&2; exit 1; }
rm -f "$FOLDER/requirements.txt" "$FOLDER/pip.log"
echo "$digest" >"$FOLDER/.inputs"
