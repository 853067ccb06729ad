#!/bin/sh
# All-reduce over the hosts of a list, by the mpirun of Open MPI or of MPICH, whichever is there:
#
#   HOSTS=hosts ./sweep.sh
#   HOSTS=hosts MPIRUN=/opt/mpich/bin/mpirun ./sweep.sh all_reduce --ccl mpi
#
# The mpirun goes to the hosts by ssh, without a password. cclmark must have the same path there, and
# your home must be shared; else see docs/how-to/several-hosts.md.
set -eu

HOSTS=${HOSTS:-$(dirname "$0")/hosts}
MPIRUN=${MPIRUN:-mpirun}
[ $# -gt 0 ] || set -- all_reduce -b 8 -e 4G -f 2

program=$(command -v cclmark)
# As MPICH's Hydra writes them: host:slots with commas between.
list=$(sed -n 's/^\([^# ]\{1,\}\) \{1,\}slots=\([0-9]\{1,\}\).*/\1:\2/p' "$HOSTS" | paste -s -d , -)
processes=$(echo "$list" | awk -F '[:,]' '{ for (i = 2; i <= NF; i += 2) sum += $i; print sum }')

case $("$MPIRUN" --version 2>&1) in
*"Open MPI"* | *OpenRTE* | *PRRTE*)
  # Variables reach other hosts only by -x NAME; cclmark needs none.
  exec "$MPIRUN" --hostfile "$HOSTS" -np "$processes" --bind-to none "$program" "$@"
  ;;
*)
  # Hydra takes the environment along.
  exec "$MPIRUN" -np "$processes" -hosts "$list" "$program" "$@"
  ;;
esac
