"""What somebody does with apps, by whichever release is installed: `acts.py ACT ARGUMENTS`, answered in JSON.

Uses nothing that a release may not have had, and is run by the Python of the environment that is upgraded.
"""

from __future__ import annotations

import json
import sys

import torchx_core
from torchx_core import AppDef, Role, get_runner
from torchx_core.specs import BindMount

assert "site-packages" in torchx_core.__file__, torchx_core.__file__
SESSION = "upgraded"


def submit(scheduler: str, image: str, folder: str, app_id: str, retries: str, script: str) -> object:
    """Run the script on two replicas, which see the folder; say the handle."""
    mounts = [BindMount(folder, folder)] if scheduler == "local_docker" else []
    role = Role(
        "main",
        image=image,
        entrypoint="sh",
        args=["-c", script],
        env={"FOLDER": folder},
        num_replicas=2,
        max_retries=int(retries),
        mounts=mounts,  # type: ignore[arg-type]  # a list of one kind of mount
    )
    with get_runner(SESSION) as runner:
        return runner.run(AppDef(app_id, [role]), scheduler, {"grace_s": 1}, app_id=app_id)


def follow(handle: str, cursor: str, until: str) -> object:
    """Say the lines after the cursor, up to the batch by which each replica has printed a certain one."""
    lines: list[tuple[int, int, str, str]] = []
    with get_runner(SESSION) as runner:
        for batch in runner.follow(handle, cursor or None):
            cursor = batch.cursor
            lines += [(line.replica, line.attempt, line.stream, line.text) for line in batch.lines()]
            if until and {line[0] for line in lines if line[3] == until} == {0, 1}:
                break
    return {"lines": lines, "cursor": cursor}


def status(handle: str) -> object:
    """Say the state, and the attempts that have ended: replica, attempt, exit code."""
    with get_runner(SESSION) as runner:
        found = runner.status(handle)
    if found is None:
        return None
    replicas = [replica for role in found.roles for replica in role.replicas]
    return {"state": found.state.name, "exit_codes": [replica.exit_code for replica in replicas]}


def cancel(handle: str) -> object:
    """Cancel the app and wait until it has ended."""
    with get_runner(SESSION) as runner:
        runner.cancel(handle, reason="upgraded")
        runner.wait(handle)
    return status(handle)


def listed(scheduler: str) -> object:
    """Say the apps that there are, by their ids."""
    with get_runner(SESSION) as runner:
        return {app.app_id: app.state.name for app in runner.list(scheduler)}


def prune(scheduler: str) -> object:
    """Forget all that have ended, and say their ids."""
    with get_runner(SESSION) as runner:
        return runner.prune(scheduler, max_count=0)


if __name__ == "__main__":
    acts = {act.__name__: act for act in (submit, follow, status, cancel, listed, prune)}
    sys.stdout.write(json.dumps(acts[sys.argv[1]](*sys.argv[2:])))
