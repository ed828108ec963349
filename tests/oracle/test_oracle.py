"""Every fault on every backend that runs here, a few times: `make oracle` runs many more."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from faults import FAULTS
from run import plan, run_one, start

SEED = int(os.environ.get("ORACLE_SEED", "1"))
TRIALS = 3


@pytest.mark.oracle
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_promises_hold(fault: str, tmp_path: Path) -> None:
    """No promise is broken by the fault on this host's processes."""
    with ExitStack() as stack:
        start(["local_cwd"], stack, tmp_path)
        outcomes = [run_one(work) for work in islice(plan([fault], SEED, tmp_path), TRIALS)]
    assert [outcome for outcome in outcomes if outcome.violations] == []
