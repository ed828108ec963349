"""``torchx-core doctor``."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from torchx_core import __version__, get_runner
from torchx_core.cli.exit_codes import ExitCode
from torchx_core.cli.options import cli_command
from torchx_core.cli.output import Output
from torchx_core.cli.styles import BAD, BOLD, DIM, GOOD, WARN
from torchx_core.cli.tables import Cell, Column, lay_out
from torchx_core.errors import BackendAbsentError, TorchXError
from torchx_core.schedulers import Finding, Verdict

__all__ = ["command"]

_COLUMNS = (Column(""), Column(""), Column(""))
_STYLES: Final = {Verdict.OK: GOOD, Verdict.ABSENT: DIM, Verdict.WARNING: WARN, Verdict.PROBLEM: BAD}
_ENGINES: Final = {
    "Airflow": ("apache-airflow", "airflow-provider-torchx"),
    "Prefect": ("prefect", "prefect-torchx"),
}
"""Name -> the engine's distribution, and ours that joins the two."""
_TORCHX: Final = ("torchx-nightly", "torchx")


@cli_command("doctor")
def command(output: Output) -> int:
    """Say what works on this host, what does not, and what to do about it.

    The exit code is 1 when there is a problem: something that keeps apps from running.
    """
    groups = {(): list(host_findings()), **_by_schedulers()}
    problems = sum(f.verdict is Verdict.PROBLEM for findings in groups.values() for f in findings)
    if output.json:
        output.document(_document(groups, problems))
    else:
        for schedulers, findings in groups.items():
            gap = [""] if schedulers else []
            title = output.paint(", ".join(schedulers) or "this host", BOLD)
            output.lines([*gap, title, *_lines(findings, output)])
    return ExitCode.FAILURE if problems else ExitCode.SUCCESS


def _by_schedulers() -> dict[tuple[str, ...], list[Finding]]:
    """Return the findings by the schedulers that share them."""
    owners: dict[Finding, list[str]] = {}
    with get_runner() as runner:
        for name in runner.scheduler_backends():
            try:
                findings = runner.scheduler(name).diagnose()
            except TorchXError as err:
                verdict = Verdict.ABSENT if isinstance(err, BackendAbsentError) else Verdict.WARNING
                findings = [Finding(subject="backend", verdict=verdict, text=f"cannot be used: {err}")]
            for finding in findings:
                owners.setdefault(finding, []).append(name)
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding, names in owners.items():
        groups.setdefault(tuple(names), []).append(finding)
    return groups


def _lines(findings: list[Finding], output: Output) -> list[str]:
    rows = [
        [Cell(f"  {f.subject}"), Cell(f.verdict.value, _STYLES[f.verdict]), Cell(f.text)] for f in findings
    ]
    lines = lay_out(_COLUMNS, rows, width=None, paint=output.paint)
    advised: list[str] = []
    for line, finding in zip(lines, findings, strict=True):
        advised.append(line)
        if finding.advice:
            advised.append(f"      {output.paint(f'-> {finding.advice}', WARN)}")
    return advised


def _document(groups: Mapping[tuple[str, ...], list[Finding]], problems: int) -> dict[str, object]:
    return {
        "problems": problems,
        "findings": [
            {**_fields(finding), "schedulers": list(schedulers)}
            for schedulers, findings in groups.items()
            for finding in findings
        ],
    }


def _fields(finding: Finding) -> dict[str, object]:
    return {
        "subject": finding.subject,
        "verdict": finding.verdict.value,
        "text": finding.text,
        "advice": finding.advice,
    }


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
