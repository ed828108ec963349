#!/usr/bin/env bash
# Write, for each wheel in dist/, which packages an installation of it has: CycloneDX, in dist/sbom/.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

shopt -s nullglob
wheels=(dist/*.whl)
if ((!${#wheels[@]})); then
    echo "dist/ has no wheel; make wheels builds them" >&2
    exit 1
fi
mkdir -p dist/sbom
for wheel in "${wheels[@]}"; do
    name=$(basename "$wheel" .whl)
    uv venv --quiet --python .venv/bin/python "$folder/$name"
    uv pip install --quiet --python "$folder/$name/bin/python" --find-links dist "$wheel"
    uv tool run --quiet --from cyclonedx-bom cyclonedx-py environment "$folder/$name" \
        --output-reproducible --output-file "dist/sbom/${name%-py3*}.cdx.json"
    echo "dist/sbom/${name%-py3*}.cdx.json"
done
