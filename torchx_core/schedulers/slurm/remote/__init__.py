"""Reaches a cluster from a host that is not part of it: over ssh, through a login node.

Nothing of the scheduler is done twice. On the login node an *agent* runs, which is the scheduler itself: this
library, packed into one archive, sent through the connection and kept in memory there (`bundle`, `agent`,
`handler`). Here a thin client (`scheduler`, `feed`) puts questions to it, one JSON document a line, over one
connection per login node and process (`line`, `lines`, `ssh`).

::

    here                                           on the login node
    RemoteSlurmScheduler ─┐                        agent: reads lines, answers lines
    RemoteFeed ───────────┼─ Line ── ssh ──────────  handler: one function of a question
    RemoteFeed ───────────┘                            SlurmScheduler, SlurmFeed: files and Slurm's commands

**Nothing is remembered over there.** A question names session, app and cursor, so the next agent answers it
as well as the last one. When the connection is lost, followers wait until it is back and go on from their
cursor; every other question is put once more, because asking twice does no harm, and fails if that fails.
"""

__all__: list[str] = []
