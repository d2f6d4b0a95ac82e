#!/usr/bin/env bash
# Runs plans under a real Slurm: two nodes on this machine, each a network namespace with its own name and address.
#   test/launch/slurm.sh BIN_DIR [CASE...]       BIN_DIR has tessera-compile and tessera-run; default: all cases
# Needs root, and Debian's packages of Slurm, which it installs. Its configuration, its state and its logs live in a
# scratch folder, and nothing runs any more at the end; a Slurm that this machine has is not touched. Prints a line for
# each case. Takes some minutes, so that it is no part of tools/test.sh. TESSERA_KEEP=1 keeps the folder.
set -euo pipefail
[[ $# -gt 0 ]] || { sed -n '2,6s/^# \?//p' "$0" >&2 && exit 2; }
[[ $EUID -eq 0 ]] || { echo "slurm.sh: run it as root: it makes network namespaces" >&2 && exit 1; }
root=$(realpath "$(dirname "$0")/../..")
"$root/tools/install-deps.sh" --slurm
bin=$(realpath "$1")
shift
export PATH=$bin:/usr/sbin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rtc=^hwloc
export OMPI_MCA_mpi_yield_when_idle=1 # four ranks may share two cores
unset "${!SLURM_@}" "${!OMPI_COMM_@}" "${!PMI@}" RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
work=$(mktemp -d /var/tmp/tessera-slurm.XXXXXX)
chmod 755 "$work" # slurmd and munged insist
names=("tslurm$$a" "tslurm$$b")

tearDown() {
  status=$?
  trap '' INT TERM
  for name in "${names[@]}"; do
    while read -r pid; do kill -KILL "$pid" 2>/dev/null; done < <(ip netns pids "$name" 2>/dev/null)
    ip netns delete "$name" 2>/dev/null
  done
  [[ -s $work/munged.pid ]] && kill "$(<"$work/munged.pid")" 2>/dev/null
  if [[ -n ${TESSERA_KEEP:-} ]]; then
    echo "slurm.sh: $work is kept"
  else
    sleep 0.5 # for what the daemons were just writing
    rm -rf --one-file-system "$work"
  fi
  exit "$status"
}
trap tearDown EXIT
trap 'exit 130' INT TERM

# on HOST COMMAND...: on n0 or n1, with that host's name, address and host table.
on() {
  nsenter --net="/run/netns/${names[$1]}" unshare --uts --mount sh -c '
    hostname "n$1" && mount --bind "$2/hosts" /etc/hosts && shift 2 && exec "$@"' sh "$1" "$work" "${@:2}"
}

setUp() {
  for name in "${names[@]}"; do ip netns add "$name"; done
  ip -n "${names[0]}" link add cable type veth peer name cable netns "${names[1]}"
  for host in 0 1; do
    ip -n "${names[$host]}" address add 10.77.1.$((host + 1))/24 dev cable
    ip -n "${names[$host]}" link set cable up
    ip -n "${names[$host]}" link set lo up
    mkdir -p "$work/tmp-n$host"
  done
  printf '%s\n' '127.0.0.1 localhost' '10.77.1.1 n0' '10.77.1.2 n1' >"$work/hosts"
  head -c 128 /dev/urandom >"$work/munge.key" && chmod 400 "$work/munge.key"
  munged --force -S "$work/munge.sock" --key-file="$work/munge.key" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed" 2>"$work/munged.err"
  # A job that is queued again may start at once when its credential has expired: after 5 s here, else after 120.
  cat >"$work/slurm.conf" <<-END
	ClusterName=tessera
	SlurmctldHost=n0
	SlurmUser=root
	AuthType=auth/munge
	AuthInfo=socket=$work/munge.sock,cred_expire=5
	StateSaveLocation=$work/state
	SlurmdSpoolDir=$work/spool-%n
	TmpFS=$work/tmp-%n
	SlurmctldPidFile=$work/slurmctld.pid
	SlurmdPidFile=$work/slurmd-%n.pid
	SlurmctldLogFile=$work/slurmctld.log
	SlurmdLogFile=$work/slurmd-%n.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	MpiDefault=none
	ReturnToService=1
	SlurmdTimeout=15
	KillWait=10
	SchedulerParameters=batch_sched_delay=0,sched_interval=1
	NodeName=n0 NodeAddr=10.77.1.1 CPUs=2 Sockets=1 CoresPerSocket=2
	NodeName=n1 NodeAddr=10.77.1.2 CPUs=2 Sockets=1 CoresPerSocket=2
	PartitionName=all Nodes=n[0-1] Default=YES State=UP
	END
  # The two nodes declare two cores each, whatever this machine has.
  echo 'SlurmdParameters=config_overrides' >>"$work/slurm.conf"
  mkdir "$work/state"
  export SLURM_CONF=$work/slurm.conf
  on 0 slurmctld -c
  for host in 0 1; do on $host slurmd -N n$host; done
  waitFor "idle nodes" 30 nodesIdle
}

nodesIdle() { [[ $(on 0 sinfo -h -o '%T %D') == "idle 2" ]]; }

# waitFor WHAT SECONDS COMMAND...: until the command succeeds.
waitFor() {
  local end=$((SECONDS + $2))
  until "${@:3}" 2>/dev/null; do
    [[ $SECONDS -lt $end ]] || { fail "waited in vain for $1" || return 1; }
    sleep 0.2
  done
}

fail() {
  echo "      $*"
  return 1
}

contains() { grep -qE "$1" "$2" || fail "no line like '$1' in: $(cat "$2")"; }
fails() { if "$@"; then fail "ends with 0: $*"; fi; }

# --- what the cases share -------------------------------------------------------------------------

steps=400
# train NAME OPTION...: the command line of a run whose files are called NAME.*
train() {
  command=(tessera-run "$work/plan" --data synthetic --steps "$steps" --log "$work/$1.jsonl" --quiet
    --save-weights "$work/$1.safetensors" --checkpoint-every 20 --checkpoint-dir "$work/$1" "${@:2}")
}

losses() { # each step once; a step that was done twice with two losses stands here twice
  sed -En 's/.*"step": ?([0-9]+).*"loss": ?([^,}]+).*/\1 \2/p' "$1" | sort -u
}

# The same parameters and losses as the run of threads that nothing disturbed.
sameAsUndisturbed() {
  cmp -s "$work/$1.safetensors" "$work/threads.safetensors" || fail "$1: other parameters" || return 1
  [[ $(losses "$work/threads.jsonl" | wc -l) -eq $steps ]] || fail "threads.jsonl has not $steps steps" || return 1
  diff <(losses "$work/$1.jsonl") <(losses "$work/threads.jsonl") >/dev/null || fail "$1: other losses"
}

checkpointed() { compgen -G "$work/$1/step-*" >/dev/null; }
ended() { ! kill -0 "$1"; }

# rankOn HOST JOB: the process of a rank there, of those that scontrol names. With --restarts not the task itself, which
# is the supervisor, but its child.
rankOn() {
  local pid
  for pid in $(on "$1" scontrol listpids "$2.0" "n$1" | awk 'NR > 1 {print $5 != "-", $1}' | sort | cut -d' ' -f2); do
    [[ $(readlink "/proc/$pid/exe") == */tessera-run ]] && echo "$pid" && return
  done
  fail "scontrol names no process of job $2 on n$1" >&2
}

# killRank NAME: one on n1 of the job of this name, in the middle of its training.
killRank() {
  local pid
  waitFor "a checkpoint" 120 checkpointed "$1" || { cat "$work/$1.out" && return 1; }
  pid=$(rankOn 1 "$(on 0 squeue -h -n "$1" -o %i)") || return 1
  kill -KILL "$pid"
}

jobState() { on 0 scontrol show job "$1" | grep -oP 'JobState=\K\w+'; }
jobIs() { [[ $(jobState "$1") == "$2" ]]; }

# batch NAME: queues the script of docs/launching.md, with this run's files in the place of its own.
batch() {
  train "$1"
  sed -n '/^#!\/bin\/bash$/,/^```$/{/^```$/!p}' "$root/docs/launching.md" | sed \
    -e "s#tessera-run plan/ --data npy:x.npy,y.npy --epochs 10#${command[*]} --log-dir $work/$1-logs#" \
    -e "s# --checkpoint-dir run/ --checkpoint-every 10min##; s#run/#$work/$1/#g" >"$work/$1.sbatch"
  contains "srun .*${command[0]} $work" "$work/$1.sbatch" || return 1
  job=$(on 0 sbatch --parsable --cpus-per-task=1 -o "$work/$1.out" "$work/$1.sbatch")
}

# --- cases: what srun starts ----------------------------------------------------------------------

mpi() {
  train mpi
  on 0 srun -N2 -n4 --mpi=pmix "${command[@]}" --log-dir "$work/mpi-logs" && sameAsUndisturbed mpi
}

tcp() {
  train tcp
  on 0 srun -N2 -n4 "${command[@]}" --log-dir "$work/tcp-logs" && sameAsUndisturbed tcp &&
    contains 'on n1' "$work/tcp-logs/rank-3.log"
}

mpirun_in_a_job() { # which starts its daemons by srun
  train mpirun
  printf '#!/bin/bash\n#SBATCH -N2 -n4\nmpirun --mca btl tcp,self %s\n' "${command[*]}" >"$work/mpirun.sh"
  on 0 sbatch -W -o "$work/mpirun.out" "$work/mpirun.sh" >/dev/null || fail "$(cat "$work/mpirun.out")" || return 1
  sameAsUndisturbed mpirun
}

threads_in_a_job() { # a job's script is no task of srun's, and one task is all ranks
  train script
  local first="${command[*]}"
  train one
  printf '#!/bin/bash\n#SBATCH -N2 -n4\n%s\nsrun -N1 -n1 %s\n' "$first" "${command[*]}" >"$work/script.sh"
  on 0 sbatch -W -o "$work/script.out" "$work/script.sh" >/dev/null || fail "$(cat "$work/script.out")" || return 1
  sameAsUndisturbed script && sameAsUndisturbed one
}

two_steps_at_once() { # meet at two ports
  train left
  local left=("${command[@]}") pid
  train right
  on 0 salloc -Q -N2 -n4 sh -c "srun --overlap -n4 ${left[*]} & srun --overlap -n4 ${command[*]} && wait" &&
    sameAsUndisturbed left && sameAsUndisturbed right
}

other_number_of_tasks() {
  train other
  fails on 0 srun -N2 -n2 "${command[@]}" >"$work/other.out" 2>&1 &&
    contains 'plan for 4 ranks, but srun started 2 tasks' "$work/other.out"
}

# --- cases: what is lost --------------------------------------------------------------------------

# killed NAME OPTION...: a rank on n1 is killed in the middle of `srun OPTION...`
killed() {
  steps=1000000 train "$1"
  on 0 srun -N2 -n4 -J "$1" "${@:2}" "${command[@]}" >"$work/$1.out" 2>&1 &
  local srun=$!
  killRank "$1" || return 1
  waitFor "the end of srun" 60 ended "$srun" || return 1
  fails wait "$srun"
}

killed_over_tcp() {
  killed killed_tcp && contains '\[rank 0\] tessera-run: .*rank [23] \(on n1\) has died' "$work/killed_tcp.out" &&
    contains 'n1: task [23]: Killed' "$work/killed_tcp.out"
}

killed_over_mpi() { killed killed_mpi --mpi=pmix && contains 'n1: task [23]: Killed' "$work/killed_mpi.out"; }

restarts() {
  train restarts --restarts 3
  on 0 srun -N2 -n4 -J restarts "${command[@]}" >"$work/restarts.out" 2>&1 &
  local srun=$!
  killRank restarts || return 1
  wait "$srun" || fail "$(cat "$work/restarts.out")" || return 1
  contains 'rank [23]' "$work/restarts.out" && sameAsUndisturbed restarts
}

# disturbed NAME COMMAND...: the job is queued, and the command is called with its number in the middle of training;
# after that the job ends by itself, with what the undisturbed run computes.
disturbed() {
  batch "$1" || return 1
  waitFor "a checkpoint" 120 checkpointed "$1" || fail "$(cat "$work/$1.out")" || return 1
  [[ ! -e $work/$1.safetensors ]] || fail "the run was over too soon" || return 1
  "${@:2}" "$job" || return 1
  waitFor "the end of job $job" 180 jobIs "$job" COMPLETED ||
    fail "it is $(jobState "$job"): $(cat "$work/$1.out")" || return 1
  contains 'Restarts=1' <(on 0 scontrol show job "$job") && sameAsUndisturbed "$1"
}

requeued() { disturbed requeued on 0 scontrol requeue; }

signal() { on 0 scancel --signal="$1" "$2.0"; }
terminated_step() { disturbed terminated_step signal TERM; }
killed_step() { disturbed killed_step signal KILL; }

killOne() {
  local pid
  pid=$(rankOn 1 "$1") && kill -KILL "$pid"
}
killed_rank() { disturbed killed_rank killOne; }

setDown() { # Slurm queues the job again by itself
  on 0 scontrol update NodeName=n1 State=DOWN Reason=test && waitFor "the job in the queue" 60 jobIs "$1" PENDING &&
    on 0 scontrol update NodeName=n1 State=RESUME
}
downed_node() { disturbed downed_node setDown; }

losePower() { # with all its processes; later the machine is back
  local pid
  for pid in $(ip netns pids "${names[1]}"); do kill -KILL "$pid"; done
  waitFor "the job in the queue" 60 jobIs "$1" PENDING || return 1
  waitFor "the end of the node" 60 nodeDown && on 1 slurmd -N n1
}
nodeDown() { on 0 sinfo -h -n n1 -o %T | grep -q down; }
lost_node() { disturbed lost_node losePower; }

# --------------------------------------------------------------------------------------------------

all=(mpi tcp mpirun_in_a_job threads_in_a_job two_steps_at_once other_number_of_tasks killed_over_tcp killed_over_mpi
  restarts requeued terminated_step killed_step killed_rank downed_node lost_node)
[[ $# -gt 0 ]] || set -- "${all[@]}"
for name in "$@"; do
  [[ " ${all[*]} " == *" $name "* ]] || { echo "slurm.sh: no case $name; there are ${all[*]}" >&2 && exit 2; }
done
setUp
echo "slurm.sh: $(slurmctld -V), two nodes"
tessera-compile "$root/test/models/mlp_train.onnx" --mesh data=2,model=2 --mode auto --dim batch=8 --train \
  --loss cross_entropy --optimizer adamw:lr=0.001 -q -o "$work/plan"
train threads
"${command[@]}"
failed=0
for name in "$@"; do
  begin=$SECONDS
  if $name; then
    echo "ok    $name ($((SECONDS - begin)) s)"
  else
    failed=1
    echo "FAIL  $name"
  fi
  on 0 scancel -u root 2>/dev/null || true
  waitFor "free nodes" 60 nodesIdle || exit 1
done
exit $failed
