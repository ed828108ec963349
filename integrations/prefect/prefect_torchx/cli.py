"""The program ``prefect-torchx``: what an operator does about apps that nobody looks after."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from prefect_torchx.reap import Reaper, Verdict
from torchx_core.errors import TorchXError
from torchx_core.launch import DEFAULT_SCHEDULER

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 when an app could not be judged or cancelled.

    Args:
        argv: The words after the program's name; None for those of this process.
    """
    arguments = _parser().parse_args(argv)
    return _reap(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefect-torchx", description="Look after apps of Prefect flow runs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reap = commands.add_parser(
        "reap",
        help="cancel running apps whose flow run is over",
        description="Cancel running apps whose flow run is over, and show what was done with each app that "
        "belongs to a flow run. Prefect's server is the one of the active profile.",
    )
    reap.add_argument(
        "--scheduler",
        action="append",
        help=f"where to look; may be repeated (default: {DEFAULT_SCHEDULER})",
    )
    reap.add_argument("--session", action="append", help="which apps; may be repeated (default: torchx)")
    reap.add_argument(
        "--unknown",
        action="store_true",
        help="also cancel apps whose flow run the server does not know; make sure it is the right server",
    )
    reap.add_argument("--dry-run", action="store_true", help="show only what would be done")
    reap.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def _reap(arguments: argparse.Namespace) -> int:
    from prefect.client.orchestration import get_client

    failed = False
    places = [
        (scheduler, session)
        for scheduler in arguments.scheduler or [DEFAULT_SCHEDULER]
        for session in arguments.session or ["torchx"]
    ]
    with get_client(sync_client=True) as client, Reaper() as reaper:
        for scheduler, session in places:
            try:
                verdicts = list(reaper.judge(client, scheduler, session, unknown=arguments.unknown))
            except TorchXError as err:
                failed = _complain(f"{scheduler}, session {session}", err)
                continue
            for verdict in verdicts:
                failed |= not _carry_out(reaper, verdict, arguments)
    return int(failed)


def _carry_out(reaper: Reaper, verdict: Verdict, arguments: argparse.Namespace) -> bool:
    """Cancel the app if it is to be; show what was done; return whether that went well."""
    done = "left alone"
    try:
        if verdict.orphaned and not arguments.dry_run:
            flow_run_id, state = UUID(verdict.flow_run_id), verdict.flow_run_state
            done = "cancelled" if reaper.reap(verdict.app_handle, flow_run_id, state) else "ended meanwhile"
        elif verdict.orphaned:
            done = "would be cancelled"
    except TorchXError as err:
        _complain(verdict.app_handle, err)
        return False
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(verdict) | {"done": done}) + "\n")
    else:
        sys.stdout.write(
            f"{verdict.app_handle}  flow run {verdict.flow_run_id} is {verdict.flow_run_state}: {done}\n"
        )
    return True


def _complain(about: str, error: TorchXError) -> bool:
    sys.stderr.write(f"prefect-torchx: {about}: {error}\n")
    return True
