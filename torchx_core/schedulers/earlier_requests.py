"""Reads a request that an earlier release wrote down as this release would have written the same request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Final, cast

from torchx_core.specs import CfgVal, runopts

__all__ = ["REQUEST_FORMAT", "in_former_words", "in_present_words"]

Json = Mapping[str, object]

REQUEST_FORMAT: Final[Mapping[str, object]] = {"format": 2}
"""Belongs to each request that is written down; those without it were written before there were formats."""

_FORMER_DEFAULTS: Final[Mapping[str, tuple[object, ...]]] = {"cpu": (1, 2), "gpu": (0,), "memMB": (1024,)}
"""What components asked for when nobody had asked for anything; they leave it open (-1) now."""
_FORMER_ENV: Final = "LOGLEVEL"
"""Components copied it from the submitter's environment."""


_FORMER_TEXTS: Final[Mapping[str, str]] = {
    """\
    sum=$$(printf %s "$$app $$TORCHX_ATTEMPT" | cksum)
    port=$$((20000 + $${sum%% *} % 10000))
""": """\
    port=$$TORCHX_RANK0_PORT
    if [ -z "$$port" ]; then
        sum=$$(printf %s "$$app $$TORCHX_ATTEMPT" | cksum)
        port=$$((20000 + $${sum%% *} % 10000))
    fi
"""
}
"""What an argument that a component writes said, and says now: the script by which `dist.torchrun` meets."""
_RANKS_BEGIN: Final = 'export TORCHX_RANK_PROGRAM="$$1"\n'
_RANKS_END: Final = "\ndone\n"
"""Between them that script, or one of a single node, has torchrun start ranks through a program of ours."""


def in_present_words(
    stored: Json, asked: Json, opts: runopts, former: Mapping[str, CfgVal] | None = None
) -> Json:
    """Return the stored request, with what is only written otherwise now as it is asked for now.

    Args:
        stored: ``app`` and ``cfg`` of the submit that came first, whatever release it was made with.
        asked: The same, of this one.
        opts: The scheduler's options; one that the stored request lacks is as good as its default.
        former: What such an option meant before there was one, where that is not its default.
    """
    cfg = _with_new_options(_object(stored, "cfg"), _object(asked, "cfg"), opts, former or {})
    app, now = _object(stored, "app"), _object(asked, "app")
    pairs = zip_longest(_objects(app, "roles"), _objects(now, "roles"))
    changed = _with_present_texts if "format" in stored else _role
    roles = [changed(one, other) for one, other in pairs if one is not None]
    found = {**stored, "cfg": cfg}
    return {**found, "app": {**app, "roles": roles}} if roles else found


def in_former_words(app: Json) -> Json:
    """Return the app with commands as components wrote them before they had programs of their own in them.

    An app id that follows from a request must not follow from the text of such a program: a retry with
    another release would not find the app.

    Args:
        app: As `AppDef.to_dict` has it.
    """
    return {
        **app,
        "roles": [{**role, **(_without_rank_program(role) or {})} for role in _objects(app, "roles")],
    }


def _with_new_options(stored: Json, asked: Json, opts: runopts, former: Mapping[str, CfgVal]) -> Json:
    defaults = {name: option.default for name, option in opts}
    new = {
        name: value
        for name, value in asked.items()
        if name not in stored and name in defaults and value in (defaults[name], former.get(name))
    }
    return {**stored, **new}


def _with_present_texts(stored: Json, asked: Json | None) -> Json:
    """Return the role with the present text of what a component's arguments say, where that is asked for."""
    if asked is None:
        return stored
    present = {**stored, "args": _present_args(stored.get("args"), asked.get("args"))}
    before = _without_rank_program(asked)
    if before and {**present, "args": _present_args(stored.get("args"), before["args"])} == {
        **present,
        **before,
    }:
        return {**present, "entrypoint": asked.get("entrypoint"), "args": asked.get("args")}
    return present


def _without_rank_program(asked: Json) -> Json | None:
    """Return how `dist.torchrun` started its program before it did so through one of ours; None of others."""
    args = asked.get("args")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in cast("list[object]", args)):
        return None
    flag, shell, *words = [*cast("list[str]", args), "", ""]
    meeting, found, rest = shell.partition(_RANKS_BEGIN)
    del words[-2:]
    if flag != "-c" or not found or _RANKS_END not in rest or "--" not in words:
        return None
    del words[5 if meeting else 1]  # the text of the program
    words.remove("--")
    if not meeting:
        return {"entrypoint": "torchrun", "args": words[1:]}
    return {"entrypoint": "sh", "args": ["-c", meeting + rest.partition(_RANKS_END)[2], *words]}


def _present_args(stored: object, wanted: object) -> object:
    if isinstance(stored, list) and isinstance(wanted, list):
        now = dict(enumerate(cast("list[object]", wanted)))
        stored = [_present_text(one, now.get(i)) for i, one in enumerate(cast("list[object]", stored))]
    return cast("object", stored)  # type: ignore[redundant-cast]  # pyright still sees a list of what is unknown


def _present_text(stored: object, asked: object) -> object:
    if isinstance(stored, str) and isinstance(asked, str):
        for former, present in _FORMER_TEXTS.items():
            if stored.replace(former, present) == asked:
                return asked
    return stored


def _role(stored: Json, asked: Json | None) -> Json:
    if asked is None:
        return stored
    found = dict(_with_present_texts(stored, asked))
    needs, wanted = _object(stored, "resource"), _object(asked, "resource")
    found["resource"] = {
        name: wanted[name] if wanted.get(name) == -1 and value in _FORMER_DEFAULTS.get(name, ()) else value
        for name, value in needs.items()
    }
    env = _object(stored, "env")
    if _FORMER_ENV not in _object(asked, "env"):
        found["env"] = {name: value for name, value in env.items() if name != _FORMER_ENV}
    mounts = zip_longest(_objects(stored, "mounts"), _objects(asked, "mounts"))
    found["mounts"] = [_mount(one, other) for one, other in mounts if one is not None]
    return found


def _mount(stored: Json, asked: Json | None) -> Json:
    """Return the mount with ``~`` at its start, which was replaced before the request was written down."""
    source = None if asked is None else asked.get("src_path")
    if not isinstance(source, str) or not source.startswith("~"):
        return stored
    same = stored.get("src_path") == os.path.expanduser(source)  # noqa: PTH111  (pathlib costs 8 ms)
    return {**stored, "src_path": source} if same else stored


def _object(value: Json, name: str) -> Json:
    found = value.get(name)
    return cast("Json", found) if isinstance(found, Mapping) else {}


def _objects(value: Json, name: str) -> list[Json]:
    found = value.get(name)
    if not isinstance(found, list) or not all(
        isinstance(each, Mapping) for each in cast("list[object]", found)
    ):
        return []  # a damaged record is compared as it is
    return cast("list[Json]", found)
