#!/usr/bin/env bash
# Usage: resolve_prefect.sh RELEASE [DATE]
# Resolve what goes with a Prefect that cannot share .venv with Airflow, in an environment of its own, into
# prefect-X.Y.txt. With DATE, soon after RELEASE, what was newest then: what its users had.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1
until=(${2:+--exclude-newer "$2"})
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

constraints/make_venv.sh "${PYTHON:-python3}" "$folder/venv"
"$folder/venv/bin/python" -m pip install -qq --constraint constraints/dev.txt uv
uv=("$folder/venv/bin/uv" pip)
# Some releases want a late 3.11; Debian 12 has 3.11.2.
"${uv[@]}" install --quiet --python "$folder/venv/bin/python" --python-version 3.11.2 "${until[@]}" \
    --override constraints/prefect-overrides.in \
    --group test-engine --editable . --editable integrations/prefect "prefect==$release"

# Names and versions only: no file, no address, no editable install.
"${uv[@]}" freeze --exclude-editable --python "$folder/venv/bin/python" |
    grep -E '^[A-Za-z0-9._-]+==[^ ]+$' |
    grep -v -E '^(pip|setuptools|uv)==' >"constraints/prefect-${release%.*}.txt"
