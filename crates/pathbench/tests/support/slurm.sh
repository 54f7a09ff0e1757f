#!/bin/sh
# slurm.sh DIR COMMAND…: runs COMMAND beside a Slurm cluster of one node, all of whose files are in DIR. Needs PID, network, UTS and mount
# namespaces of its own: the daemons end with the PID namespace, that is with this script.
set -eu
dir=$1
shift
hostname node
# Slurm resolves no name on a host that has a loopback address only.
python3 - <<'PYTHON'
import fcntl, socket, struct
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton("192.0.2.1"))
fcntl.ioctl(control, 0x8916, address)  # SIOCSIFADDR
fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 0x1))  # SIOCSIFFLAGS, IFF_UP
PYTHON
mkdir -p "$dir/state" "$dir/spool" "$dir/munge"
# The clients of munged reach its socket.
chmod 755 "$dir" "$dir/munge"
dd if=/dev/urandom of="$dir/munge/key" bs=64 count=1 2>/dev/null
chmod 600 "$dir/munge/key"
user=$(id -un)
cat >"$dir/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=node(192.0.2.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
MpiDefault=none
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SwitchType=switch/none
ReturnToService=2
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
NodeName=node NodeAddr=192.0.2.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=test Nodes=node Default=YES MaxTime=10 State=UP
CONF
export SLURM_CONF="$dir/slurm.conf"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --seed-file="$dir/munge/seed" >"$dir/munged.log" 2>&1 &
slurmctld -D -c >/dev/null 2>&1 &
slurmd -D >/dev/null 2>&1 &
# The caller bounds the wait.
until sinfo --noheader 2>/dev/null | grep -q idle; do sleep 0.1; done
"$@"
