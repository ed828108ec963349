"""Shows the links of a task's page once it is known where they lead: a replica in a queue has no host."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, final

from airflow_torchx import _engine
from airflow_torchx._engine import Context
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx.links.torchx import HasLinks, find_links
from torchx_core.display.services import find_services, may_tell_hosts
from torchx_core.errors import SchedulerError
from torchx_core.schedulers import AppEvent
from torchx_core.specs import AppDef, AppStatus

if TYPE_CHECKING:
    from airflow_torchx._attachment import Attachment
    from airflow_torchx._protocols import TaskLog

__all__ = ["LinkRefresh", "LinkingLog", "Links"]

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 10.0
"""How long after a failure it is looked again where the links lead."""


@final
class LinkRefresh:
    """Knows when it is time to look where an app's services are."""

    def __init__(self, *, awaited: bool) -> None:
        """Have it looked at once, where the host of a service is awaited."""
        self.awaited = awaited
        """Whether there is a service whose host is not known."""
        self._due = monotonic() if awaited else float("inf")

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return monotonic() >= self._due

    def heed(self, events: Iterable[AppEvent]) -> None:
        """Have it looked where one of the events may have brought a host."""
        if self.awaited and any(map(may_tell_hosts, events)):
            self._due = monotonic()

    def looked(self, app: AppDef, status: AppStatus) -> None:
        """Learn what a look has brought."""
        self.awaited = None in find_services(app, status).values()
        self._due = float("inf")

    def failed(self) -> None:
        """Have it looked again, a little later."""
        self.awaited = True
        self._due = monotonic() + LOOK_AGAIN_S


@final
class Links:
    """The links of a task's page to its app, while a worker follows that."""

    def __init__(self, operator: HasLinks, context: Context, page: Mapping[str, str]) -> None:
        """Show nothing yet.

        Args:
            operator: Whose links they are.
            context: The task's.
            page: The link to the app's page in Airflow (`page_link`).
        """
        self._page = page
        self._operator = operator
        self._context = context
        self._attachment: Attachment | None = None
        self._refresh = LinkRefresh(awaited=False)

    @property
    def awaited(self) -> bool:
        """Whether a link is missing that there will be."""
        return self._refresh.awaited

    def show(self, attachment: Attachment) -> None:
        """Make the links to this app work; and hide its own secrets, which may be those of an older DAG."""
        self._attachment = attachment
        try:
            app, status = attachment.app(), attachment.status()
            for role in app.roles:
                _engine.mask_secrets(role.env)
            self._operator.links = {**self._page, **find_links(app, status)}
            for key, url in self._operator.links.items():
                _engine.push_link(self._context, key, url)
        except (SchedulerError, AirflowUnavailableError) as err:
            logger.warning("no links to %s just now: %s", attachment.handle, err)
            self._refresh.failed()
        else:
            self._refresh.looked(app, status)

    def heed(self, event: AppEvent) -> None:
        """Learn what has happened to the app."""
        self._refresh.heed([event])

    def tick(self) -> None:
        """Show the links that are missing, if it may be known by now where they lead."""
        if self._attachment is not None and self._refresh.is_due:
            self.show(self._attachment)


@final
class LinkingLog:
    """A task's log, and what is to be known of the same events for the links."""

    def __init__(self, log: TaskLog, links: Links) -> None:
        """Write nothing yet."""
        self._log = log
        self._links = links

    def write(self, event: AppEvent) -> None:
        """Show one event, or keep it for a while."""
        self._log.write(event)
        self._links.heed(event)

    def tick(self) -> None:
        """Show what was kept, and the links, if that is due."""
        self._log.tick()
        self._links.tick()

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._log.say(message)
