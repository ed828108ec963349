from __future__ import annotations

from pathlib import Path

from prefect_kills import TABLE

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "prefect-kills.md"


def test_the_page_shows_the_table_that_is_tested() -> None:
    """Row by row, in its order."""
    first_table, _, _ = PAGE.read_text().partition("\n## ")
    rows = [line for line in first_table.splitlines() if line.startswith("| ")]
    assert rows[1:] == [kill.page_row() for kill in TABLE]
