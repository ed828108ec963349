#!/bin/sh
# Installs what a Docker Engine of the tests' own needs, on Debian and as root; elsewhere it only says so.
# Starts nothing: the tests start the engine (tests/support/docker_engine.py), and skip where there is none.
set -eu
PATH=$PATH:/usr/sbin:/sbin

has() { command -v "$1" >/dev/null; }

if has dockerd && has iptables && has ip && has busybox && has ssh && has sshd && has openssl; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "no Docker Engine: its tests will be skipped (they need Linux, root and Debian's docker.io)"
    exit 0
fi
echo "installing Debian's docker.io for the tests"
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then # the package would start an engine for the whole host
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
packages="docker.io busybox-static iptables iproute2 openssh-client openssh-server openssl"
install() { apt-get install -y -qq --no-install-recommends $packages >/dev/null; }
install || { apt-get update -qq && install; } || echo "that failed: the tests of the Docker scheduler will be skipped"
