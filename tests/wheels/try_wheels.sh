#!/usr/bin/env bash
# Build the three wheels, install them into a clean environment and use them with the sources out of the way:
# first the core with nothing but what it declares, then its command line, also on other Pythons and with the newest
# releases of what it needs, then the integrations beside it.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_STATE_HOME=$folder/state AIRFLOW_HOME=$folder/airflow PREFECT_HOME=$folder/prefect
export PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS=600 # 20 s are too few on a busy host

rm -rf dist
for project in . integrations/airflow integrations/prefect; do
    uv build --quiet --python .venv/bin/python --out-dir "$PWD/dist" "$project"
done
cp tests/wheels/use_core.py tests/wheels/use_integrations.py "$folder"

uv venv --quiet --python .venv/bin/python "$folder/venv"
install=(uv pip install --quiet --python "$folder/venv/bin/python" --constraint constraints/dev.txt)
"${install[@]}" dist/torchx_core-*.whl
(cd "$folder" && venv/bin/python -I use_core.py)
("$folder/venv/bin/torchx-core" --version 2>&1 || true) | grep -F "pip install 'torchx-core[cli]'"
"${install[@]}" "$(echo dist/torchx_core-*.whl)[cli]"
"$folder/venv/bin/torchx-core" --version
for version in 3.12 3.13 3.14; do # those that this machine has, pyenv's too
    other=
    for python in "$(command -v "python$version")" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
        if "$python" --version >/dev/null 2>&1; then other=$python; fi
    done
    [[ $other ]] || continue
    uv venv --quiet --python "$other" "$folder/venv-$version"
    uv pip install --quiet --python "$folder/venv-$version/bin/python" "$(echo dist/torchx_core-*.whl)[cli]"
    (cd "$folder" && "venv-$version/bin/python" -I use_core.py && "venv-$version/bin/torchx-core" doctor >/dev/null)
done
"${install[@]}" dist/*.whl
(cd "$folder" && venv/bin/python -I use_integrations.py)
airflow_shows() { # usage: airflow_shows WORD LIST…: one of Airflow's lists of what providers have has the word
    (cd "$folder" && venv/bin/airflow providers "${@:2}" --output yaml 2>/dev/null | grep --fixed-strings "$1" >/dev/null)
    echo "airflow providers ${*:2}: $1"
}
airflow_shows airflow_torchx.decorators.torchx.torchx_task get airflow-provider-torchx --full
airflow_shows airflow_torchx.hooks.torchx.TorchXHook hooks
airflow_shows airflow_torchx.links.torchx.TorchXRunLink links
airflow_shows airflow_torchx.triggers triggers
airflow_shows extra__torchx__scheduler widgets
uv pip check --quiet --python "$folder/venv/bin/python"
