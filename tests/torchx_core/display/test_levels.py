from __future__ import annotations

import pytest

from torchx_core.display.levels import Level, by_level, level_of


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-11-21 10:00:00,123 ERROR x", "error"),
        ("2026-11-21 10:00:00,123 - trainer.loop - WARNING - x", "warning"),
        ("ERROR:root:x", "error"),
        ("[WARNING] x", "warning"),
        ("[2026-11-21 10:00:00,123][trainer][INFO] - x", "info"),
        ("2026-11-21 10:00:00.123 | CRITICAL | __main__:f:7 - x", "critical"),
        ("WARN x", "warning"),
        ("DEBUG", "debug"),
        ("FATAL: x", "critical"),
        ("E1121 10:00:00.123456 7 file.cc:12] x", "error"),
        ("[W1121 10:00:00.123456 socket.cpp:663] x", "warning"),
        ("[rank0]:[E1121 10:00:00.1 ProcessGroup.cpp:1] x", "error"),
        ("[trainer1]:[rank5]: Traceback (most recent call last):", "error"),
        ("[rank5]: Traceback (most recent call last):", "error"),
        ("[0]:[W1121 10:00:00.1 socket.cpp:663] x", "warning"),
        ('[0]:{"event": "x", "level": "error"}', "error"),
        ("[0]:2026-11-21 10:00:00,123 WARNING x", "warning"),
        ("[0]:step 1", "info"),
        ('{"event": "x", "level": "warning"}', "warning"),
        ('{"severity":"ERROR","message":"x"}', "error"),
        ('{"level": "odd"}', "info"),
        ("Traceback (most recent call last):", "error"),
        ("epoch 1 loss 0.3", "info"),
        ("there was no ERROR in this line", "info"),
        ("ERRORS found: 0", "info"),
        ("the error rate", "info"),
        ("", "info"),
        ("E1 is not a time", "info"),
        ("x" * 200 + " ERROR far", "info"),
    ],
)
def test_a_line_has_the_level_that_it_says(line: str, level: Level) -> None:
    """As common loggers write it; a sentence that merely has the word is not taken for one."""
    assert level_of(line) == level
    assert list(by_level(["a line", line])) == (
        [("info", ["a line", line])] if level == "info" else [("info", ["a line"]), (level, [line])]
    )


def test_lines_of_a_level_stay_together() -> None:
    """A run ends where the level changes, and every line is in one."""
    lines = ["a", "b", "ERROR: c", "ERROR: d", "e"]
    assert list(by_level(lines)) == [
        ("info", ["a", "b"]),
        ("error", ["ERROR: c", "ERROR: d"]),
        ("info", ["e"]),
    ]
