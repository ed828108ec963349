"""One trial: an app is submitted, followed, disturbed, looked at when it is over, and deleted."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from actor import Document, documents, error_document, follow, read_chain
from backends import Backend, DockerBackend
from docker_proxy import DockerProxy, proxied
from judge import Call, Evidence, Promises
from scenarios import Attempt, Scenario
from truth import Copy, living, read_truth

from torchx_core import AppDef, AppStatus, Role, Runner
from torchx_core.specs import RetryPolicy, macros
from torchx_core.testing import wait_until

__all__ = ["Trial"]

T = TypeVar("T")
HERE = Path(__file__).parent


class Trial:
    """What a fault may use, and the evidence that is gathered."""

    def __init__(self, scenario: Scenario, backend: Backend, root: Path) -> None:
        """Prepare the truth's directory; nothing is submitted."""
        self.scenario = scenario
        self.backend = backend
        self.rng = random.Random(f"fault {scenario.seed}")
        self.root = root
        self.truth_dir = root / "truth"
        self.truth_dir.mkdir(parents=True)
        shutil.copy(HERE / "witness.py", self.truth_dir)
        self.set_script(scenario.script)
        self.env = {**os.environ, **backend.environment(root)}
        self.app_id = f"{scenario.fault}-{scenario.seed}"
        self.session = f"oracle-{zlib.crc32(bytes(root)):08x}"
        """Its own, so that a trial prunes no app of another one on the same engine."""
        self.handle = f"{backend.scheduler}://{self.session}/{self.app_id}"
        self.seen = Evidence()
        self.promises = Promises(
            max_retries={role.name: role.max_retries for role in scenario.roles},
            policies={role.name: role.policy for role in scenario.roles},
        )
        self.neighbours: list[subprocess.Popen[str]] = []
        self.request = root / "request.json"
        self.follows = True
        """Whether a chain of followers reads along; otherwise it begins when the app is over."""
        self.expects_app = True
        """False: the fault takes the app itself away, so that its end cannot be looked at."""
        self.tolerated: tuple[type[Exception], ...] = ()
        """Errors that the fault excuses."""
        self.proxy: DockerProxy | None = None
        """What stands between us and the engine, where a fault has put it there."""
        self._write_request()
        self._runner: Runner | None = None
        self._chain = threading.Thread(target=self._follow, daemon=True)
        self._is_cleaning = False
        self._last_words = ""
        self._stack = ExitStack()

    # --- what a fault uses

    @property
    def runner(self) -> Runner:
        """A runner in this process."""
        if self._runner is None:
            self._runner = self.backend.runner(self.session, self.root)
        return self._runner

    def submit(self) -> None:
        """Submit, in a process of its own where the app survives that, and wait for the answer."""
        if self.backend.survives_submitter:
            self.finish_submit(self.start_submit())
        else:
            request = json.loads(self.request.read_text())
            app, options = AppDef.from_dict(request["app"]), request["cfg"]
            scheduler, app_id = self.backend.scheduler, self.app_id
            self.call("submit", lambda: self.runner.run(app, scheduler, options, app_id=app_id))

    def start_submit(self, **request: object) -> subprocess.Popen[str]:
        """Start a process that submits; returns when it is about to."""
        path = self._write_request(**request) if request else self.request
        process = self.actor("submit", str(path))
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1) not in (b"\n", b""):
            pass  # by the byte: `readline` would take more, and keep it from `communicate`
        return process

    def finish_submit(
        self, process: subprocess.Popen[str], *, may_fail: bool = False, excused: tuple[str, ...] = ()
    ) -> bool:
        """Wait for the answer; returns whether there is an app now.

        Args:
            process: What submits.
            may_fail: Whether it may fail by an error of ours.
            excused: Other errors by which it may fail then.
        """
        words = self.last_words(process, "submit")
        if words is None:
            return False
        out, err = words
        answer = json.loads(out or '{"error": "killed", "ours": true, "text": ""}')
        if "handle" not in answer:
            bad = not (answer["ours"] or answer["error"] in excused)
            bad = bad or not (may_fail or process.returncode == -signal.SIGKILL)
            detail = f"{answer['text']} {err[-500:]} (exit code {process.returncode})"
            self.note("submit", answer["error"], ours=not bad, detail=detail)
        return "handle" in answer

    def actor(self, *words: str) -> subprocess.Popen[str]:
        """Start a process that does what `actor` says; it ends with the trial."""
        process = subprocess.Popen(
            [sys.executable, str(HERE / "actor.py"), *words],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.neighbours.append(process)
        return process

    def last_words(self, process: subprocess.Popen[str], what: str) -> tuple[str, str] | None:
        """Wait for a process, and return its output and errors; None when it hangs."""
        try:
            return process.communicate(timeout=self.backend.limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.note(what, "hung", hung=True)
            return None

    def submit_another(self) -> None:
        """Submit another app under the same id, which must be refused."""
        app = {**json.loads(self.request.read_text())["app"], "name": "another"}
        if self.finish_submit(self.start_submit(app=app), may_fail=True):
            self.note("submit", "took another app for the same", ours=False)

    def call(self, name: str, act: Callable[[], T], *errors: type[Exception]) -> T | None:
        """Do something that must neither hang nor raise anything but these, and note how it went."""
        box: list[T] = []
        problem: list[Document] = []

        def run() -> None:
            try:
                box.append(act())
            except (*errors, *self.tolerated):
                return
            except Exception as err:  # noqa: BLE001  # the judge decides
                problem.append({**error_document(err), "trace": traceback.format_exc(limit=-3)})

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.backend.limit_s)
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # to show where
            self.note(name, "hung", hung=True, detail="".join(traceback.format_stack(frame)[-2:]))
        for document in problem:
            self.note(name, document["error"], ours=False, detail=document["text"] + document["trace"])
        return box[0] if box else None

    def note(
        self, name: str, outcome: str, *, ours: bool = True, hung: bool = False, detail: str = ""
    ) -> None:
        """Note a call."""
        self.seen.calls.append(Call(name, outcome, ours, hung, detail))

    def cancel(self, **arguments: Any) -> str:
        """Cancel; returns the outcome."""
        outcome = self.call("cancel", lambda: self.runner.cancel(self.handle, **arguments))
        return outcome.name if outcome else ""

    def status(self) -> AppStatus | None:
        """Ask for the status."""
        return self.call("status", lambda: self.runner.status(self.handle))

    def is_over(self) -> bool:
        """Return whether the app is terminal."""
        status = self.status()
        return status is not None and status.is_terminal()

    @property
    def is_followed(self) -> bool:
        """Whether the chain of followers is still at work."""
        return self._chain.is_alive()

    def truth(self) -> list[Copy]:
        """Return what the witnesses noted so far."""
        return read_truth(self.truth_dir)

    def started(self) -> list[Copy]:
        """Wait for the first witness to start, or the app's end, and return all that have."""
        self.eventually(lambda: self.truth() or self.is_over(), "start")
        return self.truth()

    def eventually(self, condition: Callable[[], object], what: str) -> bool:
        """Wait for something that must come, and return whether it did; not coming is a hang."""
        try:
            wait_until(condition, self.backend.limit_s)
        except AssertionError:
            self.note(what, "never came", hung=True)
            return False
        return True

    def pause(self, most_s: float) -> None:
        """Let a random time pass."""
        with suppress(AssertionError):
            wait_until(lambda: False, self.rng.uniform(0, most_s))

    def excuse(self, state: str, *words: str) -> None:
        """Let the app end in the state, if its message has one of the words."""
        self.promises.may_end |= {state}
        self.promises.words += words

    def set_script(self, script: dict[str, list[Attempt]]) -> None:
        """Have the witnesses of the app that is submitted next do this."""
        (self.truth_dir / "script.json").write_text(json.dumps(script))

    def at_end(self, act: Callable[[], object]) -> None:
        """Do this when nothing of the trial runs any more."""
        self._stack.callback(act)

    def use_backend_of_its_own(self) -> None:
        """Start the backend once more, for this trial alone, so that it can be broken."""
        self.backend = type(self.backend)()
        root = Path(
            tempfile.mkdtemp(prefix="own-")
        )  # apart: what names the trial's folder is killed at its end
        self._stack.callback(shutil.rmtree, root, ignore_errors=True)
        self.backend.start(self._stack, root)
        self.env |= self.backend.environment(self.root)

    def put_between(self, backend: DockerBackend) -> DockerProxy:
        """Reach the engine through a proxy from now on."""
        path = Path(tempfile.mkdtemp(prefix="px-"))  # apart, and short
        self._stack.callback(shutil.rmtree, path, ignore_errors=True)
        proxy = self._stack.enter_context(proxied(path / "s", backend.engine.url))
        self.backend = backend.behind(proxy.url)
        self.env |= self.backend.environment(self.root)
        return proxy

    # --- the run

    def run(
        self, submit: Callable[[Trial], None] | None = None, disturb: Callable[[Trial], None] | None = None
    ) -> None:
        """Carry the trial out and gather the evidence."""
        try:
            (submit or Trial.submit)(self)
            if self.follows:
                self._chain.start()
            if disturb:
                disturb(self)
            if not self.expects_app:
                return
            if not self.follows:
                self.eventually(self.is_over, "end")
                self._chain.start()
            self._chain.join(self.backend.limit_s)
            if self._chain.is_alive():
                self.note("follow", "did not end", hung=True, detail=self._where_it_hangs())
                return
            self._look_back()
            self._delete()
        finally:
            self._clean()

    def _follow(self) -> None:
        """Follow by a chain of processes, the first of which are killed."""
        path = self.root / "chain"
        if not self.backend.survives_submitter:
            follow(json.loads(self.request.read_text()), self.handle, path, self.runner)
            self._take_chain(read_chain(path))
            return
        limits = iter(self.scenario.kills)
        while not self._is_cleaning and not _has_ended(read_chain(path), self.tolerated):
            process = self.actor("follow", str(self.request), self.handle, str(path))
            try:
                self._last_words = process.communicate(timeout=next(limits, None))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        if not self._is_cleaning:  # else it was we who ended the follower
            self._take_chain(read_chain(path))

    def _take_chain(self, chain: list[Document]) -> None:
        last: Document = chain[-1] if chain else {"error": "nothing", "ours": False, "text": ""}
        if "error" in last:
            ours = last["ours"] and not self.expects_app
            self.note("follow", last["error"], ours=ours, detail=last["text"])
        self.seen.chains["follow"] = [event for batch in chain for event in batch["events"]]

    def _where_it_hangs(self) -> str:
        """Have the follower show where it is, and end it."""
        state = self.status()
        self._is_cleaning = True
        for number in (signal.SIGCONT, signal.SIGUSR1):
            self.neighbours[-1].send_signal(number)
        self.pause(2.0)  # a deadly signal that comes at once would be served first
        self.neighbours[-1].terminate()
        self._chain.join()
        return f"of an app that is {state.state if state else 'gone'}: {self._last_words[-1500:]}"

    def _look_back(self) -> None:
        """Look at the ended app by every interface."""
        with suppress(AssertionError):
            wait_until(lambda: not living(self.truth_dir), self.backend.settle_s)
        self.seen.alive = living(self.truth_dir)
        self._read_again()
        status = self.status()
        if status is not None:
            self.seen.statuses["status"] = status.to_json()
        if self.scenario.by_program and self.backend.survives_submitter:
            answer = self.program("status", self.handle)
            self.seen.statuses["program"] = (
                answer[0] if answer else {"state": "nothing", "roles": [], "msg": ""}
            )
            self.seen.logs["program"] = self.program("log", self.handle)

    def _read_again(self) -> None:
        """Follow once more, from a cursor in the middle of the chain."""
        chain = [batch for batch in read_chain(self.root / "chain") if batch["cursor"]]
        if not chain:
            return
        place = self.rng.randrange(len(chain))
        before = [event for batch in chain[: place + 1] for event in batch["events"]]

        def rest() -> list[Document]:
            batches = self.runner.follow(self.handle, chain[place]["cursor"])
            return [document for batch in batches for document in documents(batch)]

        after = self.call("follow again", rest)
        if after is not None:
            self.seen.chains["again"] = before + after

    def program(self, *words: str) -> list[Document]:
        """Run ``torchx-core`` and return the documents that it printed."""
        command = [sys.executable, "-m", "torchx_core", words[0], "--json", *words[1:]]
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=self.backend.limit_s, check=False
        )
        if done.returncode not in {0, *range(2, 6)}:
            self.note(" ".join(words), f"exit {done.returncode}", ours=False, detail=done.stderr[-800:])
        with suppress(ValueError):
            whole = json.loads(done.stdout)
            return whole if isinstance(whole, list) else [whole]
        return [json.loads(line) for line in done.stdout.splitlines()]

    def _delete(self) -> None:
        self.call("delete", lambda: self.runner.delete(self.handle))
        if self.status() is not None:
            self.seen.left.append("the status")
        self.seen.left += self.backend.left(self.root, self.app_id)

    def _clean(self) -> None:
        """End whatever is left of the trial."""
        self._is_cleaning = True
        for process in self.neighbours:
            process.kill()
        if self._chain.ident:
            self._chain.join()
        if self._runner is not None:
            self._runner.close()
        with self._stack:
            self.backend.clean(self.root, self.app_id, self.truth())

    # --- small things

    def _write_request(self, **changes: object) -> Path:
        request = {
            "app": self._app().to_dict(),
            "scheduler": self.backend.scheduler,
            "session": self.session,
            "cfg": self.backend.cfg(self.scenario.cfg),
            "app_id": self.app_id,
            "follow": {"batch_bytes": self.scenario.batch_bytes},
            **changes,
        }
        path = self.root / ("changed.json" if changes else "request.json")
        path.write_text(json.dumps(request))
        return path

    def set_request(self, **changes: Any) -> None:
        """Change the request before it is submitted: options of the app, or of following."""
        request = json.loads(self.request.read_text())
        for name, value in changes.items():
            request[name] = {**request[name], **value} if isinstance(value, dict) else value
        self.request.write_text(json.dumps(request))

    def _app(self) -> AppDef:
        witness = [f"{self.truth_dir}/witness.py", str(self.truth_dir)]
        return AppDef(
            "oracle",
            [
                Role(
                    role.name,
                    entrypoint="python3",
                    args=["-S", "-E", *witness, role.name, macros.replica_id],
                    num_replicas=len(role.scripts),
                    max_retries=role.max_retries,
                    retry_policy=RetryPolicy[role.policy],
                    **self.backend.role(self.truth_dir),
                )
                for role in self.scenario.roles
            ],
        )


def _has_ended(chain: list[Document], tolerated: tuple[type[Exception], ...]) -> bool:
    """Return whether the last follower ended by itself, and not by an error after which one tries again."""
    names = {error.__name__ for error in tolerated}
    return bool(chain) and not chain[-1]["cursor"] and chain[-1].get("error") not in names
