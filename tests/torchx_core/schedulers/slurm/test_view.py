"""How an app stands, told as a status, and the last record of one that is over."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from torchx_core.schedulers.slurm.decide import Decision
from torchx_core.schedulers.slurm.facts import Attempt, Facts, Figures
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.schedulers.slurm.view import FinalFile, dump_final, load_final
from torchx_core.specs import AppDef, AppState, Resource, Role, Usage
from torchx_core.supervisor.shape import Misshapen, build

MB = 1 << 20
APP = AppDef("a", [Role("w", "", entrypoint="true", num_replicas=2, resource=Resource(1, 0, 512))])
RECORD = AppRecord(
    "/nowhere",
    {"replicas": [["w", 0, "/l/0"], ["w", 1, "/l/1"]], "asked": {"app": APP.to_dict(), "cfg": {}}},
)
ATTEMPTS = [
    [
        Attempt(number=0, run=0, host="n1", started_at=1.0, ended_at=3.0, code=1, figures=Figures(1.5, 300)),
        Attempt(
            number=1,
            run=0,
            host="n1",
            started_at=4.0,
            ended_at=5.0,
            code=137,
            figures=Figures(0.5, 510, True),
        ),
    ],
    [Attempt(number=0, run=0, host="n2", started_at=1.0)],
]


def _final() -> dict[str, Any]:
    facts = Facts(
        job_id="7",
        submitted_at=0.0,
        submitting=False,
        runs=[],
        attempts=ATTEMPTS,
        restarts=0,
        stop=None,
        all_left=True,
    )
    decision = Decision(AppState.FAILED, "so it is")
    return cast(
        "dict[str, Any]", json.loads(json.dumps(dump_final(decision, facts, ended_at=5.0, result=None)))
    )


def _loaded(record: dict[str, Any]) -> list[Usage]:
    final = build(FinalFile, {name: record[name] for name in FinalFile._fields if name in record})
    return [replica.usage for replica in load_final(RECORD, final).status.roles[0].replicas]


def test_what_was_used_survives_in_the_last_record() -> None:
    """Added up over the attempts; what runs has used nothing that is known. The reason stays, too."""
    record = _final()
    usage = Usage(cpu_s=2.0, wall_s=3.0, memory_peak_bytes=510 * MB, memory_limit_bytes=512 * MB)
    assert _loaded(record) == [usage, Usage()]
    final = build(FinalFile, {name: record[name] for name in FinalFile._fields})
    [first, _] = load_final(RECORD, final).status.roles[0].replicas
    assert first.msg == "out of memory: peak 510 MB of 512 MB allowed by memMB"


def test_a_last_record_of_the_release_before_is_read() -> None:
    """It has no figures; and of what that release reads there is no field that it lacks."""
    record = _final()
    assert {name for row in record["attempts"] for one in row for name in one} == {
        "number",
        "run",
        "host",
        "started_at",
        "ended_at",
        "code",
        "told",
    }
    del record["figures"]
    assert _loaded(record) == [Usage(wall_s=3.0, memory_limit_bytes=512 * MB), Usage()]


DAMAGES: list[object] = [7, [3], [[3]], [[{"cpu_s": "x"}]], [[], [{}, {}]], [[], [], [{}]]]


@pytest.mark.parametrize("figures", DAMAGES)
def test_damaged_figures_are_told(figures: object) -> None:
    """Nothing is made up."""
    with pytest.raises(Misshapen):
        _loaded({**_final(), "figures": figures})
