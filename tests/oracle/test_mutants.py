"""Every deliberate bug still has its place in the product; a line that was changed cannot be broken."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, REPOSITORY, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_deliberate_bug_can_be_put_in(mutant: Mutant) -> None:
    """The text that it replaces is in its file, once or more."""
    assert mutant.old in (REPOSITORY / mutant.file).read_text()
