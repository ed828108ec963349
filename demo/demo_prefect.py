"""What ``make demo ENGINE=prefect`` does with Prefect: run the flow once, on a server that ends with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from demo_process import wait_for

FLOW = Path(__file__).resolve().parents[1] / "dags" / "train_digits_flow.py"


def run(folder: Path, environment: Mapping[str, str], home: Path) -> int:
    """Run the flow and return the exit code.

    Args:
        folder: Where model and logs go.
        environment: Variables that the apps are run by.
        home: For Prefect's own files, database and profile included.
    """
    # Without an address, Prefect starts a server for the run, on this host's own address.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env = {
        **others,
        **environment,
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }
    return wait_for([sys.executable, str(FLOW), str(folder)], env)
