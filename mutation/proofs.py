"""Proofs as judges: one solver run looks for a trace that breaks a property, for every fault."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from formal import sby
from formal.proof import Proof
from formal.specification import Specification

from .faults import Fault, plant, select_bits

__all__ = ["broken_by"]

#: What comes before a fault's number in the name of its trace.
TRACE = "fault_"


def broken_by(proof: Proof, faults: Sequence[Fault], build: Path, *, seconds: int) -> dict:
    """Which of `faults` (from 1) a trace of the proof's cycles for mutants shows.

    Returns
    -------
    A dictionary of ``caught`` (numbers), ``planted`` (how many the proof's design has), ``depth``,
    ``seconds`` and ``ended``: whether the solver answered for all of them.
    """
    depth = proof.mutants_depth or proof.fault_depth
    specification = proof.specify()
    select, planted = _plant(specification, faults)
    rtlil = specification.to_rtlil(
        lemmas=False,
        breaking={f"{TRACE}{n}": select == n for n in range(1, len(faults) + 1)},
    )
    job = sby.Job(rtlil, sby.COVER, depth, proof.engine, seconds, waveforms=False)
    outcome = sby.run(job, build / proof.name)
    return {
        "proof": proof.name,
        "caught": sorted(
            int(name.removeprefix(TRACE)) for name in outcome.reached if name.startswith(TRACE)
        ),
        "planted": planted,
        "depth": depth,
        "seconds": outcome.seconds,
        "ended": outcome.status != "TIMEOUT",
    }


def _plant(specification: Specification, faults: Sequence[Fault]):
    """Put the faults into what is specified; the select, which is some constant, and how many."""
    select = specification.any_constant(select_bits(len(faults)), "planted_fault")
    return select, plant(specification.inside.fragment, faults, select)
