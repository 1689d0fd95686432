"""The last events of the accelerator's work in a ring of block RAM, for the host to read."""

from amaranth import Cat, Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from ..config import SwitchConfig
from ..registers import (
    TRACE_PAGE,
    TRACE_WINDOW_PAGE,
    RegisterBank,
    RegisterBus,
    join_buses,
    trace_registers,
)
from .trace import RankTrace, WaveTrace, trace_ports

__all__ = ["CYCLE_BITS", "WORD_BITS", "TraceBuffer", "record_fields", "record_words"]

#: Width of a record's time stamp.
CYCLE_BITS = 32
#: Width of a register, in which records are read.
WORD_BITS = 32


def record_fields(config: SwitchConfig) -> dict[str, int]:
    """What a record holds behind its time stamp, from the low bits up: trace port to width.

    Names are those of `trace_ports`: each event's strobe, and its numbers behind it.
    """
    groups = {"trace__": WaveTrace(config).members}
    ranks = range(config.ranks)
    groups |= {f"rank_trace__{rank}__": RankTrace(config).members for rank in ranks}
    shapes = {
        prefix + name: member.shape
        for prefix, members in groups.items()
        for name, member in members.items()
    }
    names = [name for event in trace_ports(config.ranks).items() for name in (event[0], *event[1])]
    return {name: Shape.cast(shapes[name]).width for name in names}


def record_words(config: SwitchConfig) -> int:
    """Words of 32 bits that a record takes in the window, time stamp first: a power of two."""
    bits = CYCLE_BITS + sum(record_fields(config).values())
    return 1 << ceil_log2(-(-bits // WORD_BITS))


class TraceBuffer(wiring.Component):
    """Keeps the last `trace_records` cycles in which the accelerator had an event.

    A record is a cycle: its time, and every event's strobe and numbers. So as many events as there
    are may share a cycle, and none is lost to another; what is lost is the oldest record to the
    newest, and whatever comes while the buffer is stopped or frozen. Both are counted.

    Members
    -------
    bus : registers, pages `TRACE_PAGE` and `TRACE_WINDOW_PAGE`
    now : cycles since reset
    trace, rank_trace : what is recorded
    ended : an operation is over and its flags are sent

    Timing
    ------
    One record a cycle. Events are registered on their way in, and a record is written one cycle
    behind its events. What a write to a register changes holds from the cycle behind the write on:
    events beside a ``clear`` are neither recorded nor missed. With the last of ``operations`` the
    buffer freezes in the cycle behind ``ended``; the flags' events are recorded.

    Reading
    -------
    Page `TRACE_WINDOW_PAGE` shows 256 words of the ring, part ``window`` of it, each record in
    `record_words` of them. Reading changes nothing, so any word may be read again. It is for a
    buffer that is stopped or frozen: one that records writes first, and what a read gives then is
    not told.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "bus": In(RegisterBus()),
                "now": In(CYCLE_BITS),
                "trace": In(WaveTrace(config)),
                "rank_trace": In(RankTrace(config)).array(config.ranks),
                "ended": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.registers = registers = RegisterBank(trace_registers(config), page=TRACE_PAGE)
        any_event, record = self._look(m)
        m.submodules.ring = ring = Memory(shape=len(record), depth=config.trace_records, init=[])
        writes, reads = ring.write_port(), ring.read_port()
        m.d.comb += [
            writes.addr.eq(registers.recorded),
            writes.data.eq(record),
            writes.en.eq(self._record(m, registers, any_event)),
            # Never both: with block RAMs that do not say what a read beside a write gives, that
            # would cost logic. While nothing is recorded every read is done.
            reads.en.eq(~writes.en),
        ]
        join_buses(m, self.bus, [registers.bus, self._show(m, registers.window, reads)])
        return m

    def _look(self, m):
        """The events of the cycle before: whether there are any, and their record."""
        fields = record_fields(self._config)
        seen = {name: Signal(width, name=f"seen_{name}") for name, width in fields.items()}
        cycle = Signal(CYCLE_BITS)
        m.d.sync += cycle.eq(self.now)
        for name, kept in seen.items():
            owner = self
            for part in name.split("__"):
                owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
            m.d.sync += kept.eq(owner)
        strobes = Cat(seen[name] for name in trace_ports(self._config.ranks))
        return strobes.any(), Cat(cycle, *seen.values())

    def _record(self, m, registers, any_event):
        """Count records, those that are missed, and operations; whether a record is written."""
        clear = registers.clear_written
        recorded, missed = Signal.like(registers.recorded), Signal.like(registers.missed)
        ended, frozen = Signal.like(registers.ended), Signal()
        # Of the cycle before, as the events are.
        since_clear, live = Signal(), Signal()
        write = Signal()
        limit = registers.operations
        m.d.comb += [
            frozen.eq((limit != 0) & (ended >= limit)),
            write.eq(any_event & live),
            registers.recorded.eq(recorded),
            registers.missed.eq(missed),
            registers.ended.eq(ended),
            registers.frozen.eq(frozen),
        ]
        m.d.sync += [
            since_clear.eq(~clear),
            live.eq(~clear & registers.record & ~frozen),
            recorded.eq(recorded + write),
            missed.eq(missed + (any_event & since_clear & ~live)),
            ended.eq(ended + (self.ended & ~frozen)),
        ]
        with m.If(clear):
            m.d.sync += [count.eq(0) for count in (recorded, missed, ended)]
        return write

    def _show(self, m, window, reads):
        """The part of the ring on the window's page; answers when a `RegisterBank` does."""
        bus = RegisterBus().create()
        words = record_words(self._config)
        word = Signal(range(words))
        asked, here, value = Signal(), Signal(), Signal(WORD_BITS)
        m.d.comb += reads.addr.eq(Cat(bus.word[len(word) :], window))
        m.d.sync += [
            word.eq(bus.word),
            here.eq(bus.page == TRACE_WINDOW_PAGE),
            asked.eq(bus.read),
            bus.known.eq(here),
            bus.read_data.eq(Mux(here & asked, value, 0)),
        ]
        with m.Switch(word):
            for number in range(-(-len(reads.data) // WORD_BITS)):
                with m.Case(number):
                    m.d.comb += value.eq(reads.data[WORD_BITS * number : WORD_BITS * (number + 1)])
        return bus
