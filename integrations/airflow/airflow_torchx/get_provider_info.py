"""What Airflow's provider registry is told about this package."""

from __future__ import annotations

__all__ = ["FORM_FIELDS", "HIDDEN_FIELDS", "PLACEHOLDERS", "get_provider_info"]

FORM_FIELDS = {
    "scheduler": ("Scheduler", "Where apps run, for example local_cwd or local_docker."),
    "session": ("Session", "Apps of one session are listed together."),
    "cfg": ("Options", "Options of the scheduler, as grace_s=5,log_dir=/logs."),
    "docker_host": ("Docker host", "The engine, for example ssh://me@gpu-box."),
    "places": ("Places", "Other hosts, as gpu-box=ssh://me@10.0.0.5 for local_cwd@gpu-box."),
    "slurm_ssh": ("Slurm login node", "For hosts outside the cluster, for example me@login.example.org."),
    "slurm_ssh_python": ("Python there", "3.11 or newer; python3 if empty."),
    "state_dir": ("State directory", "Where local apps, and those of Slurm, are recorded."),
}
"""What the form of a connection asks for: name in the extra -> label, explanation."""
HIDDEN_FIELDS = ["schema", "login", "password", "port", "host", "extra"]
"""Fields that every connection has, and ours has no use for."""
PLACEHOLDERS = {"scheduler": "local_cwd", "session": "torchx"}


def get_provider_info() -> dict[str, object]:
    """Describe the provider; Airflow calls this once per process, from any component."""
    return {
        "package-name": "airflow-provider-torchx",
        "name": "TorchX",
        "description": "Run TorchX-style AppDefs durably.",
        "operators": [
            {"integration-name": "TorchX", "python-modules": ["airflow_torchx.operators"]},
        ],
        "task-decorators": [
            {"name": "torchx", "class-name": "airflow_torchx.decorators.torchx.torchx_task"},
        ],
        "sensors": [
            {"integration-name": "TorchX", "python-modules": ["airflow_torchx.sensors"]},
        ],
        "extra-links": [
            "airflow_torchx.links.torchx.TorchXPageLink",
            "airflow_torchx.links.torchx.TorchXRunLink",
            "airflow_torchx.links.torchx.TorchXServiceLink",
        ],
        "hooks": [
            {"integration-name": "TorchX", "python-modules": ["airflow_torchx.hooks"]},
        ],
        "triggers": [
            {"integration-name": "TorchX", "python-modules": ["airflow_torchx.triggers"]},
        ],
        "connection-types": [
            {
                "connection-type": "torchx",
                "hook-class-name": "airflow_torchx.hooks.torchx.TorchXHook",
                "hook-name": "TorchX",
                "conn-fields": {name: _text(*words) for name, words in FORM_FIELDS.items()},
                "ui-field-behaviour": {
                    "hidden-fields": HIDDEN_FIELDS,
                    "relabeling": {},
                    "placeholders": PLACEHOLDERS,
                },
            }
        ],
        "integrations": [
            {"integration-name": "TorchX", "tags": ["software"]},
        ],
    }


def _text(label: str, description: str) -> dict[str, object]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}
