"""Workspaces: files of this host as a thin layer on a role's image.

The layer is named after what it follows from: the name of the image beneath, the recipe and the files. So the
name is known before anything is built, equal workspaces share one layer, and building is done once.

The image beneath counts by its name only, because a dry run asks no engine. When that name has come to mean
another image on the engine (a newer ``latest``), the layer is built anew under its old name: each layer's
label says what it stands on. Apps that run keep what they were started with.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, cast

from torchx_core.errors import InvalidRunConfigException, SchedulerError
from torchx_core.schedulers.docker.answers import Json, Refused
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.workspaces import Entry, digest, walk
from torchx_core.schedulers.workspaces.build_context import COPY_ALL, archive, has_recipe
from torchx_core.schedulers.workspaces.files import DOCKERFILE
from torchx_core.specs import CfgVal, Role, Workspace

__all__ = ["build_workspace", "is_local_layer", "prune_workspaces", "workspace_image"]

IGNORE_FILE = ".dockerignore"
LABEL = "torchx-core.workspace"
"""Label of every layer; the value is its digest."""
LABEL_BASE = "torchx-core.workspace-base"
"""Label: the id of the image beneath, when it was on the engine."""

_LOCAL_REPO = "torchx-workspace"
_REPO = re.compile(r"[a-z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_ENGINES_OWN = (" ---> ", "Removing intermediate container ")
_LAST_LINES = 5

logger: Final = logging.getLogger(__name__)


def workspace_image(role: Role, cfg: Mapping[str, CfgVal]) -> str:
    """Return the name that `build_workspace` will give the role's image; reads files, asks no engine.

    Raises:
        InvalidAppError: A project does not exist or cannot be read.
        InvalidRunConfigException: ``image_repo`` is no repository.
    """
    return _name(_entries(role), role, cfg)


def is_local_layer(image: str) -> bool:
    """Return whether the image is a layer that was built on the engine and is in no registry to pull from."""
    return image.startswith(f"{_LOCAL_REPO}:")


def build_workspace(engine: Engine, role: Role, cfg: Mapping[str, CfgVal]) -> str:
    """Return the name of the role's image with its workspace in it; build and push it where needed.

    Two callers at once both build, which does no harm: the name then stands for either of two equal images.

    Args:
        engine: Who builds.
        role: Its image is the one beneath.
        cfg: ``image_repo`` (push there), ``quiet`` (keep the build's output out of the log), ``pull``.

    Raises:
        InvalidAppError: A project does not exist or cannot be read.
        SchedulerError: A step of the recipe failed, the image cannot be pulled or pushed, or (retryable) the
            files changed meanwhile.
    """
    entries = _entries(role)
    name = _name(entries, role, cfg)
    there = _inspect(engine, name)
    base_id = _base(engine, role.image, str(cfg.get("pull")), needed=there is None)
    if there is None and base_id is None:
        raise SchedulerError(f"cannot build on image {role.image}: the engine has none, and pull=never")
    if there is None or base_id not in {None, _labels(there).get(LABEL_BASE)}:
        _build(engine, entries, name, role, base_id or "", quiet=bool(cfg.get("quiet")))
        _check_unchanged(engine, role, cfg, name)
    if cfg.get("image_repo"):
        with engine.asked(failure := f"cannot push image {name}"):
            _finish(engine.api.push(name, stream=True, decode=True), failure)
    return name


def prune_workspaces(engine: Engine, older_than_s: int = 3600) -> list[str]:
    """Remove the layers that no container uses and return their names.

    The engine does this for one client at a time: while another is at it, nothing is removed.

    Args:
        engine: The engine.
        older_than_s: Younger layers stay: their app may be about to be submitted.
    """
    filters: dict[str, object] = {"dangling": False, "label": [LABEL]}
    if older_than_s:
        filters["until"] = f"{older_than_s}s"
    try:
        with engine.asked("cannot remove workspaces that nobody uses"):
            answer = engine.api.prune_images(filters)
    except Refused as err:
        if err.conflict:
            return []
        raise
    deleted = cast("list[dict[str, str]] | None", answer.get("ImagesDeleted")) or []
    return [entry["Untagged"] for entry in deleted if "Untagged" in entry]


def _entries(role: Role) -> list[Entry]:
    """Return the files; the ignore file has done its work and would be applied by the engine once more."""
    workspace = role.workspace or Workspace({})
    return [entry for entry in walk(workspace, IGNORE_FILE) if entry[0] != IGNORE_FILE]


def _name(entries: list[Entry], role: Role, cfg: Mapping[str, CfgVal]) -> str:
    repo = str(cfg.get("image_repo") or _LOCAL_REPO)
    if not _REPO.fullmatch(repo):
        problem = f"image_repo must be a repository without a tag, like example.com/team/app: {repo!r}"
        raise InvalidRunConfigException(problem, "image_repo", cfg)
    return f"{repo}:{digest(entries, role.image, COPY_ALL)}"


def _base(engine: Engine, image: str, policy: str, *, needed: bool) -> str | None:
    """Return the id of the image beneath, pulled if the policy says so; None when it is not there."""
    found = _inspect(engine, image)
    if policy == "always" or (found is None and needed and policy != "never"):
        engine.pull(image)
        found = _inspect(engine, image)
    return None if found is None else str(found["Id"])


def _build(engine: Engine, entries: list[Entry], name: str, role: Role, base_id: str, *, quiet: bool) -> None:
    texts, arguments = _recipe(entries, role)
    logger.info("building the workspace of role %s on image %s", role.name, role.image)
    with engine.asked(failure := f"cannot build the workspace of role {role.name!r} on image {role.image}"):
        steps = engine.api.build(
            fileobj=archive(entries, texts),
            custom_context=True,
            dockerfile=DOCKERFILE,
            tag=name,
            buildargs=arguments,
            labels={LABEL: name.rpartition(":")[2], LABEL_BASE: base_id},
            rm=True,
            forcerm=True,
            decode=True,
        )
        _finish(steps, failure, quiet=quiet)


def _check_unchanged(engine: Engine, role: Role, cfg: Mapping[str, CfgVal], name: str) -> None:
    """Take the name back from a layer that is not what it says: it would mislead everybody after us."""
    if workspace_image(role, cfg) == name:
        return
    with engine.asked(f"cannot remove image {name}"):
        engine.api.remove_image(name)
    raise SchedulerError(
        f"the workspace of role {role.name!r} changed while its image was built; submit again", retryable=True
    )


def _recipe(entries: list[Entry], role: Role) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files that we add to the archive, which stay out of the image, and the build's arguments."""
    if has_recipe(entries):
        return {IGNORE_FILE: f"{IGNORE_FILE}\n"}, {"IMAGE": role.image, "WORKSPACE": str(role.workspace)}
    return {IGNORE_FILE: f"{IGNORE_FILE}\n{DOCKERFILE}\n", DOCKERFILE: COPY_ALL}, {"IMAGE": role.image}


def _finish(steps: Iterable[Json], failure: str, *, quiet: bool = True) -> None:
    """Read the engine's reports to their end.

    Raises:
        SchedulerError: One of them is an error; the message has the step and the last lines before it.
    """
    step = failed = ""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    for report in steps:
        for line in _COLOUR.sub("", str(report.get("stream", ""))).splitlines():
            if not quiet and line.strip():
                logger.info("%s", line.rstrip())
            if line.startswith("Step "):
                step = line
                last.clear()
            elif line.strip() and not line.startswith(_ENGINES_OWN):
                last.append(line.strip())
        failed = failed or str(report.get("error", "")).strip()
    # Raised only now: what is not read to its end keeps the connection.
    if failed:
        raise SchedulerError(": ".join(text for text in (failure, step, failed, "; ".join(last)) if text))


def _inspect(engine: Engine, image: str) -> Json | None:
    """Return the image as the engine has it, or None."""
    try:
        with engine.asked(f"cannot look for image {image}"):
            return engine.api.inspect_image(image)
    except Refused as err:
        if not err.not_found:
            raise
        return None


def _labels(image: Json) -> Mapping[str, str]:
    config = cast("Json", image.get("Config") or {})
    return cast("Mapping[str, str]", config.get("Labels") or {})
