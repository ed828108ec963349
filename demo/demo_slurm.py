"""What ``make demo SCHEDULER=slurm`` needs: a Slurm cluster: the one that answers, or its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.commands import call

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))  # the tests' cluster serves here as well

from slurm_cluster import running_cluster, why_no_cluster  # noqa: E402  # found by the line above

NODES = 2


@contextmanager
def slurm_cluster() -> Iterator[Mapping[str, str]]:
    """Yield the environment by which a cluster is found; what is started for it is gone afterwards.

    Raises:
        SchedulerError: No cluster answers, and none can be started here.
    """
    try:
        call(["sinfo", "--noheader"])
    except SchedulerError as err:
        if reason := why_no_cluster():
            raise SchedulerError(f"{err}; none can be started either: {reason}") from err
    else:
        yield {}
        return
    print(f"no Slurm cluster answers: starting one of {NODES} nodes", flush=True)
    with running_cluster(nodes=NODES) as cluster:
        yield cluster.environment
