"""Prefect, whose server on SQLite makes two requests that read and then write wait for each other.

Prefect's own begins them as readers. SQLite refuses to make the second one a writer, however long it might
wait, and the server answers 503; a host may be so busy that this happens at each of a client's few tries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect.cli import app
from prefect.server.database import configurations

if TYPE_CHECKING:
    from sqlalchemy import Connection


def _begin(_self: object, connection: Connection) -> None:
    if configurations.SQLITE_BEGIN_MODE.get() is not None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


if __name__ == "__main__":
    configurations.AioSqliteConfiguration.begin_sqlite_stmt = _begin  # type: ignore[assignment]
    app()
