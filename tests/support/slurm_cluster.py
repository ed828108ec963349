"""A real Slurm cluster of several nodes on this machine, with its own munge key, ports and files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from daemons import environ, free_ports
from slurm_accounts import SlurmAccounts

from torchx_core.testing import wait_until

__all__ = ["SlurmCluster", "running_cluster", "why_no_cluster"]

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_START_S = 900
_END_S = 30
_LOG_LINES = 60
_SCHEDULING = ("bf_interval=1", "sched_interval=5", "sched_min_interval=100000", "batch_sched_delay=0")


def why_no_cluster() -> str:
    """Return why no cluster can be started here; empty when it can."""
    if os.geteuid() != 0:
        return "no Slurm cluster: needs root"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"no Slurm cluster: needs {', '.join(missing)} (make slurm-cluster)" if missing else ""


@contextmanager
def running_cluster(
    *, nodes: int = 4, accounting: bool = False, min_job_age_s: int = 300
) -> Iterator[SlurmCluster]:
    """Yield a cluster that is up; it is gone afterwards. See `SlurmCluster` for what the arguments mean."""
    root = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = SlurmCluster(root, nodes=nodes, accounting=accounting, min_job_age_s=min_job_age_s)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class SlurmCluster:
    """A controller and some nodes, each a daemon of its own that can be killed.

    Node ``n2`` is ``nodes[1]``. Whoever wants to talk to the cluster needs ``environment``.
    """

    def __init__(
        self, root: Path, *, nodes: int = 4, accounting: bool = False, min_job_age_s: int = 300
    ) -> None:
        """Start nothing yet.

        Args:
            root: A new directory with a short path (sockets).
            nodes: How many; each has two fake GPUs.
            accounting: With slurmdbd.
            min_job_age_s: How long a job that is over is listed, at least.
        """
        self.root = root
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self._min_job_age_s = min_job_age_s
        self._port = free_ports(nodes + 2)
        self._started_in = dict(os.environ)  # daemons belong to the cluster, whoever starts them again
        self.accounts: SlurmAccounts | None = None
        if accounting:
            env = {**self._started_in, **self.environment}
            self.accounts = SlurmAccounts(root, port=self._port + nodes + 1, env=env)
        for name in ("run", "log", "state", "spool", "dev"):
            (root / name).mkdir(parents=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """Say to every Slurm command which cluster is meant."""
        return {"SLURM_CONF": str(self.root / "slurm.conf"), "PATH": _path()}

    @contextmanager
    def here(self) -> Iterator[None]:
        """Have every Slurm command of this process mean this cluster."""
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def start(self) -> None:
        """Start all daemons and wait until the nodes are idle."""
        (self.root / "munge.key").write_bytes(os.urandom(1024))
        (self.root / "munge.key").chmod(0o400)
        (self.root / "slurm.conf").write_text(self._configuration())
        for gpu in ("gpu0", "gpu1"):
            (self.root / "dev" / gpu).symlink_to(os.devnull)
        gpus = f"Name=gpu Type=fake File={self.root}/dev/gpu[0-1]"
        (self.root / "gres.conf").write_text(f"NodeName=n[1-{len(self.nodes)}] {gpus}\n")
        self._call(
            "munged",
            "--force",
            f"--key-file={self.root}/munge.key",
            f"--socket={self.root}/run/munge.sock",
            f"--pid-file={self._pid_file('munged')}",
            f"--log-file={self.root}/log/munged.log",
            f"--seed-file={self.root}/munge.seed",
        )
        if self.accounts:
            self.accounts.start()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        wait_until(lambda: self._idle() == len(self.nodes), _START_S)

    def start_controller(self) -> None:
        """Start the controller, perhaps again: it goes on where it was."""
        self._start_controller()

    def stop_controller(self) -> None:
        """End the controller; jobs go on."""
        self._kill("slurmctld", 15)

    def lose_state(self) -> None:
        """End the controller, and start one that knows of no job and counts them from 1 again."""
        self.stop_controller()
        shutil.rmtree(self.root / "state")
        (self.root / "state").mkdir()
        self._start_controller("-c")

    def stop_accounting(self) -> None:
        """End slurmdbd; the controller keeps what it has to say until it is back."""
        self._kill("slurmdbd", 15)

    @property
    def controller_runs(self) -> bool:
        """Whether the controller is up."""
        return bool(self._pid("slurmctld"))

    def start_node(self, node: str) -> None:
        """Start a node's daemon."""
        (self.root / "spool" / node).mkdir(exist_ok=True)
        self._call("slurmd", "-N", node)

    def kill_node(self, node: str) -> None:
        """SIGKILL the node's daemon, its step daemons and their tasks, as if its power was cut."""
        tasks = self._processes(f"SLURMD_NODENAME={node}")
        steps = {parent for task in tasks if _is_step(parent := _parent(task))}  # they are not told the node
        victims = {self._pid(f"slurmd.{node}"), *steps, *tasks} - {0}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: none reports another's end
            for victim in victims:
                with suppress(ProcessLookupError):
                    os.kill(victim, number)
        self._pid_file(f"slurmd.{node}").unlink(missing_ok=True)

    def call(self, *command: str) -> str:
        """Run a Slurm command and return what it prints."""
        return self._call(*command)

    def explain_failure(self) -> str:
        """Return what Slurm says of its jobs and nodes, and said last: for the report of a failed test."""
        said = []
        for command in (("scontrol", "show", "job"), ("scontrol", "show", "node")):
            try:
                said.append(self._call(*command))
            except (subprocess.SubprocessError, RuntimeError) as err:
                said.append(str(err))
        for log in sorted((self.root / "log").iterdir()):
            said += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-_LOG_LINES:]]
        return "\n".join(said)

    def stop(self) -> None:
        """End every daemon and every job of this cluster."""
        with suppress(subprocess.SubprocessError, RuntimeError):  # its controller may be away
            self._call("scancel", "--user=root", "--full", "--signal=KILL")
        accounts = self.accounts.daemons if self.accounts else ()
        for name in [*(f"slurmd.{node}" for node in self.nodes), "slurmctld", *accounts, "munged"]:
            self._kill(name, 15)
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

    def _processes(self, *variables: str) -> set[int]:
        """Return the processes of this cluster, jobs included, that have these variables; never this one."""
        wanted = {f"SLURM_CONF={self.root}/slurm.conf", *variables}
        pids = {int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()}
        return {
            pid
            for pid in pids - {os.getpid()}
            if wanted <= {*environ(pid).decode(errors="replace").split("\0")}
        }

    def _idle(self) -> int:
        listed = self._call("sinfo", "--noheader", "--Node", "--format=%N %T")
        return len({line for line in listed.splitlines() if line.endswith(" idle")})  # a line per partition

    def _call(self, *command: str) -> str:
        done = subprocess.run(
            command,
            env={**self._started_in, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_S,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}{done.stdout}")
        return done.stdout

    def _pid_file(self, name: str) -> Path:
        return self.root / "run" / f"{name}.pid"

    def _start_controller(self, *options: str) -> None:
        self._call("slurmctld", *options)
        wait_until(
            lambda: self.controller_runs, _START_S
        )  # that of 26.05 goes on before its pid file is there

    def _pid(self, name: str) -> int:
        with suppress(OSError, ValueError):
            return int(self._pid_file(name).read_text())
        return 0

    def _kill(self, name: str, number: int) -> None:
        pid = self._pid(name)
        if not pid:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        with suppress(AssertionError):
            wait_until(lambda: _is_gone(pid), _END_S)
        if not _is_gone(pid):
            os.kill(pid, 9)
            wait_until(lambda: _is_gone(pid), _END_S)
        self._pid_file(name).unlink(missing_ok=True)

    def _configuration(self) -> str:
        host = socket.gethostname().partition(".")[0]
        first, root = self._port, self.root
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={first + 1 + i}"
            " CPUs=8 RealMemory=4000 Gres=gpu:fake:2 State=UNKNOWN"
            for i, node in enumerate(self.nodes)
        ]
        return "\n".join(
            [
                "ClusterName=test",
                f"SlurmctldHost={host}(127.0.0.1)",
                f"SlurmctldPort={first}",
                "SlurmUser=root",
                "SlurmdUser=root",
                "AuthType=auth/munge",
                # A requeue waits until the credential is over: 120 s by default, 6 is the least.
                f"AuthInfo=socket={root}/run/munge.sock,cred_expire=6",
                "CredType=cred/munge",
                f"StateSaveLocation={root}/state",
                f"SlurmdSpoolDir={root}/spool/%n",
                f"SlurmctldPidFile={root}/run/slurmctld.pid",
                f"SlurmdPidFile={root}/run/slurmd.%n.pid",
                f"SlurmctldLogFile={root}/log/slurmctld.log",
                f"SlurmdLogFile={root}/log/slurmd.%n.log",
                "ProctrackType=proctrack/linuxproc",
                "TaskPlugin=task/none",
                "MpiDefault=none",
                "SwitchType=switch/none",
                "SelectType=select/cons_tres",
                "SelectTypeParameters=CR_CPU_Memory",
                "DefMemPerCPU=100",
                # Heterogeneous jobs are started by the backfill scheduler only.
                "SchedulerType=sched/backfill",
                f"SchedulerParameters={','.join(_SCHEDULING)}",
                "SlurmdParameters=config_overrides",
                "ReturnToService=2",
                "KillWait=3",
                "TreeWidth=65533",  # no node is asked through another, which may be the one that is killed
                "SlurmdTimeout=10",
                "SlurmctldTimeout=10",
                "MessageTimeout=10",
                "BatchStartTimeout=10",
                "CompleteWait=0",
                f"MinJobAge={self._min_job_age_s}",
                "InactiveLimit=0",
                "JobRequeue=1",
                "GresTypes=gpu",
                "PreemptType=preempt/partition_prio",
                "PreemptMode=REQUEUE",
                *(
                    self.accounts.settings
                    if self.accounts
                    else ["AccountingStorageType=accounting_storage/none"]
                ),
                *nodes,
                f"PartitionName=main Nodes=n[1-{len(nodes)}] Default=YES PriorityTier=1 State=UP",
                f"PartitionName=urgent Nodes=n[1-{len(nodes)}] PriorityTier=2 State=UP",
                "",
            ]
        )


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _is_step(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "slurmstepd"
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
