#!/usr/bin/env bash
# Usage: resolve_apart.sh FILE WHAT...
# Resolve the newest versions of what `uv pip install` is told, in an environment of its own, into FILE.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

constraints/make_venv.sh "${PYTHON:-python3}" "$folder/venv"
"$folder/venv/bin/python" -m pip install -qq --constraint constraints/dev.txt uv
uv=("$folder/venv/bin/uv" pip)
# Some releases want a late 3.11; Debian 12 has 3.11.2.
"${uv[@]}" install --quiet --python "$folder/venv/bin/python" --python-version 3.11.2 \
    "${@:2}"

# Names and versions only: no file, no address, no editable install.
"${uv[@]}" freeze --exclude-editable --python "$folder/venv/bin/python" |
    grep -E '^[A-Za-z0-9._-]+==[^ ]+$' |
    grep -v -E '^(pip|setuptools|uv)==' >"constraints/$1"
