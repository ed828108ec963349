"""What Prefect finds by itself of this package, in processes that never import it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

import pytest
from local_apps import app_of
from prefect import get_client
from prefect.client.schemas.actions import BlockTypeUpdate

from prefect_torchx import TorchXJob

PROJECT = Path(__file__).parents[2] / "integrations" / "prefect" / "pyproject.toml"
LIMIT = 70
"""How many modules of this project may come with Prefect's own."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new processes see the entry points of pyproject.toml, however long ago it was installed."""
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["prefect.collections"]
    metadata = tmp_path / "prefect_torchx_as_it_is-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: prefect-torchx-as-it-is\nVersion: 0\n")
    lines = [f"{name} = {home}" for name, home in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[prefect.collections]", *lines]))
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)


def _python(code: str, **env: str) -> str:
    """Run the code in a new process; return what it prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.engine  # a thread of Prefect's, of an earlier flow, may open a socket meanwhile
def test_the_import_costs_little_beside_prefects() -> None:
    """Prefect makes it in every process that looks a block up: no more comes with it than a look needs."""
    code = (
        "import sys; import prefect.blocks.abstract, prefect.context; before = {*sys.modules};"
        "import prefect_torchx.collection; print(*{*sys.modules} - before)"
    )
    modules = _python(code).split()
    ours = [module for module in modules if module.split(".")[0] in ("prefect_torchx", "torchx_core")]
    assert {module.split(".")[0] for module in {*modules} - {*ours}} <= sys.stdlib_module_names
    assert "prefect_torchx.app_run" not in ours
    assert len(ours) < LIMIT, sorted(ours)


@pytest.mark.usefixtures("installed")
def test_whoever_looks_for_a_worker_finds_ours() -> None:
    """Prefect's command looks a type of worker up by its name, after it has loaded the collections."""
    code = (
        "from prefect.workers.base import BaseWorker;"
        "print(BaseWorker.get_worker_class_from_type('torchx').__name__)"
    )
    assert _python(code) == "TorchXWorker"


@pytest.mark.engine
@pytest.mark.usefixtures("installed", "runner")
def test_a_process_that_knows_only_prefect_loads_a_job(prefect_api: str) -> None:
    """By the name of its type, from the server, secrets included."""
    name = f"job-{uuid.uuid4().hex}"
    TorchXJob(app=app_of("true", env={"HF_TOKEN": "open sesame"})).save(name)
    code = (
        "from prefect.blocks.core import Block;"
        f"job = Block.load('torchx-job/{name}');"
        "print(type(job).__name__, job.secrets.get_secret_value())"
    )
    assert _python(code, PREFECT_API_URL=prefect_api) == "TorchXJob {'HF_TOKEN': 'open sesame'}"


@pytest.mark.engine
@pytest.mark.parametrize("module", ["prefect_torchx", "prefect_torchx.blocks"])
def test_the_command_registers_the_block(module: str, prefect_api: str) -> None:
    """The package is enough, as with every collection; the server has the type as it is here then.

    Other tests save jobs on the same server just now: an earlier type is made to look old, and stays.
    """
    with get_client(sync_client=True) as client:
        known = [t.id for t in client.read_block_types() if t.slug == "torchx-job"]
        for block_type_id in known:
            client.update_block_type(block_type_id, BlockTypeUpdate(description="old"))
    command = [sys.executable, "-m", "prefect", "block", "register", "-m", module]
    env = {**os.environ, "PREFECT_API_URL": prefect_api}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert "Successfully registered 1 block" in done.stdout
    assert "TorchX Job" in done.stdout
    with get_client(sync_client=True) as client:
        block_type = client.read_block_type_by_slug("torchx-job")
        assert (block_type.name, block_type.description) == ("TorchX Job", TorchXJob.get_description())
