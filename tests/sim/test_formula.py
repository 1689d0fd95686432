"""The closed form against the design, and the acceptance figures of the prototype preset."""

import pytest

from hdl.config import SwitchConfig
from sim.activations import load
from sim.formula import data_cycles, first_wave_stages, wave_cycles
from sim.testbed import Testbed

KIB, MIB = 1 << 10, 1 << 20
#: Cycles of the prototype's published 2.62 us for 4 KiB, at 250 MHz.
PAPER_4_KIB_CYCLES = 655
#: Share of the bound that long messages must reach.
LEAST_OF_BOUND = 0.98
#: Cycles by which the closed form may miss a run.
TOLERANCE = 2


def measured(testbed: Testbed, size: int) -> int:
    outcome = testbed.all_reduce(load(testbed.config.ranks, size // 2, "fp16"), "fp16")
    assert outcome.status == "ok", outcome
    return outcome.figures.data


def test_stages_of_the_prototype_add_up():
    config = SwitchConfig.preset("paper-fpga")
    link = 4 * config.link_latency
    wire = 2 * (config.wave_flits + config.header_flits)
    first = sum(stage.cycles for stage in first_wave_stages(config))
    # What is neither link nor wire is memory, reducer and registers: 32 cycles at most.
    assert link + wire < first <= link + wire + 32
    assert wave_cycles(config) == 130


@pytest.mark.parametrize("size", [0, -4096, 100, 4097])
def test_only_whole_waves(size):
    with pytest.raises(ValueError, match="bytes: must be whole waves of 4096 bytes, not"):
        data_cycles(SwitchConfig.preset("paper-fpga"), size)


def test_headers_of_two_flits():
    """The first waves, which meet no responses yet, follow each other faster than later ones."""
    config = SwitchConfig.preset("tiny")
    responses = config.packets_per_wave * config.header_flits
    with Testbed(config) as testbed:
        for waves in (1, 2, 3, 12):
            size = waves * config.wave_bytes
            early = data_cycles(config, size) - measured(testbed, size)
            assert -TOLERANCE <= early <= (responses if waves > 1 else TOLERANCE), waves


@pytest.mark.long
def test_several_packets_a_wave():
    config = SwitchConfig.preset("demo")
    with Testbed(config) as testbed:
        for waves in (1, 2, 4, 12, 48):
            size = waves * config.wave_bytes
            assert abs(measured(testbed, size) - data_cycles(config, size)) <= TOLERANCE, waves


@pytest.mark.long
def test_prototype():
    config = SwitchConfig.preset("paper-fpga")
    with Testbed(config) as testbed:
        for size in (4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB):
            assert abs(measured(testbed, size) - data_cycles(config, size)) <= TOLERANCE
        assert measured(testbed, 4 * KIB) <= PAPER_4_KIB_CYCLES
        size = 16 * MIB
        utilization = config.payload_cycles(size) / measured(testbed, size)
        assert utilization >= LEAST_OF_BOUND * config.utilization_bound(size)
