from __future__ import annotations

from pathlib import Path

from airflow_kills import SENSOR, TABLE

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "airflow-kills.md"


def test_the_page_shows_the_table_that_is_tested() -> None:
    """Row by row, in its order."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert rows[1:] == [kill.page_row() for kill in (*TABLE, SENSOR)]
