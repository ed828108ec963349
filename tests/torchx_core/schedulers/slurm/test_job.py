"""Reading squeue's JSON, and what only looks like it."""

from __future__ import annotations

import pytest

from torchx_core.schedulers.slurm.job import parse_queue


@pytest.mark.parametrize("text", ["", "[]", "3", '{"jobs": 3}', '{"errors": ["away"]}', "[" * 100_000])
def test_what_is_no_answer_is_refused(text: str) -> None:
    """A text that is no list of jobs is a ValueError, which the caller takes for no answer."""
    with pytest.raises(ValueError, match=r"\w"):
        parse_queue(text)
