"""Faults in elaborated designs: where they are found, what they change, how they are selected."""

import pytest
from amaranth import Array, Module, Mux, Signal
from amaranth.hdl import Elaboratable, Fragment
from amaranth.sim import Simulator

from hdl.accelerator.barrier import Barrier
from hdl.config import SwitchConfig
from mutation import faults
from mutation.faults import find, nearest, plant, select_bits

HERE = "tests/mutation/test_faults.py"
BARRIER = "hdl/accelerator/barrier.py"


class Sample(Elaboratable):
    """One of every kind of place that a fault can stand at."""

    def __init__(self):
        self.a, self.b = Signal(4), Signal(4)
        self.out = Signal(8)
        self.state = Signal(3)

    def elaborate(self, platform):
        m = Module()
        words = Array([self.a, self.b])
        more = Signal()
        m.d.comb += more.eq(self.a > self.b)
        with m.If((self.a == self.b) & ~more):
            m.d.comb += self.out.eq(words[self.state[0]] + 3)
            m.d.sync += self.state.eq(1)
        with m.Else():
            m.d.comb += self.out.eq(Mux(more, self.a, self.b))
        return m


def results(number=None, *, select=False):
    """Outputs of a `Sample` for a few inputs, with fault `number` of `find` (from 1)."""
    sample = Sample()
    fragment = Fragment.get(sample, None)
    if number is not None:
        listed = find(Fragment.get(Sample(), None), [HERE])
        if select:
            chosen = Signal(select_bits(len(listed)), init=number)
            assert plant(fragment, listed, chosen) == len(listed)
        else:
            assert plant(fragment, listed[number - 1 : number]) == bool(number)
    simulator = Simulator(fragment)
    simulator.add_clock(1e-6)
    seen = []

    async def bench(ctx):
        for a, b in [(3, 3), (5, 2), (1, 7), (4, 4)]:
            ctx.set(sample.a, a)
            ctx.set(sample.b, b)
            await ctx.delay(1e-8)
            seen.append((ctx.get(sample.out), ctx.get(sample.state)))
            await ctx.tick()

    simulator.add_testbench(bench)
    simulator.run()
    return seen


def test_every_kind_of_place_is_found():
    listed = find(Fragment.get(Sample(), None), [HERE])
    assert {fault.kind for fault in listed} == set(faults.KINDS)
    assert len({fault.key for fault in listed}) == len(listed)
    assert all(fault.file == HERE and fault.line for fault in listed)


def test_files_that_are_not_named_are_left_alone():
    assert find(Fragment.get(Sample(), None), [BARRIER]) == []


def test_looking_for_faults_changes_nothing():
    sample = Sample()
    fragment = Fragment.get(sample, None)
    before = find(fragment, [HERE])
    assert find(fragment, [HERE]) == before


COUNT = len(find(Fragment.get(Sample(), None), [HERE]))


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_a_fault_behind_a_select_is_the_fault(number):
    """The same as when it stands there alone, and different from none."""
    alone = results(number)
    assert results(number, select=True) == alone


def test_without_a_selected_fault_the_design_is_as_it_was():
    assert results(0, select=True) == results()


def test_most_faults_show():
    """Of those in a sample that computes something; a few need inputs that are not tried here."""
    plain = results()
    assert sum(results(number) != plain for number in range(1, COUNT + 1)) >= 0.8 * COUNT


def test_a_fault_keeps_its_key_in_another_configuration():
    small, tiny = (SwitchConfig.preset("tiny", ranks=ranks) for ranks in (2, 3))
    keys = [{f.key for f in find(Fragment.get(Barrier(c), None), [BARRIER])} for c in (small, tiny)]
    assert keys[0] < keys[1]


def test_where_there_are_fewer_ranks_another_place_is_taken():
    small, tiny = (
        Fragment.get(Barrier(SwitchConfig.preset("tiny", ranks=ranks)), None) for ranks in (2, 3)
    )
    listed = find(tiny, [BARRIER])
    third = next(f for f in listed if f.text.startswith("current =") and f.ordinal == 2)
    assert nearest(tiny, third) == third
    assert nearest(small, third).ordinal == 0
    assert plant(small, [nearest(small, third)]) == 1
    assert nearest(Fragment.get(Sample(), None), third) is None
