"""What Airflow's provider registry is told about this package."""

from __future__ import annotations


def get_provider_info() -> dict[str, object]:
    """Describe the provider; Airflow calls this once per process, from any component."""
    return {
        "package-name": "airflow-provider-torchx",
        "name": "TorchX",
        "description": "Run TorchX-style AppDefs durably.",
        "operators": [
            {"integration-name": "TorchX", "python-modules": ["airflow_torchx.operators"]},
        ],
        "integrations": [
            {"integration-name": "TorchX", "tags": ["software"]},
        ],
    }
