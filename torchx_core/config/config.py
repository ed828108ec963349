"""The configuration as a whole: what files and environment say, the stronger over the weaker."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from torchx_core.compat import PREFIX
from torchx_core.config.files import find_configs, read_config_text
from torchx_core.config.ini import read_ini
from torchx_core.config.sections import CLI_RUN, TORCHX_SCHEDULERS, check_section, sections_of
from torchx_core.config.settings import ConfigFile, Origin, Setting
from torchx_core.config.values import CfgSetting, read_section, read_variable
from torchx_core.errors import did_you_mean
from torchx_core.registry import scheduler_factories
from torchx_core.specs import CfgVal, runopts, split_place

__all__ = ["Config", "RunDefaults", "parse_file", "read_config"]

T = TypeVar("T")
ENV_SCHEDULER: Final = "TORCHX_SCHEDULER"
_PREFIX: Final = "TORCHX_CFG_"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """What ``run`` uses where its command line says nothing; None for "not set"."""

    scheduler: str | None = None
    component: str | None = None
    workspace: str | None = None
    """The empty string asks for no workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What was read; made by `read_config`, and empty when made without arguments.

    Nothing is resolved: a scheduler's options are read when they are asked for, because only its runopts tell
    which there are, and of which types.
    """

    files: tuple[ConfigFile, ...] = ()
    """The strongest first."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables that stand for options, and were set."""

    def cfg(self, scheduler: str, opts: runopts, given: Mapping[str, CfgVal] = {}) -> dict[str, CfgVal]:
        """Return the options of a scheduler: those given, over the environment's, over the files'.

        A given None asks for the scheduler's default. Defaults are not filled in and nothing is required
        here: pass the result to ``runopts.resolve``, or to the runner.

        Args:
            scheduler: Its name.
            opts: Its options.
            given: What the caller asks for; taken as it is.

        Raises:
            InvalidConfigError: An unknown option, or a value that is not of the option's type.
        """
        chosen = {opts.canonical_key(name) or name for name in given}
        found = self._cfg_settings(scheduler, opts)
        return {key: setting.value for key, setting in found.items() if key not in chosen} | dict(given)

    def origins(self, scheduler: str, opts: runopts) -> dict[str, Origin]:
        """Return where each option that `cfg` adds to the given ones comes from.

        Raises:
            InvalidConfigError: As `cfg`.
        """
        return {key: setting.origin for key, setting in self._cfg_settings(scheduler, opts).items()}

    def _cfg_settings(self, scheduler: str, opts: runopts) -> dict[str, CfgSetting]:
        return _strongest(list(self._cfg_layers(scheduler, opts)))

    def _cfg_layers(self, scheduler: str, opts: runopts) -> Iterator[Mapping[str, CfgSetting]]:
        variable = variable_of(split_place(scheduler)[0])  # one for all places
        yield read_variable(variable, self.environment.get(variable, ""), opts)
        names = sections_of(scheduler, scheduler_factories())
        for section in (file.sections.get(name) for file in self.files for name in names):
            if section is not None:
                yield read_section(section, opts)

    def component_defaults(
        self, component: str, *, parameters: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the section ``[component:<component>]``, as text.

        Args:
            component: Its name, spelled as it is run.
            parameters: The names of its parameters, to refuse others here, where file and line are known.

        Raises:
            InvalidConfigError: An option that is none of the parameters.
        """
        settings = self.settings(f"component:{component}")
        for name, setting in settings.items():
            if parameters is not None and name not in parameters:
                known = ", ".join(parameters) or "none"
                raise setting.origin.error(
                    f"component {component} has no parameter {name!r}; known: {known}"
                    + did_you_mean(name, parameters)
                )
        return {name: setting.text for name, setting in settings.items()}

    def run_defaults(self) -> RunDefaults:
        """Return the section ``[cli:run]``, with the scheduler that the environment names over it."""
        text = {name: setting.text for name, setting in self.settings(CLI_RUN).items()}
        return RunDefaults(
            scheduler=self.environment.get(ENV_SCHEDULER) or text.get("scheduler") or None,
            component=text.get("component") or None,
            workspace=text.get("workspace"),
        )

    def settings(self, section: str) -> dict[str, Setting]:
        """Return a section as it is written, each option from the strongest file that has it."""
        return _strongest([f.sections[section].settings for f in self.files if section in f.sections])


def read_config(dirs: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read the configuration files and the environment.

    Args:
        dirs: Where to look for ``.torchxconfig``, the strongest first; None or nothing for ``$HOME``, then
            the working directory. Not looked at when ``$TORCHXCONFIG`` is set.
        environ: The environment; None for this process's.

    Raises:
        InvalidConfigError: A file cannot be read, or has a line, a section or an option that is not known; or
            a variable has options for an unknown scheduler. Run options are checked by `Config.cfg`.

    Example:
        >>> read_config(environ={"TORCHXCONFIG": "", "TORCHX_SCHEDULER": "local_cwd"}).run_defaults()
        RunDefaults(scheduler='local_cwd', component=None, workspace=None)
    """
    env = os.environ if environ is None else environ
    environment = select_environment(env)
    check_environment(environment, scheduler_factories())
    files = tuple(parse_file(read_config_text(path), path) for path in find_configs(dirs, env))
    return Config(files=files, environment=environment)


def parse_file(text: str, path: str) -> ConfigFile:
    """Return what the text of a file says.

    Raises:
        InvalidConfigError: A line, a section or an option is not known.
    """
    sections = read_ini(text, path)
    known = scheduler_factories()
    for section in sections.values():
        check_section(section, known)
    return ConfigFile(path=path, sections=sections)


def _strongest(layers: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """Return each key's value in the first layer that has it."""
    return dict(ChainMap(*map(dict, layers)))


def variable_of(scheduler: str) -> str:
    """Return the name of the variable with that scheduler's options.

    Example:
        >>> variable_of("local_cwd")
        'TORCHX_CFG_LOCAL_CWD'
    """
    return _PREFIX + re.sub("[^A-Z0-9]", "_", scheduler.upper())


def select_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables that are options; one set to nothing counts as not set."""
    return {k: v for k, v in environ.items() if v and (k == ENV_SCHEDULER or k.startswith(_PREFIX))}


def check_environment(environ: Mapping[str, str], schedulers: Iterable[str]) -> None:
    """Refuse options for a scheduler that does not exist.

    Args:
        environ: What `select_environment` returned.
        schedulers: The known ones; looked through for an unusual name only.

    Raises:
        InvalidConfigError: With the closest variable.
    """
    of_torchx = {variable_of(prefix + name) for name in TORCHX_SCHEDULERS for prefix in ("", PREFIX)}
    for name in environ.keys() - of_torchx - {ENV_SCHEDULER}:
        known = [variable_of(scheduler) for scheduler in schedulers]
        if name not in known:
            hint = did_you_mean(name, known)
            raise Origin(source=f"${name}").error(
                f"options for a scheduler that is not known; known: {', '.join(known)}{hint}"
            )
