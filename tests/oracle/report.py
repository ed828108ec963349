"""What came of many trials, as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from judge import Violation

__all__ = ["Outcome", "markdown", "table"]


class Outcome(NamedTuple):
    """What came of a trial."""

    backend: str
    fault: str
    seed: int
    violations: list[Violation]
    seconds: float


def table(outcomes: list[Outcome]) -> str:
    """Return fault x backend x trials x violations."""
    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        cells[outcome.fault, outcome.backend].append(outcome)
    rows = [f"{'fault':32} {'backend':14} {'trials':>7} {'seconds':>7} {'bad':>5}  violations"]
    for (fault, backend), some in sorted(cells.items()):
        names = Counter(name for o in some for name in {v.name for v in o.violations})
        bad = sum(bool(o.violations) for o in some)
        told = ", ".join(f"{name} x{count}" for name, count in names.most_common())
        each_s = sum(o.seconds for o in some) / len(some)
        rows.append(f"{fault:32} {backend:14} {len(some):7} {each_s:7.1f} {bad:5}  {told}")
    total, bad = len(outcomes), sum(bool(o.violations) for o in outcomes)
    rows.append(f"{'all':32} {'':14} {total:7} {'':7} {bad:5}")
    return "\n".join(rows)


def markdown(outcomes: list[Outcome]) -> str:
    """Return a table of trials, a row for each fault and a column for each backend and form of task."""
    columns = sorted({o.backend for o in outcomes})
    counts = Counter((o.fault, o.backend) for o in outcomes)
    bad = Counter((o.fault, o.backend) for o in outcomes if o.violations)
    rows = [["fault", *columns, "trials", "violations"], ["---"] * (len(columns) + 3)]
    for fault in sorted({o.fault for o in outcomes}):
        cells = [_cell(counts[fault, name], bad[fault, name]) for name in columns]
        trials, broken = (sum(c[fault, name] for name in columns) for c in (counts, bad))
        rows.append([fault, *cells, f"{trials:,}", str(broken)])
    cells = [f"{sum(o.backend == name for o in outcomes):,}" for name in columns]
    total = sum(bool(o.violations) for o in outcomes)
    rows.append(["**all**", *cells, f"**{len(outcomes):,}**", f"**{total}**"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(trials: int, bad: int) -> str:
    return f"{trials:,} ({bad} bad)" if bad else f"{trials:,}" if trials else ""
