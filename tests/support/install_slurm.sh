#!/bin/sh
# Installs what a Slurm cluster of the tests' own needs, on Debian and as root; elsewhere it only says so.
# Starts nothing: the tests start the cluster (tests/support/slurm_cluster.py), and skip where there is none.
set -eu
PATH=$PATH:/usr/sbin:/sbin

has() { command -v "$1" >/dev/null; }

if has slurmctld && has slurmd && has sbatch && has munged && has slurmdbd && has mariadbd; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "no Slurm cluster: its tests will be skipped (they need Linux, root and Debian's slurmctld and slurmd)"
    exit 0
fi
echo "installing Debian's Slurm for the tests"
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then # the packages would start daemons for the whole host
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
packages="slurmctld slurmd slurm-client munge slurmdbd mariadb-server"
install() { apt-get install -y -qq --no-install-recommends $packages >/dev/null; }
install || { apt-get update -qq && install; } || echo "that failed: the tests of the Slurm scheduler will be skipped"
