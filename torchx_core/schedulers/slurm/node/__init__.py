"""What runs on the nodes of a Slurm job, shipped with it as one file: only the standard library.

``shim.pyz lead DIR``, in the batch script: makes sure that this job is the app's only one, writes down that a
run of it has begun, and starts a task per replica with srun. ``shim.pyz replica DIR``, in each task: runs the
replica's program and writes what it does into the app's directory, which all nodes share.

::

    job.json                 the one job of this app: {"job_id", "time"}; whoever writes it first is right
    run.<n>.json             a run of the job: its first, and one more after each requeue
    stop.json                why the app ends: {"outcome", "msg", "grace_s", "time", "index"}; first wins
    restart.<g>.json         replicas that start again together: {"indices", "run", "time"}; whoever
                             is not first takes the next number, unless the first names it too
    told.<n>.json            Slurm has told a replica to end in that run: {"index"}
    done.<n>                 in that run every replica has succeeded: a later one does nothing
    left/<run>.<i>           the task of replica i has nothing more to do in that run
    lease                    whoever follows the app writes something new here
    usage.asked              whoever wants to know what the replicas use writes something new here
    log/<role>/<k>/<n>/      attempt n: start.json, stdout.log, stderr.log, combined.log, index,
                             reports.jsonl, error.json, usage.json (what it used when it was last
                             asked), end.json (after which nothing changes)

``start.json`` claims an attempt's number: {"time", "host", "run", "orders"}; the last is how many files
``restart`` its task had read. ``index`` has a record per run of whole lines of one stream in ``combined.log``
(`parts.RECORD`). With ``log_max_mb`` the four files of output have later parts, ``combined.log.<offset>``,
and those in the middle are deleted (`parts`).

**Fencing.** After a node was lost Slurm may run a job again while its old tasks live on. An old task sees
that a later run has begun, kills its program and writes nothing more; each attempt has its own directory.
An attempt that such a task claims before it has looked begins no program, and readers skip it.

**Guard.** A task is two processes. Should the one that does the work die, by a signal or an error of ours,
the other kills the program and writes down that the replica has failed, so that nobody waits for it for ever.

**Full disk.** Whatever is to be written waits until there is room; meanwhile a stop is still obeyed.

Runs on Python 3.7 and newer.
"""

from __future__ import annotations

__all__: list[str] = []
