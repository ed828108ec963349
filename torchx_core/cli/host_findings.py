"""What the command line itself looks at on this host: Python, engines, configuration."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from torchx_core import __version__
from torchx_core.errors import TorchXError
from torchx_core.schedulers import Finding, Verdict

__all__ = ["host_findings"]

_ENGINES: Final = {
    "Airflow": ("apache-airflow", "airflow-provider-torchx"),
    "Prefect": ("prefect", "prefect-torchx"),
}
"""Name -> the engine's distribution, and ours that joins the two."""
_TORCHX: Final = ("torchx-nightly", "torchx")


def host_findings() -> Iterator[Finding]:
    """Yield what concerns every scheduler."""
    python = f"torchx-core {__version__} on Python {platform.python_version()}"
    yield Finding(subject="Python", verdict=Verdict.OK, text=python)
    yield _configuration()
    for name, (engine, ours) in _ENGINES.items():
        yield _engine(name, engine, ours)
    yield _torchx()


def _configuration() -> Finding:
    from torchx_core.config import find_configs, read_config

    try:
        paths = find_configs()
        read_config()
    except TorchXError as err:
        advice = "correct the file; every run is refused until then"
        return Finding(subject="configuration", verdict=Verdict.PROBLEM, text=str(err), advice=advice)
    if not paths:
        return Finding(subject="configuration", verdict=Verdict.ABSENT, text="no .torchxconfig")
    return Finding(subject="configuration", verdict=Verdict.OK, text=", ".join(paths))


def _engine(name: str, engine: str, ours: str) -> Finding:
    there, joined = _version(engine), _version(ours)
    if there is None:
        return Finding(subject=name, verdict=Verdict.ABSENT, text="not installed")
    if joined is None:
        text, advice = f"{there}, without {ours}", f"pip install {ours} to run apps from it"
        return Finding(subject=name, verdict=Verdict.WARNING, text=text, advice=advice)
    return Finding(subject=name, verdict=Verdict.OK, text=f"{there}, with {ours} {joined}")


def _torchx() -> Finding:
    found = [f"{name} {there}" for name in _TORCHX if (there := _version(name))]
    verdict = Verdict.OK if found else Verdict.ABSENT
    return Finding(subject="TorchX", verdict=verdict, text=", ".join(found) or "not installed")


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
