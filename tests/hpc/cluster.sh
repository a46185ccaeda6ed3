#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster of four nodes with four GPUs each, on one Debian machine, as root: cluster.sh up | down | status.
#
# Each node is a slurmd in network and host-name namespaces of its own (n1 to n4 at 10.77.0.1 to .4 behind a bridge),
# so that a job on two nodes really talks over a network and a program that falls back to localhost fails. The GPUs
# are stand-in device nodes: Slurm allots them and sets CUDA_VISIBLE_DEVICES, nothing computes on them.
#
# Installs what is missing and may be called again at any time. Everything is in $STATE, but for lines between two marks
# in /etc/hosts and links in /etc/slurm, both removed by `down`. (A job's variables SLURM_* do not survive a workflow
# manager, so the configuration has to be where Slurm looks by itself.)
set -euo pipefail

STATE=${SEED_HPC_CLUSTER_DIR:-/var/lib/seed-hpc-cluster}
NODES=4
SUBNET=10.77.0
BRIDGE=seedbr0
MARK='# seed-hpc test cluster'
export SLURM_CONF=/etc/slurm/slurm.conf

say() { echo "cluster: $*"; }
die() { echo "cluster: $*" >&2; exit 1; }

install_packages() {
  local tool missing=no
  for tool in slurmctld slurmd munged scontrol ip nsenter; do command -v $tool >/dev/null || missing=yes; done
  [ $missing = yes ] || return 0
  say "installing Slurm"
  apt-get update -qq
  # The packages would start daemons for a cluster that is not configured.
  printf '#!/bin/sh\nexit 101\n' >"$STATE/policy-rc.d"
  local policy=/usr/sbin/policy-rc.d ours=no
  [ -e $policy ] || { install -m 755 "$STATE/policy-rc.d" $policy; ours=yes; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge iproute2 util-linux \
    >"$STATE/log/apt.log" 2>&1 || die "apt-get failed: $(tail -n 1 "$STATE/log/apt.log")"
  [ $ours = no ] || rm -f $policy
}

start_munge() {
  if munge -n </dev/null >/dev/null 2>&1; then return; fi
  install -d -o munge -g munge -m 755 /run/munge
  install -d -o munge -g munge -m 700 /var/log/munge /var/lib/munge
  [ -s /etc/munge/munge.key ] || {
    (umask 077; head -c 1024 /dev/urandom >/etc/munge/munge.key); chown munge: /etc/munge/munge.key; }
  setpriv --reuid munge --regid munge --clear-groups munged
  pidof munged | tr ' ' '\n' | head -n 1 >"$STATE/munged.pid"
}

make_network() {
  ip link show $BRIDGE >/dev/null 2>&1 || {
    ip link add $BRIDGE type bridge
    ip addr add $SUBNET.254/24 dev $BRIDGE
    ip link set $BRIDGE up
  }
  for i in $(seq $NODES); do
    [ ! -e /run/netns/seed-n"$i" ] || continue
    ip netns add seed-n"$i"
    ip link add seedveth"$i" type veth peer name eth0 netns seed-n"$i"
    ip link set seedveth"$i" master $BRIDGE up
    ip -n seed-n"$i" addr add $SUBNET."$i"/24 dev eth0
    ip -n seed-n"$i" link set eth0 up
    ip -n seed-n"$i" link set lo up
  done
  grep -q "$MARK" /etc/hosts || {
    echo "$MARK: begin"
    for i in $(seq $NODES); do echo "$SUBNET.$i n$i"; done
    echo "$SUBNET.254 seed-controller"
    echo "$MARK: end"
  } >>/etc/hosts
}

write_configuration() {
  local memory_mb cpus=4
  memory_mb=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
  install -d -m 755 "$STATE/dev"
  for gpu in 0 1 2 3; do [ -e "$STATE/dev/nvidia$gpu" ] || mknod -m 666 "$STATE/dev/nvidia$gpu" c 1 3; done
  for file in slurm.conf gres.conf; do
    [ ! -e /etc/slurm/$file ] || [ -L /etc/slurm/$file ] || die "/etc/slurm/$file exists: this machine has a Slurm of its own"
    mkdir -p /etc/slurm
    ln -sfn "$STATE/$file" /etc/slurm/$file
  done
  cat >"$STATE/gres.conf" <<EOF
NodeName=n[1-$NODES] Name=gpu Type=h200 File=$STATE/dev/nvidia[0-3]
EOF
  cat >"$STATE/slurm.conf" <<EOF
ClusterName=seedhpc
SlurmctldHost=$(hostname)($SUBNET.254)
SlurmctldPort=17000
SlurmUser=slurm
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
GresTypes=gpu
# The machine has fewer cores than the nodes claim, and every node claims all of its memory.
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=20
SlurmctldTimeout=30
KillWait=15
InactiveLimit=0
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SlurmdPort=17001
SlurmdSpoolDir=$STATE/spool/%n
SlurmdPidFile=$STATE/slurmd.%n.pid
SlurmdLogFile=$STATE/log/slurmd.%n.log
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmctldLogFile=$STATE/log/slurmctld.log
StateSaveLocation=$STATE/controller
JobAcctGatherType=jobacct_gather/linux
JobCompType=jobcomp/filetxt
JobCompLoc=$STATE/log/jobs.log
AccountingStorageType=accounting_storage/none
NodeName=n[1-$NODES] NodeAddr=$SUBNET.[1-$NODES] CPUs=$cpus Gres=gpu:h200:4 RealMemory=$memory_mb
PartitionName=gpu Nodes=ALL Default=YES MaxTime=02:00:00 State=UP
EOF
  touch "$STATE/log/jobs.log"
  chown -R slurm: "$STATE/controller" "$STATE/log"
}

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

start_daemons() {
  alive "$STATE/slurmctld.pid" || slurmctld -f "$SLURM_CONF"
  for i in $(seq $NODES); do start_node n"$i"; done
  local tries
  for tries in $(seq 60); do
    [ "$(sinfo -h -N -o '%N %t' | awk '$2 == "idle" || $2 == "mix" || $2 == "alloc"' | sort -u | wc -l)" = $NODES ] && return
    [ "$tries" != 20 ] || scontrol update nodename=n[1-$NODES] state=resume 2>/dev/null || true
    sleep 0.5
  done
  sinfo -N -l >&2 || true
  tail -n 5 "$STATE"/log/slurm*.log >&2
  die "the nodes did not come up"
}

start_node() {
  alive "$STATE/slurmd.$1.pid" && return
  mkdir -p "$STATE/spool/$1"
  nsenter --net=/run/netns/seed-"$1" unshare --uts sh -c "hostname $1 && exec slurmd -f '$SLURM_CONF' -N $1"
}

stop() {
  for pid_file in "$STATE"/slurmd.*.pid "$STATE/slurmctld.pid" "$STATE/munged.pid"; do
    alive "$pid_file" && kill "$(cat "$pid_file")"
    rm -f "$pid_file"
  done
}

up() {
  [ "$(id -u)" = 0 ] || die "must run as root"
  [ -e /etc/debian_version ] || die "needs Debian or Ubuntu (apt packages slurm-wlm and munge)"
  install -d -m 755 "$STATE" "$STATE/log" "$STATE/controller" "$STATE/spool"
  install_packages
  start_munge
  make_network
  write_configuration
  start_daemons
  say "up: SLURM_CONF=$SLURM_CONF, nodes $(sinfo -h -o '%N %G')"
}

down() {
  if alive "$STATE/slurmctld.pid"; then
    squeue -h -o %i | xargs -r scancel || true
    for _ in $(seq 20); do [ -z "$(squeue -h)" ] && break; sleep 0.5; done
  fi
  stop
  sleep 1
  for i in $(seq $NODES); do
    [ ! -e /run/netns/seed-n"$i" ] || ip netns del seed-n"$i"
    ip link del seedveth"$i" 2>/dev/null || true
  done
  ip link del $BRIDGE 2>/dev/null || true
  sed "/$MARK: begin/,/$MARK: end/d" /etc/hosts >"$STATE/hosts" && cat "$STATE/hosts" >/etc/hosts
  for file in slurm.conf gres.conf; do [ ! -L /etc/slurm/$file ] || rm -f /etc/slurm/$file; done
  say "down"
}

case ${1:-} in
  up) up ;;
  down) down ;;
  status) sinfo -N -l; squeue ;;
  start-node) start_node "$2" ;;
  stop-node) kill -9 "$(cat "$STATE/slurmd.$2.pid")"; rm -f "$STATE/slurmd.$2.pid" ;;
  *) die "usage: cluster.sh up | down | status | start-node NAME | stop-node NAME" ;;
esac
