"""Checks a proof, or that a planted fault breaks it: rows for tables and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from . import sby
from .proof import INDUCTION, Fault, Proof
from .specification import TRACE, Property

__all__ = ["BUILD", "FaultRow", "Row", "caught", "check"]

#: Where jobs run.
BUILD = Path("build") / "formal"

#: Results that are as they should be.
PROVED, HOLDS, REACHED = "proved", "bounded", "reached"
#: And those that are not.
FAILED, UNKNOWN, UNREACHED, TIMEOUT = "failed", "unknown", "unreached", "timeout"


@dataclass(frozen=True)
class Row:
    """What became of one property, or of its trace (mode "cover").

    Attributes
    ----------
    depth : cycles that the induction took, that were looked at, or of the trace
    seconds : of the job, which treats all properties of a proof together
    result : "proved", "bounded" or "reached"; or else "failed", "unknown" (not inductive),
        "unreached", "timeout"
    waveform : of what failed, or None
    """

    property: str
    component: str
    size: str
    engine: str
    mode: str
    depth: int
    seconds: float
    result: str
    proof: str
    meaning: str
    waveform: str | None = None

    @property
    def good(self) -> bool:
        return self.result in (PROVED, HOLDS, REACHED)

    def as_json(self) -> dict:
        fields = asdict(self)
        if self.waveform is None:
            del fields["waveform"]
        return fields


@dataclass(frozen=True)
class FaultRow:
    """A planted fault: ``caught_by`` names the properties that a trace breaks."""

    fault: str
    component: str
    proof: str
    caught_by: list[str]
    depth: int
    seconds: float

    @property
    def good(self) -> bool:
        return bool(self.caught_by)

    def as_json(self) -> dict:
        return asdict(self)


def check(proof: Proof, build: Path = BUILD) -> list[Row]:
    """Prove all properties, and reach all of their traces."""
    specification = proof.specify()
    rtlil = specification.to_rtlil()
    mode = sby.PROVE if proof.mode == INDUCTION else sby.BOUND
    rows = []
    folder = build / proof.name
    outcome = sby.run(sby.Job(rtlil, mode, proof.depth, proof.engine, proof.timeout), folder / mode)
    depth = outcome.induction or proof.depth
    for each in specification.properties:
        result = _result(proof, outcome, each)
        rows.append(_row(proof, each, proof.mode, depth, outcome, result))
    outcome = sby.run(
        sby.Job(rtlil, sby.COVER, proof.trace_depth, proof.engine, proof.timeout),
        folder / sby.COVER,
    )
    for each in specification.properties:
        step = outcome.reached.get(TRACE + each.name)
        missing = TIMEOUT if outcome.status == "TIMEOUT" else UNREACHED
        result, depth = (missing, proof.trace_depth) if step is None else (REACHED, step + 1)
        rows.append(_row(proof, each, sby.COVER, depth, outcome, result))
    return rows


def _result(proof: Proof, outcome: sby.Outcome, each: Property) -> str:
    if outcome.status == "PASS":
        return PROVED if proof.mode == INDUCTION else HOLDS
    if outcome.status == "FAIL":
        # A trace ends at what fails first; of the others nothing is known.
        return FAILED if each.name in outcome.failed else UNKNOWN
    return TIMEOUT if outcome.status == "TIMEOUT" else UNKNOWN


def _row(proof, each, mode, depth, outcome, result) -> Row:
    return Row(
        property=each.name,
        component=proof.component,
        size=proof.size,
        engine=proof.engine,
        mode=mode,
        depth=depth,
        seconds=outcome.seconds,
        result=result,
        proof=proof.name,
        meaning=each.meaning,
        waveform=outcome.trace if result in (FAILED, UNKNOWN) and mode != sby.COVER else None,
    )


def caught(proof: Proof, fault: Fault, build: Path = BUILD) -> FaultRow:
    """Plant `fault`; a property, not only a lemma, must fail within the proof's ``fault_depth``."""
    specification = proof.specify()
    specification.inside.plant(fault.at, fault.change)
    rtlil = specification.to_rtlil(lemmas=False)
    name = "fault-" + fault.name.replace(" ", "-")
    job = sby.Job(rtlil, sby.BOUND, proof.fault_depth, proof.engine, proof.timeout)
    outcome = sby.run(job, build / proof.name / name)
    return FaultRow(
        fault=fault.name,
        component=proof.component,
        proof=proof.name,
        caught_by=outcome.failed if outcome.status == "FAIL" else [],
        depth=proof.fault_depth,
        seconds=outcome.seconds,
    )
