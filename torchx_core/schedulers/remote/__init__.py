"""Reaches a scheduler that runs on another host, over ssh.

Nothing of the scheduler is done twice. On the other host an *agent* runs, which is the scheduler itself: this
library, packed into one archive, sent through the connection and kept in memory there (`bundle`, `agent`,
`handler`). Here a thin client (`scheduler`, `feed`) puts questions to it, one JSON document a line, over one
connection per host and process (`line`, `lines`, `ssh`).

::

    here                                           on the other host
    RemoteScheduler ─┐                             agent: reads lines, answers lines
    RemoteFeed ──────┼─ Line ── ssh ───────────────  handler: one function of a question
    RemoteFeed ──────┘                                 the scheduler, its feeds: files, processes, commands

**Nothing is remembered over there.** A question names scheduler, session, app and cursor, so the next agent
answers it as well as the last one. When the connection is lost, followers wait until it is back and go on
from their cursor; every other question is put once more, because asking twice does no harm, and fails if
that fails.
"""

__all__: list[str] = []
