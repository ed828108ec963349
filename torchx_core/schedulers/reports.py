"""What replicas report, as events: one meaning for every scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from torchx_core.schedulers.events import REPORTS, Report
from torchx_core.supervisor.reports import BadReport, parse_timed_report

__all__ = ["read_reports"]


def read_reports(
    lines: Iterable[bytes], role: str, replica: int, attempt: int, not_before: float
) -> Iterator[Report]:
    """Yield the reports among the lines; what is none is logged and left out.

    Args:
        lines: As the replica wrote them.
        role: Of the replica.
        replica: Its number in the role.
        attempt: Which of its attempts.
        not_before: The time that is known, in seconds since the epoch: at which a report without a time of
            its own arrived, or else at which the attempt began. A program's clock counts where it says later.
    """
    for line in lines:
        if not line.strip():
            continue
        try:
            report, made_at = parse_timed_report(line)
        except BadReport as err:
            import logging  # here: a program that shows a status has no need of it otherwise

            logger = logging.getLogger(__name__)
            logger.warning("replica %s/%d: not a report: %s", role, replica, err)
            continue
        event = REPORTS[report.pop("type")]
        time = max(not_before, made_at or not_before)
        yield event(role=role, replica=replica, attempt=attempt, time=time, **cast("dict[str, Any]", report))
