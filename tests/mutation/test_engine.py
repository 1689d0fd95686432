"""Faults in compiled models: each is there when it is asked for, and only then."""

from unittest import mock

import pytest
from amaranth import Module
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl import stream as design
from hdl.config import SwitchConfig
from mutation.engine import EngineFaults
from mutation.faults import find
from sim.engines import create as engine_of
from sim.engines import cxxrtl
from sim.engines.build import find_compiler

HERE = "tests/mutation/test_engine.py"
CONFIG = SwitchConfig.preset("tiny")
INPUTS = [(3, 5), (5, 3), (7, 7)]

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="without a C++ compiler"),
    # A model that is there already is not elaborated.
    pytest.mark.filterwarnings("ignore:.*created but never used"),
]


class Sample(wiring.Component):
    """Two places for faults."""

    def __init__(self, config):
        self.config = config
        super().__init__({"a": In(4), "b": In(4), "total": Out(5), "more": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.a + self.b)
        m.d.comb += self.more.eq(self.a > self.b)
        return m


class Other(Sample):
    """What a test may put in the place of the design's own."""

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.total.eq(self.a)
        return m


class Top(Sample):
    """Has whatever the design's module has at that name."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.inside = inside = design.Sample(self.config)
        m.d.comb += [inside.a.eq(self.a), inside.b.eq(self.b)]
        m.d.comb += [self.total.eq(inside.total), self.more.eq(inside.more)]
        return m


def outputs(engine) -> list[tuple[int, int]]:
    seen = []
    for a, b in INPUTS:
        engine.set("a", a)
        engine.set("b", b)
        engine.step(1)
        seen.append((engine.get("total"), engine.get("more")))
    return seen


@pytest.fixture
def faults(tmp_path):
    listed = find(Fragment.get(Sample(CONFIG), None), [HERE])
    by_kind = {fault.kind: fault for fault in listed}
    chosen = [by_kind["plus and minus exchanged"], by_kind["bound off by one"]]
    return EngineFaults(chosen, tmp_path / "models")


def test_each_fault_is_in_the_one_model(faults):
    """Also in a model that is made again without a build, and behind a restart."""
    right = [(a + b, a > b) for a, b in INPUTS]
    expected = [
        right,
        [((a - b) % 32, a > b) for a, b in INPUTS],
        [(a + b, a >= b) for a, b in INPUTS],
    ]
    builds = mock.Mock(wraps=cxxrtl.build_library)
    with mock.patch.object(cxxrtl, "build_library", builds):
        for number in (1, 0, 2):
            with faults.planted(number), engine_of("cxxrtl", lambda: Sample(CONFIG)) as engine:
                assert outputs(engine) == expected[number]
                engine.restart()
                assert outputs(engine) == expected[number]
    assert builds.call_count == 1
    with engine_of("cxxrtl", lambda: Sample(CONFIG)) as engine:
        assert outputs(engine) == right
        assert len(engine.ports) == 4


def test_what_a_test_puts_into_the_design_is_another_model(faults):
    """By the names of the design's modules: the class and the configuration are the same."""
    with mock.patch.object(design, "Sample", Sample, create=True):
        before = make(faults)
    with mock.patch.object(design, "Sample", Other, create=True):
        after = make(faults)
    assert [total for total, _ in before] == [a + b for a, b in INPUTS]
    assert [total for total, _ in after] == [a for a, _ in INPUTS]


def make(faults) -> list[tuple[int, int]]:
    with faults.planted(0), engine_of("cxxrtl", lambda: Top(CONFIG)) as engine:
        return outputs(engine)
