#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks Nsight Systems from Debian 13 (non-free) into a folder of its own: install_nsight.sh FOLDER. Needs Debian 12
# or 13 on amd64 and no GPU; installs nothing into the system. The mirror is the one that this machine's apt uses.
set -euo pipefail

FOLDER=$(realpath -m "${1:?usage: install_nsight.sh FOLDER}")
die() { echo "nsight: $*" >&2; exit 1; }

[ ! -x "$FOLDER/bin/nsys" ] || exit 0
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || die "needs Debian on amd64; elsewhere install Nsight Systems"
mkdir -p "$FOLDER/lists/partial" "$FOLDER/debs" "$FOLDER/bin"
cd "$FOLDER"
apt-get update -qq
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
  "Codename: $(. /etc/os-release && echo "$VERSION_CODENAME")" | head -n 1)
[ -n "$mirror" ] || die "apt on this machine knows no Debian mirror"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie non-free" >sources.list
options=(-oDir::Etc::SourceList="$PWD/sources.list" -oDir::Etc::SourceParts=/dev/null
  -oDir::State::Lists="$PWD/lists" -oAPT::Sandbox::User=root -qq)
apt-get "${options[@]}" update || die "the mirror has no Debian 13"
(cd debs && apt-get "${options[@]}" download nsight-systems nsight-systems-target) || die "nsight-systems was not found"
# What nsys and its importer are linked with and an image without them lacks; libssh.so without a version, too.
(cd debs && apt-get -qq -oAPT::Sandbox::User=root download libssh-4 libelf1 libpfm4) || die "its libraries were not found"
for package in debs/*.deb; do dpkg-deb -x "$package" root; done
libraries=$PWD/root/usr/lib/x86_64-linux-gnu
ln -sf libssh.so.4 "$libraries/libssh.so"
# nsys looks for the importer in host-linux-x64 beside its own, resolved, folder.
ln -sfn ../../nsight-systems/host-linux-x64 "$libraries/nsight-systems/host-linux-x64"
cat >bin/nsys <<EOF
#!/bin/sh
LD_LIBRARY_PATH=$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec $libraries/nsight-systems/target-linux-x64/nsys "\$@"
EOF
chmod +x bin/nsys
rm -r debs lists
