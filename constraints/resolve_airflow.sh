#!/usr/bin/env bash
# Usage: resolve_airflow.sh RELEASE DATE
# Resolve what an older Airflow was released with, in an environment of its own, into airflow-X.Y.txt: such an
# Airflow admits newer versions of what it needs, and then does not work with them. DATE is soon after RELEASE.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1
date=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

constraints/make_venv.sh "${PYTHON:-python3}" "$folder/venv"
"$folder/venv/bin/python" -m pip install -qq --constraint constraints/dev.txt uv
uv=("$folder/venv/bin/uv" pip)
# Some releases want a late 3.11; Debian 12 has 3.11.2.
"${uv[@]}" install --quiet --python "$folder/venv/bin/python" --python-version 3.11.2 --exclude-newer "$date" \
    --group test-engine --editable . --editable integrations/airflow "apache-airflow==$release"

# Names and versions only: no file, no address, no editable install.
"${uv[@]}" freeze --exclude-editable --python "$folder/venv/bin/python" |
    grep -E '^[A-Za-z0-9._-]+==[^ ]+$' |
    grep -v -E '^(pip|setuptools|uv)==' >"constraints/airflow-${release%.*}.txt"
