"""The proofs that take seconds; `python -m formal` makes them all."""

import pytest

from formal.check import caught, check
from formal.proofs import PROOFS

QUICK = [proof for proof in PROOFS.values() if proof.quick]
FAULTS = [(proof, fault) for proof in PROOFS.values() for fault in proof.faults]

#: Properties that the list must have at least.
LEAST = 30


@pytest.mark.parametrize("proof", QUICK, ids=lambda proof: proof.name)
def test_every_property_holds_and_is_not_vacuous(proof):
    bad = [f"{row.property} ({row.mode}): {row.result}" for row in check(proof) if not row.good]
    assert not bad


@pytest.mark.long
@pytest.mark.parametrize(
    ("proof", "fault"), FAULTS, ids=[f"{proof.name}: {fault.name}" for proof, fault in FAULTS]
)
def test_every_planted_fault_is_caught(proof, fault):
    assert caught(proof, fault).good


def test_every_component_has_a_fault_that_its_proof_must_catch():
    with_faults = {proof.component for proof in PROOFS.values() if proof.faults}
    assert {proof.component for proof in PROOFS.values()} == with_faults


def test_names_of_properties_and_faults_tell_them_apart():
    total = 0
    for proof in PROOFS.values():
        specification = proof.specify()
        specification.to_rtlil()
        names = [each.name for each in specification.properties]
        assert len(names) == len(set(names)), proof.name
        faults = [fault.name for fault in proof.faults]
        assert len(faults) == len(set(faults)), proof.name
        total += len(names)
    assert total >= LEAST


def test_the_same_design_gives_the_same_text():
    """So that an outcome is found again."""
    proof = PROOFS["barrier"]
    assert proof.specify().to_rtlil() == proof.specify().to_rtlil()
