#!/bin/sh
# GNU parallel (parallel(1)): makes the shards of a study, one at a time on each machine.
#
#   parallel.sh 8 SCENARIO RESULTS [OPTIONS of `pathbench lab run`]
#   HOSTS=alice,bob,: parallel.sh 8 SCENARIO RESULTS …       # over SSH; `:` is this machine
#
# With HOSTS, the current directory is on a file system that all machines share. The same command continues a study.
set -eu
shards=$1 scenario=$2 results=$3
shift 3
mkdir -p "$results"
seq "$shards" | parallel --quote --jobs "${JOBS:-1}" --sshlogin "${HOSTS:-:}" --workdir . --line-buffer --tag \
    pathbench lab run "$scenario" --quiet --shard "{}/$shards" --resume "$results/shard-{}" "$@"
