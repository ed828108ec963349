"""Importing the package is cheap and needs no test framework."""

from __future__ import annotations

import subprocess
import sys


def test_pytest_is_needed_for_the_contract_only() -> None:
    """A user's own tests may use another framework."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from torchx_core.testing import FakeClock, FakeScheduler, Print, fake_runner, wait_until\n"
        "try: from torchx_core.testing import SchedulerContract\n"
        "except ImportError: print('contract needs pytest')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "contract needs pytest\n"
