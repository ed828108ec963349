"""The scheduler of the how-to page keeps the contract, as the page has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-scheduler.md"

CODE = "".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
NAMES: dict[str, Any] = {"__name__": __name__}
exec(compile(CODE, PAGE, "exec"), NAMES)  # noqa: S102  (it is our own page)

TestMemoryScheduler = NAMES["TestMemoryScheduler"]


def test_it_is_short() -> None:
    """Whoever reads it sees the whole of it: the contract asks for no more than this."""
    scheduler = CODE[: CODE.index("class TestMemoryScheduler")]
    assert len([line for line in scheduler.splitlines() if line.strip()]) <= 250
