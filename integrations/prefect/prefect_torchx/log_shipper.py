"""Brings what a run has to show to Prefect's API: one thread for all runs of a process.

Prefect's own log worker forgets a batch when its retries have run out, keeps any number of records in
memory, and tells nobody what has arrived. The log shipper keeps what was not accepted and tries again until
somebody stops waiting for it, says when it has enough to carry, and tells each sender how far it is.

A request that broke off may have been served all the same. Before its records are sent again, the server is
asked which of them it has: records of one source never share a time.

The log goes first. While some of it waits, how far it has arrived is saved once a second for all runs at
once, and pictures get a small part of the time; none of it while somebody waits for the end of a log.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, Protocol, final

from prefect.settings import PREFECT_API_URL

from prefect_torchx import background
from prefect_torchx.api import Api, Payload, Refused, Unreachable
from prefect_torchx.own import Latest

__all__ = ["LogShipper", "Sender"]

FULL_BYTES = 32_000_000
"""How much may wait in this process before its senders should pause; apps write to files meanwhile."""
REQUEST_BYTES = 1_000_000
REQUEST_RECORDS = 200
FIRST_PAUSE_S, LAST_PAUSE_S = 0.1, 2.0
"""Between attempts, while the API does not answer."""
SAVE_EVERY_S = 1.0
"""How often it is saved how far the logs are."""
SAVE_AGAIN_S = 5.0
"""How soon a position that could not be saved is saved again: a silent app would come twice otherwise."""
RETRY_S = 1.0
"""How soon a position that could not be saved is saved again while somebody waits for that."""
SERVERS = 100
"""To how many servers one process brings logs, at most."""
LOG_SHARE = 4.0
"""How much more time the log gets than all else, while it waits."""

logger = logging.getLogger(__name__)


class Sender(Protocol):
    """A run that sends; its methods are called in the log shipper's thread, and do not raise."""

    def accepted(self, token: object, /) -> None:
        """Learn that everything up to the token has arrived."""
        ...

    def refused(self, reason: str, /) -> None:
        """Learn that the server will not have a record, whatever one tries."""
        ...

    @property
    def closing(self) -> bool:
        """Whether somebody waits for the rest of its log to arrive."""
        ...

    @property
    def unsaved(self) -> bool:
        """Whether `save` has something to do."""
        ...

    @property
    def in_haste(self) -> bool:
        """Whether somebody waits for `save`."""
        ...

    def save(self) -> bool:
        """Save how far its log is, with that of all senders that share a place; return whether it is kept."""
        ...

    def due(self) -> float:
        """Return when `draw` is to be called, by the monotonic clock; infinity for never."""
        ...

    def draw(self, api: Api, /) -> bool:
        """Do whatever else needs the API; return whether it has taken that."""
        ...


class _Item(NamedTuple):
    sender: Sender
    payload: Payload | None
    size: int
    token: object


@final
class LogShipper:
    """Sends records in order, as many in a request as are there."""

    def __init__(self, make_api: Callable[[], Api], clock: Callable[[], float] = monotonic) -> None:
        """Start no thread yet."""
        self._make_api = make_api
        self._clock = clock
        self._changed: Final = threading.Condition()
        self._items: deque[_Item] = deque()
        self._bytes = 0
        self._senders: list[Sender] = []
        self._working: background.Work | None = None
        self._batch_limit = REQUEST_RECORDS
        self._failures = 0
        self._is_over = False
        self._save_at = self._draw_at = 0.0
        """Not before, while some of the log waits."""
        self._retry_at = 0.0
        """No `save` before, however great the haste: the last one failed."""
        self._doubtful = 0
        """How many of the first items may have arrived with a request that broke off."""
        self.accepted_at = clock()
        """When the API last took something."""

    @classmethod
    def to_this_server(cls) -> LogShipper:
        """Return the log shipper of this process for the API that the settings name."""
        return _log_shippers.get_or_make(PREFECT_API_URL.value(), lambda: cls(Api))

    @property
    def full(self) -> bool:
        """Whether senders should pause."""
        return self._bytes > FULL_BYTES

    def join(self, sender: Sender) -> None:
        """Begin to serve a sender."""
        with self._changed:
            self._senders.append(sender)
            if self._working is None or not self._working.is_under_way:
                self._working = background.start("torchx-log-shipper", self._work, self._stop)

    def leave(self, sender: Sender) -> int:
        """Stop to serve a sender; return how many records of it are left behind."""
        with self._changed:
            self._senders.remove(sender)
            left = [item for item in self._items if item.sender is sender]
            if left:
                self._items = deque(item for item in self._items if item.sender is not sender)
                self._bytes -= sum(item.size for item in left)
            self._changed.notify()
        return sum(item.payload is not None for item in left)

    def send(self, sender: Sender, payload: Payload | None, size: int, token: object = None) -> None:
        """Take a record, or a token to hand back when everything before it has arrived."""
        with self._changed:
            self._items.append(_Item(sender, payload, size, token))
            self._bytes += size
            self._changed.notify()

    def wake(self) -> None:
        """Look at once at what is due."""
        with self._changed:
            self._changed.notify()

    def _stop(self) -> None:
        """Serve nobody any more: the process ends."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _work(self) -> None:
        """Serve until no sender is left, whatever goes wrong: nobody else would bring what waits."""
        while True:
            try:
                self._serve()
            except Exception:
                if not self._failures:
                    logger.exception("what Prefect's API is to get waits, after an error of ours")
            else:
                return
            self._failures += 1
            self._doubtful = len(self._items)
            if not self._await_work():
                return

    def _serve(self) -> None:
        with self._make_api() as api:
            while self._await_work():
                self._post(api)
                if not self._failures:
                    self._save()
                    self._draw(api)

    def _save(self) -> None:
        """Have every run save how far it is: the first to do so saves it for all that share a place."""
        if self._next_save() > (begun := self._clock()):
            return
        kept = [sender.save() for sender in tuple(self._senders) if sender.unsaved]
        took_s = self._clock() - begun
        self._retry_at = 0.0 if all(kept) else self._clock() + RETRY_S
        self._save_at = self._clock() + max(SAVE_EVERY_S if all(kept) else SAVE_AGAIN_S, took_s * LOG_SHARE)

    def _next_save(self) -> float:
        senders = tuple(self._senders)
        if not self._items and any(sender.in_haste for sender in senders):
            return self._retry_at
        return self._save_at if any(sender.unsaved for sender in senders) else float("inf")

    def _draw(self, api: Api) -> None:
        """Let one run draw, the one that has waited longest."""
        begun = self._clock()
        sender = min(tuple(self._senders), key=lambda sender: sender.due(), default=None)
        if sender is None or sender.due() > begun or (self._items and self._is_log_first(begun)):
            return
        is_taken = sender.draw(api)
        ended = self._clock()
        self._draw_at = ended + (ended - begun) * LOG_SHARE
        if is_taken:  # else whoever waits for the end would wait as long as it is not
            self.accepted_at = ended

    def _is_log_first(self, now: float) -> bool:
        return now < self._draw_at or any(sender.closing for sender in tuple(self._senders))

    def _await_work(self) -> bool:
        """Wait for something to do; return False, and end the thread, when nobody is left."""
        with self._changed:
            if self._failures:
                pause_s = min(FIRST_PAUSE_S * 2 ** (self._failures - 1), LAST_PAUSE_S)
                self._wait(pause_s, until_nobody=True)
            else:
                self._wait(None, until_nobody=False)
            if self._senders and not self._is_over:
                return True
            self._working = None
            return False

    def _wait(self, pause_s: float | None, *, until_nobody: bool) -> None:
        end = float("inf") if pause_s is None else self._clock() + pause_s
        while self._senders and not self._is_over and self._clock() < end:
            next_due = min(self._next_save(), *(sender.due() for sender in self._senders))
            if not until_nobody and (self._items or next_due <= self._clock()):
                return
            until = end if until_nobody else min(end, next_due)
            self._changed.wait(None if until == float("inf") else max(0.0, until - self._clock()))

    def _post(self, api: Api) -> None:
        batch = self._next_batch()
        if not batch:
            self._failures = 0  # who has left has taken along what failed
            return
        payloads = [item.payload for item in batch if item.payload is not None]
        try:
            if payloads and self._doubtful:
                payloads = api.missing(payloads)
            if payloads:
                api.create_logs(payloads)
        except Unreachable as err:
            if err.perhaps_served:
                self._doubtful = max(self._doubtful, len(batch))
            self._note_failure(err)
        except Refused as err:
            self._note_refusal(batch, err)
        else:
            self._batch_limit = REQUEST_RECORDS
            self._confirm(batch)

    def _next_batch(self) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        with self._changed:
            for item in islice(self._items, self._batch_limit):
                size += item.size
                if batch and size > REQUEST_BYTES:
                    break
                batch.append(item)
        return batch

    def _confirm(self, batch: Sequence[_Item]) -> None:
        """Forget what has arrived, and tell its senders."""
        self._failures, self.accepted_at = 0, self._clock()
        self._doubtful = max(0, self._doubtful - len(batch))
        gone = set(map(id, batch))
        with self._changed:
            # Not simply the first so many: a sender may have left, and taken its items along.
            while self._items and id(self._items[0]) in gone:
                self._bytes -= self._items.popleft().size
        for item in batch:
            if item.token is not None:
                item.sender.accepted(item.token)

    def _note_failure(self, err: Unreachable) -> None:
        self._failures += 1
        if self._failures == 1:
            logger.warning("Prefect's API takes no logs, they wait: %s", err)

    def _note_refusal(self, batch: Sequence[_Item], err: Refused) -> None:
        """Find the one record that the server will not have, by halves, and leave it out."""
        if len(batch) > 1:
            self._batch_limit = len(batch) // 2
            return
        batch[0].sender.refused(str(err))
        self._confirm(batch)


_log_shippers: Final = Latest[object, LogShipper](SERVERS)
"""Of the servers that runs of this process have logs on."""
