"""What a scheduler is told and answers, as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import cast

from torchx_core.schedulers.responses import (
    DescribeAppResponse,
    Finding,
    FollowOptions,
    ListAppResponse,
    Stream,
    Verdict,
)
from torchx_core.specs import AppDef, AppState, AppStatus
from torchx_core.supervisor.records import Json

__all__ = [
    "dump_description",
    "dump_findings",
    "dump_options",
    "dump_rows",
    "load_description",
    "load_findings",
    "load_options",
    "load_rows",
]


def dump_description(told: DescribeAppResponse) -> Json:
    """Return a description as the app and the status that it consists of."""
    app = AppDef(name=told.name, roles=told.roles, metadata=told.metadata)
    return {"app_id": told.app_id, "app": app.to_dict(), "status": told.status.to_json()}


def load_description(data: Json) -> DescribeAppResponse:
    """Return the description that `dump_description` was given."""
    app = AppDef.from_dict(cast("Json", data["app"]))
    status = AppStatus.from_json(cast("Json", data["status"]))
    return DescribeAppResponse.of(str(data["app_id"]), app, status)


def dump_rows(rows: Iterable[ListAppResponse]) -> list[Json]:
    """Return a list of apps as plain values."""
    return [{**asdict(row), "state": row.state.name} for row in rows]


def load_rows(data: object) -> list[ListAppResponse]:
    """Return the list that `dump_rows` was given."""
    return [
        ListAppResponse(
            app_id=str(row["app_id"]),
            state=AppState[str(row["state"])],
            name=str(row["name"]),
            submitted_at=cast("float | None", row["submitted_at"]),
            error=str(row.get("error", "")),
        )
        for row in cast("list[Json]", data)
    ]


def dump_findings(findings: Iterable[Finding]) -> list[Json]:
    """Return findings as plain values."""
    return [{**asdict(finding), "verdict": finding.verdict.value} for finding in findings]


def load_findings(data: object) -> list[Finding]:
    """Return the findings that `dump_findings` was given."""
    return [
        Finding(
            subject=str(row["subject"]),
            verdict=Verdict(row["verdict"]),
            text=str(row["text"]),
            advice=str(row["advice"]),
        )
        for row in cast("list[Json]", data)
    ]


def dump_options(options: FollowOptions) -> Json:
    """Return options of following as plain values."""
    roles = None if options.roles is None else sorted(options.roles)
    return {**asdict(options), "roles": roles, "streams": options.streams.value}


def load_options(data: Json) -> FollowOptions:
    """Return the options that `dump_options` was given."""
    roles = cast("list[str] | None", data["roles"])
    return FollowOptions(
        logs=bool(data["logs"]),
        roles=None if roles is None else frozenset(roles),
        streams=Stream(data["streams"]),
        batch_bytes=cast("int", data["batch_bytes"]),
    )
