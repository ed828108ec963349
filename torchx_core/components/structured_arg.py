"""Arguments of components that say two things in one: ``EXPERIMENT/RUN``, and ``NODESxPROCESSES``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import PurePath

from torchx_core.components.topology import parse_topology
from torchx_core.errors import InvalidInputError
from torchx_core.specs import resource

__all__ = ["StructuredJArgument", "StructuredNameArgument", "program_of"]


@dataclass
class StructuredNameArgument:
    """The names of an experiment and of a run in it."""

    experiment_name: str
    run_name: str

    def __str__(self) -> str:
        """Return the text that `parse_from` reads."""
        return f"{self.experiment_name}/{self.run_name}"

    @staticmethod
    def parse_from(
        name: str,
        m: str | None = None,
        script: str | None = None,
        default_experiment_name: str = "default-experiment",
    ) -> StructuredNameArgument:
        """Read the text; what it leaves out comes from the program that is run.

        Args:
            name: ``EXPERIMENT/RUN``, ``EXPERIMENT/``, ``/RUN``, ``/`` or ``RUN``.
            m: The module that is run.
            script: The file that is run.
            default_experiment_name: Where the text has none.

        Raises:
            InvalidInputError: Neither a module nor a file is given, or both are.

        Example:
            >>> str(StructuredNameArgument.parse_from("foo/", script="bar/baz.py"))
            'foo/baz'
        """
        program = program_of(script, m)
        experiment, slash, run = name.partition("/")
        if not slash:
            experiment, run = "", name
        return StructuredNameArgument(experiment or default_experiment_name, run or program)


@dataclass
class StructuredJArgument:
    """How many nodes, with how many processes each."""

    nnodes: int
    nproc_per_node: int

    def __str__(self) -> str:
        """Return the text that `parse_from` reads."""
        return f"{self.nnodes}x{self.nproc_per_node}"

    @staticmethod
    def parse_from(h: str, j: str) -> StructuredJArgument:
        """Read ``NODESxPROCESSES``, or ``NODES`` for a process per GPU of the host; warns of another number.

        Args:
            h: The name of a resource.
            j: The text.

        Raises:
            InvalidInputError: It has another form, or the host has no GPU to count.

        Example:
            >>> str(StructuredJArgument.parse_from("aws_p4d.24xlarge", "2"))
            '2x8'
        """
        topology = parse_topology(j, host=h)
        if topology.min_nodes != topology.max_nodes:
            raise InvalidInputError(f"malformed -j {j!r}; expected NODESxPROCESSES, as in 2x4")
        gpus = resource(h=h).gpu
        if topology.processes != gpus:
            warnings.warn(f"-j {j}: a node of {h} has {gpus} GPUs", stacklevel=2)
        return StructuredJArgument(topology.max_nodes, topology.processes)


def program_of(script: str | None, m: str | None) -> str:
    """Return the short name of the program.

    Raises:
        InvalidInputError: Neither is given, or both are.
    """
    if script and not m:
        return PurePath(script).stem
    if m and not script:
        return m.rpartition(".")[2]
    wrong = "Both main module and script set" if script else "No main module or script specified"
    raise InvalidInputError(f"{wrong}; give either --script or -m: script={script!r}, m={m!r}")
