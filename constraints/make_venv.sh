#!/usr/bin/env bash
# Usage: make_venv.sh PYTHON FOLDER
# Make a virtual environment, after installing what a bare Debian lacks for it.
set -euo pipefail
python=$1
folder=$2

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed, and $python is not: make PYTHON=python3.11" >&2
    exit 1
}

# Debian splits venv and ensurepip off from python3.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        echo "$python has no venv module: install it first (Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
    echo "installing python3-venv"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends python3-venv >/dev/null
fi

"$python" -m venv "$folder"
