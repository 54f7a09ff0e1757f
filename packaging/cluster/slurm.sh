#!/bin/sh
# Job array of Slurm (sbatch(1)): each task makes one shard of a study on one node.
#
#   sbatch --array=1-8 slurm.sh 8 SCENARIO RESULTS [OPTIONS of `pathbench lab run`]
#
# RESULTS is on a file system that all nodes share. A task that Slurm starts again continues its shard.
#SBATCH --job-name=pathbench
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.log
set -eu
shards=$1 scenario=$2 results=$3
shift 3
mkdir -p "$results"
exec pathbench lab run "$scenario" --quiet --shard "$SLURM_ARRAY_TASK_ID/$shards" \
    --resume "$results/shard-$SLURM_ARRAY_TASK_ID" "$@"
