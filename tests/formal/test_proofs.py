# amaranth: UnusedElaboratable=no
"""The proofs that take seconds; `python -m formal` makes them all."""

import re
from collections import defaultdict

import pytest
from amaranth.lib import wiring

from formal.check import caught, check
from formal.proofs import PROOFS
from formal.streams import COMPOSED, WITHDRAWN, streams
from hdl.building.components import COMPONENTS as NAMED
from hdl.building.errors import BuildError
from mutation.components import EVERYTHING, INQ, SHARED, TRACED

QUICK = [proof for proof in PROOFS.values() if proof.quick]
FAULTS = [(proof, fault) for proof in PROOFS.values() for fault in proof.faults]

#: Properties that the list must have at least.
LEAST = 30


def _proved():
    """Names of properties, by their component's class."""
    found = defaultdict(set)
    for proof in PROOFS.values():
        specification = proof.specify()
        specification.to_rtlil()
        found[proof.component] |= {each.name for each in specification.properties}
    return found


PROVED = _proved()


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


#: Between them they have every component, with every port.
CONFIGURATIONS = (EVERYTHING, INQ, SHARED, TRACED)


@pytest.mark.parametrize("name", NAMED)
def test_every_stream_keeps_the_contract_by_proof_or_is_listed(name):
    """By its component's proof, property by property; or its component is made of such."""
    made = [each for config in CONFIGURATIONS if (each := created(name, config))]
    assert made
    kind = type(made[0]).__name__
    offered = {port for each in made for port, _ in streams(each, wiring.Out)}
    if not offered or kind in COMPOSED:
        return
    for port in offered:
        withdrawn = kind in WITHDRAWN and port.endswith("head")
        assert withdrawn or names_stream(PROVED[kind], port), (kind, port)


def created(name, config):
    try:
        made = NAMED[name].create(config)
    except BuildError:  # not of this configuration
        return None
    made._MustUse__used = True  # asked for its ports alone
    return made


def names_stream(properties, port):
    """Small proofs have fewer ranks; of one port alone they do not name it."""
    port = re.sub(r"_[0-9]+_", "_0_", port)
    silent = port.endswith("payload") and any("no_payload" in each for each in properties)
    return silent or any(
        each in ("stream_contract", f"stream_contract_of_{port}", f"{port}_is_silent")
        for each in properties
    )


def test_the_same_design_gives_the_same_text():
    """So that an outcome is found again."""
    proof = PROOFS["barrier"]
    assert proof.specify().to_rtlil() == proof.specify().to_rtlil()
