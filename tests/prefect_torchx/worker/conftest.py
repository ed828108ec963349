"""Work pools: for workers in the test's own process, and in processes of their own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from prefect_pool import Pool

from torchx_core.runner import Runner


@pytest.fixture
def anyio_backend() -> str:
    """Return the event loop that Prefect uses."""
    return "asyncio"


@pytest.fixture(autouse=True)
def few_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show a worker in this process one installed package: it reads every one's description as it starts."""
    ours = [distribution("prefect-torchx")]
    monkeypatch.setattr("prefect.workers.base.distributions", lambda: ours, raising=False)


@pytest.fixture
def pool(prefect_api: str, runner: Runner, tmp_path: Path) -> Iterator[Pool]:
    """Return a work pool of its own for each test; its apps are those of `runner`."""
    del runner  # sets the state directory for this process
    pool = Pool(prefect_api, tmp_path)
    yield pool
    pool.close()
    gc.collect()  # here, where what it finds is known and ignored: see the marks of the modules


@pytest.fixture
def real_pool(prefect_api: str, tmp_path: Path) -> Iterator[Pool]:
    """Return the same for workers in processes of their own."""
    pool = Pool(prefect_api, tmp_path)
    yield pool
    pool.close()
