#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian root folder to build seed-hpc-cpu.def from where no container registry is reachable:
# make_base.sh FOLDER. Needs root and debootstrap; the mirror is the one that this machine's apt uses.
set -euo pipefail

FOLDER=${1:?usage: make_base.sh FOLDER}
RELEASE=bookworm
PACKAGES=ca-certificates,python3,python3-dev,python3-venv,g++,make

[ ! -e "$FOLDER/.complete" ] || exit 0
command -v debootstrap >/dev/null || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap
}
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $RELEASE" | head -n 1)
[ -n "$mirror" ] || { echo "make_base.sh: apt on this machine knows no mirror of Debian $RELEASE" >&2; exit 1; }

rm -rf "$FOLDER"
mkdir -p "$FOLDER"
debootstrap --variant=minbase --include="$PACKAGES" "$RELEASE" "$FOLDER" "$mirror" >"$FOLDER.log" 2>&1 || {
  tail -n 3 "$FOLDER.log" >&2; exit 1; }
# An ordinary user builds from it: no device nodes, nothing that only root may read; no mirror stays in the image.
find "$FOLDER/dev" -mindepth 1 -delete
rm -rf "$FOLDER"/var/cache/apt/* "$FOLDER"/var/lib/apt/lists/* "$FOLDER/etc/apt/sources.list"
chmod -R a+rX "$FOLDER"
touch "$FOLDER/.complete"
