"""What the release before this one wrote down of an app of ``utils.sh``, as that release wrote it."""

from __future__ import annotations

import copy
import os
from typing import Any, Final

from torchx_core.schedulers.secrets import MASK
from torchx_core.supervisor.records import dumps

__all__ = ["WORDS", "WORDS_OF_DOCKER", "asked_by_docker", "asked_locally", "asked_of_slurm", "spec"]

WORDS: Final = ["--env", "DATABASE_URL=postgresql://ann:sesame@db/runs", "echo", "hello"]
"""The command line of ``utils.sh`` that was given."""
WORDS_OF_DOCKER: Final = [
    "--env",
    "DATABASE_URL=postgresql://ann:sesame@db/runs,HF_TOKEN=hf_x",
    "--mounts",
    "type=bind,src=~/data,dst=/data,readonly",
    "echo",
    "hello",
]

_ROLE: Final[dict[str, Any]] = {
    "name": "sh",
    "image": "pytorch/pytorch",
    "min_replicas": None,
    "entrypoint": "sh",
    "args": ["-c", '"$@"', "sh", "echo", "hello"],
    "env": {"LOGLEVEL": "WARNING", "DATABASE_URL": "postgresql://ann:sesame@db/runs"},
    "num_replicas": 1,
    "max_retries": 0,
    "retry_policy": "APPLICATION",
    "resource": {"cpu": 1, "gpu": 0, "memMB": 1024, "capabilities": {}, "devices": {}, "tags": {}},
    "port_map": {},
    "metadata": {},
    "mounts": [],
    "workspace": None,
    "overrides": {},
}
_ENDING: Final[dict[str, Any]] = {"grace_s": 10.0, "timeout_s": None, "deadline": None, "lease_s": None}
_LOCAL_CFG: Final[dict[str, Any]] = {
    "log_dir": None,
    "prepend_cwd": False,
    "auto_set_cuda_visible_devices": False,
    **_ENDING,
    "log_mode": "exact",
    "limits": "auto",
}
_SLURM_CFG: Final[dict[str, Any]] = {
    "partition": None,
    "account": None,
    "qos": None,
    "time": None,
    "constraint": None,
    "nodelist": None,
    "exclude": None,
    "reservation": None,
    "mail-user": None,
    "mail-type": None,
    "comment": None,
    "job_dir": None,
    "nomem": False,
    "export": "ALL",
    "replicas_per_node": 1,
    "requeue": True,
    "python": "python3",
    "log_dir": None,
    **_ENDING,
}
_DOCKER_CFG: Final[dict[str, Any]] = {
    "copy_env": None,
    "env": None,
    "privileged": False,
    "image_repo": None,
    "quiet": False,
    "pull": "missing",
    "network": "app",
    "shim": "sh",
    **_ENDING,
    "log_max_mb": None,
    "shm_mb": None,
    "gpu_ids": None,
}


def spec(asked: dict[str, Any], **fields: object) -> bytes:
    """Return a record on disk with that request."""
    content = {"version": 1, "incarnation": "c7c7833294beb111", "created_at": 1795371782.4, "asked": asked}
    return dumps({**content, **fields})


def asked_locally(session: str) -> dict[str, Any]:
    """Return the request of a local app: ``utils.sh --env DATABASE_URL=… echo hello``."""
    return {"app": _app("local_cwd", session), "cfg": _LOCAL_CFG}


def asked_of_slurm(session: str) -> dict[str, Any]:
    """Return the same request of a Slurm app."""
    return {"app": _app("slurm", session), "cfg": _SLURM_CFG}


def asked_by_docker(session: str, image: str) -> dict[str, Any]:
    """Return the same request of a Docker app, with HF_TOKEN=hf_x, ``~/data`` mounted, and salt ``5a17``."""
    app = _app("local_docker", session)
    role = app["roles"][0]
    role["image"] = image
    role["env"]["HF_TOKEN"] = MASK
    source = os.path.expanduser("~/data")  # noqa: PTH111  # as it was written
    role["mounts"] = [{"type": "bind", "src_path": source, "dst_path": "/data", "read_only": True}]
    digest = "b882a22d02360d48d741f49f8475b8ba81ecb9436269002b01afa4c169fe33d3"
    return {"app": app, "cfg": _DOCKER_CFG, "secrets": {"sh.env.HF_TOKEN": digest}}


def _app(scheduler: str, session: str) -> dict[str, Any]:
    role = copy.deepcopy(_ROLE)
    role["env"]["TORCHX_JOB_ID"] = f"{scheduler}://{session}/${{app_id}}"
    role["env"]["TORCHX_INTERNAL_SESSION_ID"] = session
    return {"name": "sh", "roles": [role], "metadata": {}}
