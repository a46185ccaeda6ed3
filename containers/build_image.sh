#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds an image with fakeroot, as an ordinary user: build_image.sh DEFINITION IMAGE.sif [--base FOLDER]
# [--wheels FOLDER] [--arg NAME=VALUE]... Writes IMAGE.sbom.json (packages) and IMAGE.inputs.json (digests) beside it.
# The build runs on local disk ($TMPDIR); parallel file systems refuse what fakeroot needs.
set -euo pipefail

usage() { echo "usage: build_image.sh DEFINITION IMAGE.sif [--base FOLDER] [--wheels FOLDER] [--arg NAME=VALUE]..." >&2; exit 2; }
[ $# -ge 2 ] || usage
DEFINITION=$(realpath "$1") IMAGE=$(realpath -m "$2")
shift 2
ROOT=$(cd "$(dirname "$0")/.." && pwd)
BASE='' WHEELS='' ARGUMENTS=()
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --base) BASE=$(realpath "$2") ;;
    --wheels) WHEELS=$(realpath "$2") ;;
    --arg) ARGUMENTS+=(--build-arg "$2") ;;
    *) usage ;;
  esac
  shift 2
done
command -v apptainer >/dev/null || { echo "build_image.sh: apptainer is not on this machine's PATH" >&2; exit 2; }

WORK=$(mktemp -d "${TMPDIR:-/tmp}/seed-hpc-image.XXXXXX")
trap 'chmod -R u+w "$WORK" && rm -rf "$WORK"' EXIT
export APPTAINER_TMPDIR=$WORK APPTAINER_CACHEDIR=$WORK/cache

# The sources as they lie here, without what was built or run.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$ROOT" -cf "$WORK/source.tar" \
  --exclude=__pycache__ --exclude=_lib \
  CMakeLists.txt LICENSE README.md constraints.txt containers cuda pyproject.toml seed_hpc
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/pyproject.toml")
commit=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || cat "$ROOT/COMMIT" 2>/dev/null || echo unknown)
digest() { sha256sum | cut -d ' ' -f 1; }
base_digest=unknown
if [ -n "$BASE" ]; then
  base_digest=$(cat "$BASE/var/lib/dpkg/status" | digest)
  ARGUMENTS+=(--build-arg bootstrap=localimage --build-arg "base=$BASE")
fi
[ -n "$WHEELS" ] || { WHEELS=$WORK/wheels; mkdir "$WHEELS"; }
inputs_digest=$({ cat "$WORK/source.tar" "$DEFINITION"; echo "$base_digest"; (cd "$WHEELS" && find . -name '*.whl' -exec sha256sum {} + | sort -k 2); } | digest)

mkdir -p "$(dirname "$IMAGE")"
apptainer build --fakeroot --force --mksquashfs-args '-comp zstd -Xcompression-level 3' \
  --build-arg "version=$version" --build-arg "commit=$commit" --build-arg "base_digest=$base_digest" \
  --build-arg "inputs_digest=$inputs_digest" --build-arg "wheels=$WHEELS" --build-arg "source=$WORK/source.tar" \
  "${ARGUMENTS[@]}" "$WORK/image.sif" "$DEFINITION"
apptainer exec --no-home "$WORK/image.sif" cat /opt/seed-hpc/sbom.json >"$WORK/sbom.json"
printf '{"version": "%s", "commit": "%s", "base_digest": "%s", "inputs_digest": "%s", "image_digest": "%s"}\n' \
  "$version" "$commit" "$base_digest" "$inputs_digest" "$(digest <"$WORK/image.sif")" >"$WORK/inputs.json"
mv "$WORK/sbom.json" "${IMAGE%.sif}.sbom.json"
mv "$WORK/inputs.json" "${IMAGE%.sif}.inputs.json"
mv "$WORK/image.sif" "$IMAGE"
