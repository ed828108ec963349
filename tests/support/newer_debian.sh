#!/bin/sh
# Usage: newer_debian.sh SUITE COMMAND...
# Runs a command inside a newer Debian, made the first time in build/debian-SUITE, with the engines it packages: Slurm,
# Docker and Podman. On Debian and as root. The repository lies there at its own path; nothing else of this host does
# but /proc, /sys and /dev, and nothing is left running when the command has ended.
set -eu
PATH=$PATH:/usr/sbin:/sbin
suite=$1
shift
repository=$(cd "$(dirname "$0")/../.." && pwd)
root=$repository/build/debian-$suite
packages="python3 python3-venv ca-certificates make git procps iproute2 iptables busybox-static openssl openssh-server
 openssh-client slurmctld slurmd slurm-client slurmdbd munge mariadb-server docker.io docker-cli podman crun catatonit
 util-linux"

make_root() {
    command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap >/dev/null; }
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    echo "installing Debian $suite into build/debian-$suite"
    mkdir -p "$repository/build"
    rm -rf "$root.new"
    debootstrap --variant=minbase "$suite" "$root.new" "$mirror" >"$root.log" 2>&1
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
        if [ -e "$file" ]; then cp -L "$file" "$root.new$file"; fi
    done
    printf '#!/bin/sh\nexit 101\n' >"$root.new/usr/sbin/policy-rc.d" # no package starts a daemon
    chmod +x "$root.new/usr/sbin/policy-rc.d"
    echo 'Acquire::Check-Valid-Until "false";' >"$root.new/etc/apt/apt.conf.d/mirror" # it may lag behind
    # shellcheck disable=SC2086
    within "$root.new" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends $(echo $packages)" >>"$root.log" 2>&1
    cp -L /etc/ssl/certs/ca-certificates.crt "$root.new/etc/ssl/certs/" # with what this host trusts besides
    mv "$root.new" "$root"
}

# A mount namespace with the folder as its root: what is mounted there goes with the last process.
within() {
    folder=$1
    shift
    unshare --mount --propagation private sh -eu -c '
        folder=$1 repository=$2
        shift 2
        mount --bind "$folder" "$folder"
        mount -t tmpfs -o mode=1777 tmpfs "$folder/tmp"
        mkdir -p "$folder$repository" "$folder/old" "$folder/proc" "$folder/sys" "$folder/dev"
        for shared in /proc /sys /dev; do mount --rbind "$shared" "$folder$shared"; done
        mount --bind "$repository" "$folder$repository"
        cd "$folder"
        pivot_root . old
        cd "$repository"
        umount --lazy /old
        exec "$@"
    ' sh "$folder" "$repository" "$@"
}

[ -d "$root" ] || make_root
within "$root" "$@"
