"""Accounting for a cluster of the tests' own: slurmdbd, and a MariaDB that only a socket reaches."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from daemons import start_daemon

from torchx_core.testing import wait_until

__all__ = ["SlurmAccounts", "why_no_accounts"]

_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb", "sacct", "sacctmgr")
_START_S = 180


def why_no_accounts() -> str:
    """Return why no accounting can be started here; empty when it can."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    return f"no Slurm accounting: needs {', '.join(missing)} (make slurm-cluster)" if missing else ""


class SlurmAccounts:
    """The daemons, and what the cluster's configuration says of them."""

    daemons = ("slurmdbd", "mariadbd")
    """In the order in which they are to end; each has its process id in ``run/NAME.pid``."""

    def __init__(self, root: Path, *, port: int, env: Mapping[str, str]) -> None:
        """Start nothing yet.

        Args:
            root: The cluster's directory; its munge is up before `start` is called.
            port: Where slurmdbd listens on the loopback device: it knows no sockets.
            env: What the daemons and the commands are started with.
        """
        self._root = root
        self._port = port
        # libmariadb takes its socket from there; slurmdbd.conf has no word for it.
        self._env = {**env, "MYSQL_UNIX_PORT": str(root / "run" / "mariadb.sock")}

    @property
    def settings(self) -> Sequence[str]:
        """Lines of ``slurm.conf``."""
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self._port}",
            f"AccountingStoragePass={self._root}/run/munge.sock",
            "AccountingStoreFlags=job_comment",
            "AccountingStorageTRES=gres/gpu",
        ]

    def start(self) -> None:
        """Start the database, then slurmdbd, and make the cluster known to it."""
        self._start_database()
        conf = self._root / "slurmdbd.conf"
        conf.write_text(self._configuration())
        conf.chmod(0o600)
        self.start_slurmdbd()
        self._call("sacctmgr", "--immediate", "add", "cluster", "test")

    def start_slurmdbd(self) -> None:
        """Start the daemon that sacct asks, perhaps again."""
        self._call("slurmdbd")
        wait_until(lambda: self._works("sacctmgr", "--noheader", "list", "cluster"), _START_S)

    def _start_database(self) -> None:
        data, log = self._root / "mariadb", self._root / "log"
        options = ["--no-defaults", "--user=root", f"--datadir={data}"]
        self._call(
            "mariadb-install-db", *options, "--skip-test-db", "--auth-root-authentication-method=normal"
        )
        server = [
            "mariadbd",
            *options,
            f"--socket={self._env['MYSQL_UNIX_PORT']}",
            f"--pid-file={self._root}/run/mariadbd.pid",
            "--skip-networking",
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",  # slurmdbd asks for it
        ]
        start_daemon(server, self._env, log / "mariadbd.log")
        wait_until(lambda: self._works("mariadb-admin", "--no-defaults", "--user=root", "ping"), _START_S)
        self._call("mariadb", "--no-defaults", "--user=root", f"--execute={_DATABASE}")

    def _configuration(self) -> str:
        root = self._root
        return "\n".join(
            [
                "AuthType=auth/munge",
                f"AuthInfo=socket={root}/run/munge.sock",
                "DbdHost=localhost",
                "DbdAddr=127.0.0.1",
                f"DbdPort={self._port}",
                "SlurmUser=root",
                f"LogFile={root}/log/slurmdbd.log",
                f"PidFile={root}/run/slurmdbd.pid",
                "StorageType=accounting_storage/mysql",
                "StorageHost=localhost",
                "StorageUser=slurm",
                "StoragePass=slurm",
                "StorageLoc=slurm",
                "",
            ]
        )

    def _works(self, *command: str) -> bool:
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            self._call(*command, timeout_s=20)
            return True
        return False

    def _call(self, *command: str, timeout_s: float = _START_S) -> None:
        done = subprocess.run(
            command,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}{done.stdout}")


_DATABASE = (
    "CREATE DATABASE slurm; CREATE USER slurm@localhost IDENTIFIED BY 'slurm';"
    " GRANT ALL ON slurm.* TO slurm@localhost"
)
