"""Chooses which apps to forget."""

from __future__ import annotations

from collections.abc import Sequence

from torchx_core.schedulers.responses import ListAppResponse
from torchx_core.specs import is_terminal

__all__ = ["surplus"]


def surplus(
    apps: Sequence[tuple[ListAppResponse, int]],
    *,
    max_age_s: float | None,
    max_count: int | None,
    max_bytes: int | None,
    now: float,
) -> list[str]:
    """Return the ids of terminal apps to delete, oldest first, so that what is left is within the bounds.

    Args:
        apps: Every app with its size in bytes, oldest first.
        max_age_s: Bound on the time since submission.
        max_count: Bound on the number of apps.
        max_bytes: Bound on the sum of sizes.
        now: Seconds since the epoch.
    """
    count, size = len(apps), sum(n for _, n in apps)
    doomed: list[str] = []
    for app, app_size in apps:
        too_old = max_age_s is not None and now - (app.submitted_at or 0.0) > max_age_s
        too_many = max_count is not None and count > max_count
        too_big = max_bytes is not None and size > max_bytes
        if is_terminal(app.state) and (too_old or too_many or too_big):
            doomed.append(app.app_id)
            count, size = count - 1, size - app_size
    return doomed
