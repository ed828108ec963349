"""What Prefect has not got of a process's output."""

from __future__ import annotations

from prefect_torchx.worker.ending import unsent

HEAD = "09:00:00.000 | INFO    | Flow run 'a-b' - "


def test_what_a_logger_sent_is_left_out() -> None:
    """A message may have several lines, or a dash of its own."""
    output = [f"{HEAD}one - two", f"{HEAD}Traceback:", "  File x", "Killed"]
    assert unsent(output, ["one - two", "Traceback:\n  File x"]) == ["Killed"]


def test_what_no_logger_sent_is_kept_in_order() -> None:
    """A record that was lost on the way to the server too; blank lines only between others."""
    output = ["", f"{HEAD}lost", "", "Segmentation fault", ""]
    assert unsent(output, ["another"]) == [f"{HEAD}lost", "", "Segmentation fault"]


def test_a_message_inside_a_line_proves_nothing() -> None:
    """Only the whole message after the logger's head counts."""
    assert unsent(["it was killed - really"], ["killed", ""]) == ["it was killed - really"]
