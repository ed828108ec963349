"""What replicas reported: JSON lines in a file per attempt, read from an archive of all of them."""

from __future__ import annotations

import io
import logging
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from torchx_core.schedulers.docker.records import Planned
from torchx_core.schedulers.events import Metric, Progress, Result
from torchx_core.supervisor.reports import BadReport, parse_report

__all__ = ["Report", "each_report", "read_reports"]

logger: Final = logging.getLogger(__name__)

Report: TypeAlias = Progress | Metric | Result


def read_reports(archive: bytes) -> dict[tuple[int, int], list[bytes]]:
    """Return the lines of every file, by index of the replica and number of the attempt."""
    files: dict[tuple[int, int], list[bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            index, _, attempt = member.name.rpartition("/")[2].partition(".")
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None and index.isdecimal() and attempt.isdecimal():
                files[int(index), int(attempt)] = file.read().split(b"\n")
    return files


def each_report(planned: Planned, attempt: int, lines: Sequence[bytes], began_at: float) -> Iterator[Report]:
    """Yield the reports among the lines; what is none is logged and left out.

    A report that does not say when it was made gets the time at which the attempt began: nobody knows better,
    and whoever reads it later is to read the same.
    """
    for line in lines:
        if not line.strip():
            continue
        try:
            report = parse_report(line)
        except BadReport as err:
            logger.warning("replica %s/%d: not a report: %s", planned.role, planned.replica, err)
            continue
        yield _event(planned, attempt, report, began_at)


def _event(planned: Planned, attempt: int, report: Mapping[str, object], at: float) -> Report:
    role, replica = planned.role, planned.replica
    if report["type"] == "progress":
        return Progress(
            role=role,
            replica=replica,
            attempt=attempt,
            fraction=cast("float", report["fraction"]),
            message=cast("str", report["message"]),
            time=at,
        )
    if report["type"] == "metric":
        return Metric(
            role=role,
            replica=replica,
            attempt=attempt,
            name=cast("str", report["name"]),
            value=cast("float", report["value"]),
            step=cast("int | None", report["step"]),
            time=at,
        )
    return Result(role=role, replica=replica, attempt=attempt, value=report["value"], time=at)
