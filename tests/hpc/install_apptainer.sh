#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs Apptainer on Debian 12, as root, where no package of that release has it: install_apptainer.sh.
#
# Debian unstable packages it. Its binaries need a newer glibc than Debian 12 has, so the three libraries come from
# Debian 13 into a prefix of their own, and only Apptainer's two binaries are told to use them. The mirror is the one
# that this machine's apt already uses. Does nothing where an `apptainer` works.
set -euo pipefail

STATE=${SEED_HPC_APPTAINER_DIR:-/var/lib/seed-hpc-apptainer}
PREFIX=/opt/seed-hpc-glibc
LIBRARIES=$PREFIX/lib/x86_64-linux-gnu:$PREFIX/usr/lib/x86_64-linux-gnu

say() { echo "apptainer: $*"; }
die() { echo "apptainer: $*" >&2; exit 1; }

# Images are mounted by squashfuse as the user; every distribution opens this device to all.
[ ! -c /dev/fuse ] || [ "$(id -u)" != 0 ] || chmod 666 /dev/fuse
apptainer --version 2>/dev/null && exit 0
[ "$(id -u)" = 0 ] || die "must run as root"
[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || die "needs Debian on amd64; elsewhere install apptainer yourself"

mkdir -p "$STATE"
cd "$STATE"
DEBIAN_FRONTEND=noninteractive apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  patchelf squashfs-tools squashfuse uidmap fakeroot libseccomp2 >apt.log 2>&1 || die "apt-get failed: $(tail -n 1 apt.log)"

# $1: suite, others: packages; downloads them into $STATE/$1 through lists of their own.
download() {
  local suite=$1 mirror
  shift
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $(. /etc/os-release && echo "$VERSION_CODENAME")" | head -n 1)
  [ -n "$mirror" ] || die "apt on this machine knows no Debian mirror"
  mkdir -p "$suite/lists/partial" "$suite/debs"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$suite/sources.list"
  local options=(-oDir::Etc::SourceList="$PWD/$suite/sources.list" -oDir::Etc::SourceParts=/dev/null
    -oDir::State::Lists="$PWD/$suite/lists" -oAPT::Sandbox::User=root -qq)
  apt-get "${options[@]}" update
  (cd "$suite/debs" && apt-get "${options[@]}" download "$@")
}

say "downloading"
download sid apptainer
download trixie libc6 libseccomp2 libsqlite3-0

say "unpacking"
mkdir -p "$PREFIX"
for package in trixie/debs/*.deb; do dpkg-deb -x "$package" "$PREFIX"; done
dpkg-deb -x "$(ls sid/debs/apptainer_*.deb)" sid/root
loader=$(find "$PREFIX" -name 'ld-linux-x86-64.so.2' | head -n 1)
for binary in usr/bin/apptainer usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
  patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$LIBRARIES:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu" \
    "sid/root/$binary"
done
cp -a sid/root/etc/apptainer /etc/
cp -a sid/root/usr/bin/. /usr/bin/
cp -a sid/root/usr/lib/x86_64-linux-gnu/apptainer /usr/lib/x86_64-linux-gnu/
[ ! -d sid/root/usr/libexec/apptainer ] || cp -a sid/root/usr/libexec/apptainer /usr/libexec/
mkdir -p /var/lib/apptainer/mnt/session
rm -rf sid trixie
apptainer --version || die "the installed binary does not run"
