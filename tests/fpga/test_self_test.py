# amaranth: UnusedElaboratable=no
# A prototype that is refused is made and not used.
"""The self-test passes on a sound system, again and again, and fails on each planted fault."""

import itertools
import shutil

import pytest
from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import fpga.prototype
import hdl.system
from fpga.pattern import Pattern
from fpga.prototype import Prototype
from fpga.self_test import Fault
from hdl.config import SwitchConfig
from hdl.interfaces import StorageSignature
from hdl.storage import BlockStorage
from hdl.transport.link import Link
from sim import engines

SMALL = SwitchConfig.preset(
    "tiny", ranks=2, waves=2, memory_bytes=1024, queue_depth=1, formats=("fp16",)
)
#: More cycles than a test of `SMALL` takes, the one that waits for a dead link included.
LIMIT = 30_000
#: Faults by number: none, four of a memory, and a link that carries nothing.
FAULTS = ("none", "read bit", "lost write", "write bit", "stray write", "dead link")

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="needs a C++ compiler"
)


class FaultyStorage(wiring.Component):
    """A memory whose flit `flit` has the fault that is chosen at run time."""

    def __init__(self, config, chosen, flit):
        super().__init__({"port": In(StorageSignature(config))})
        self._parameters = config, chosen, flit

    def elaborate(self, platform):
        config, chosen, flit = self._parameters
        m = Module()
        m.submodules.sound = sound = BlockStorage(config)
        outer, inner = self.port, sound.port
        fault = {name: chosen == number for number, name in enumerate(FAULTS)}
        read_before = Signal.like(outer.read_address)
        with m.If(outer.read_enable):
            m.d.sync += read_before.eq(outer.read_address)
        # Results are written a flit at a time, the fill an element at a time.
        result = Signal()
        m.d.comb += [
            result.eq(outer.write_strobe.all() & (outer.write_address == flit)),
            inner.read_enable.eq(outer.read_enable),
            inner.read_address.eq(outer.read_address),
            outer.read_data.eq(inner.read_data ^ (fault["read bit"] & (read_before == flit))),
            inner.write_enable.eq(outer.write_enable & ~(fault["lost write"] & result)),
            inner.write_address.eq(Mux(fault["stray write"] & result, 0, outer.write_address)),
            inner.write_data.eq(outer.write_data ^ ((fault["write bit"] & result) << 40)),
            inner.write_strobe.eq(outer.write_strobe),
        ]
        return m


class CuttableLink(Link):
    """A link that carries nothing while `cut`."""

    def __init__(self, config, cut):
        super().__init__(config)
        self._parameters = config, cut

    def elaborate(self, platform):
        config, cut = self._parameters
        m = Module()
        m.submodules.sound = sound = Link(config)
        m.d.comb += [
            sound.latency.eq(self.latency),
            sound.i.flit.eq(self.i.flit),
            sound.i.credit.eq(self.i.credit),
            sound.i.valid.eq(self.i.valid & ~cut),
            self.o.flit.eq(sound.o.flit),
            self.o.credit.eq(sound.o.credit),
            self.o.valid.eq(sound.o.valid),
        ]
        return m


class Bench(wiring.Component):
    """A prototype with faults to choose: one compiled model serves every test."""

    def __init__(self):
        super().__init__(
            {
                "start": In(1),
                "fault_chosen": In(range(len(FAULTS))),
                "rank": In(1),
                "busy": Out(1),
                "passed": Out(1),
                "failed": Out(1),
                "fault": Out(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.prototype = prototype = Prototype(SMALL)
        m.d.comb += prototype.button.eq(self.start)
        for name in ("busy", "passed", "failed", "fault"):
            m.d.comb += getattr(self, name).eq(getattr(prototype, name))
        return m


@pytest.fixture(scope="module")
def engine():
    """The bench, its self-test of power-up over."""
    bench, pattern, ranks = Bench(), Pattern(SMALL), itertools.count()

    def storage(config):
        rank = next(ranks)
        inside = pattern.address(rank) // SMALL.flit_bytes + 5
        return FaultyStorage(config, Mux(bench.rank == rank, bench.fault_chosen, 0), inside)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fpga.prototype, "BlockStorage", storage)
        cut = bench.fault_chosen == FAULTS.index("dead link")
        patch.setattr(hdl.system, "Link", lambda config: CuttableLink(config, cut))
        engine = engines.create("cxxrtl", lambda: bench)
    finish(engine)
    assert outcome(engine) == (1, 0, Fault.NONE)
    return engine


def finish(engine, limit: int = LIMIT):
    engine.step(3)  # the test begins within three cycles
    for _ in range(limit // 10):
        if not engine.get("busy"):
            return
        engine.step(10)
    raise AssertionError(f"self-test: still busy after {limit} cycles")


def outcome(engine) -> tuple[int, int, Fault]:
    return engine.get("passed"), engine.get("failed"), Fault(engine.get("fault"))


def again(engine):
    """Start a test; it takes down the last result."""
    engine.set("start", 1)
    engine.step()
    engine.set("start", 0)
    engine.step(2)
    assert engine.get("busy")
    assert outcome(engine) == (0, 0, Fault.NONE)
    finish(engine)


@needs_compiler
def test_it_passes_at_each_start(engine):
    for _ in range(3):
        again(engine)
        assert outcome(engine) == (1, 0, Fault.NONE)


@pytest.mark.long
@needs_compiler
def test_it_passes_without_a_host_and_at_each_press():
    with engines.create("cxxrtl", lambda: Prototype(SMALL, host=False)) as alone:
        assert "rx" not in {name.split("__")[0] for name in alone.ports}
        finish(alone)
        assert outcome(alone) == (1, 0, Fault.NONE)
        alone.set("button", 1)
        alone.step()
        alone.set("button", 0)
        alone.step(2)
        assert alone.get("busy")
        finish(alone)
        assert outcome(alone) == (1, 0, Fault.NONE)


def test_there_is_a_host_or_a_self_test():
    with pytest.raises(ValueError, match="host: must be there where the self-test is not"):
        Prototype(SMALL, host=False, self_test=False)


@needs_compiler
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", ["read bit", "lost write", "write bit", "stray write"])
def test_a_wrong_byte_in_a_memory_fails_and_the_next_test_passes(engine, fault, rank):
    engine.set("rank", rank)
    engine.set("fault_chosen", FAULTS.index(fault))
    again(engine)
    assert outcome(engine) == (0, 1, Fault.DATA)
    engine.set("fault_chosen", 0)
    again(engine)
    assert outcome(engine) == (1, 0, Fault.NONE)


@needs_compiler
def test_start_while_busy_is_ignored(engine):
    engine.set("start", 1)
    engine.step(2)
    begun = engine.cycle
    while engine.get("busy"):
        engine.step()
        assert engine.cycle < begun + LIMIT
        engine.set("start", 1 if engine.get("busy") else 0)
    engine.set("start", 0)
    assert outcome(engine) == (1, 0, Fault.NONE)


@needs_compiler
def test_a_dead_link_ends_in_a_time_out(engine):
    """The next test begins with a reset, so credits and packets that were lost are back."""
    engine.set("fault_chosen", FAULTS.index("dead link"))
    again(engine)
    assert outcome(engine) == (0, 1, Fault.TIME_OUT)
    engine.set("fault_chosen", 0)
    again(engine)
    assert outcome(engine) == (1, 0, Fault.NONE)


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("preset", ["arty", "ulx3s-85f"])
def test_the_boards_configurations_pass(preset):
    made = engines.create("cxxrtl", lambda: Prototype(SwitchConfig.preset(preset)))
    finish(made, 500_000)
    assert outcome(made) == (1, 0, Fault.NONE)
