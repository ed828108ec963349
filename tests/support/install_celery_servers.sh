#!/bin/sh
# Installs what an Airflow with CeleryExecutor needs beside it, on Debian and as root; elsewhere it says so.
set -eu

has() { command -v "$1" >/dev/null; }

if has redis-server && has /usr/lib/postgresql/*/bin/postgres; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "no Redis or PostgreSQL: the tests of CeleryExecutor will be skipped (they need Debian's redis-server and postgresql)"
    exit 0
fi
echo "installing Debian's Redis and PostgreSQL for the tests"
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # the tests start their own; no service of the system's
install() { apt-get install -y -qq --no-install-recommends redis-server postgresql iproute2 >/dev/null; }
install || { apt-get update -qq && install; } || echo "that failed: the tests of CeleryExecutor will be skipped"
