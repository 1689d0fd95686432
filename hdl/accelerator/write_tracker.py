"""Waves in their write phase: who has acknowledged, and which wave is done."""

from amaranth import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Response
from ..stream import delayed
from .layouts import slot_bits, write_slot_bits

__all__ = ["WriteTracker"]


class WriteTracker(wiring.Component):
    """A ring of `write_waves` slots that count a wave's unanswered write packets, port by port.

    Members
    -------
    slot_free, write_slot : the slot that the next wave opens
    open, operation : a wave of this operation starts (with its first packet, if it has any)
    packet : a packet of the wave in the newest slot starts, at every port
    ranks : ports that the packets go to, where that may be some
    scale_packets : with ``open``, packets of scales that will follow the wave's others (where
        quantized operations are built)
    close, close_last, written : the wave has no more packets; it is its operation's last; it
        was written
    acknowledge, acknowledged_slot, response : by port, a write response
    stray : by port, it answers nothing
    retire, retire_operation, retire_last, retire_written : the oldest wave is acknowledged by all
    write_error : by port, an acknowledgement has an error; ``error_operation`` names the operation
    writing : waves in their write phase
    flush : waves retire without being acknowledged, where contexts outlive failures
    late : ports whose acknowledgements the oldest wave waits for; likewise

    Timing
    ------
    A wave retires in the cycle after its last acknowledgement, at most one a cycle, in order.
    Acknowledgements of a wave, and of several waves, come in any order. With register slices what
    starts and closes counts a cycle later, so a wave retires no sooner than two cycles behind its
    ``close``.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks = config.ranks
        self._slot_bits = write_slot_bits(config)
        operation = slot_bits(config)
        members = {
            "slot_free": Out(1),
            "write_slot": Out(self._slot_bits),
            "open": In(1),
            "operation": In(operation),
            "packet": In(1),
            "close": In(1),
            "close_last": In(1),
            "written": In(1),
            "acknowledge": In(ranks),
            "acknowledged_slot": In(self._slot_bits).array(ranks),
            "response": In(Response).array(ranks),
            "stray": Out(ranks),
            "retire": Out(1),
            "retire_operation": Out(operation),
            "retire_last": Out(1),
            "retire_written": Out(1),
            "write_error": Out(ranks),
            "error_operation": Out(operation).array(ranks),
            "writing": Out(range(config.write_waves + 1)),
        }
        if config.subsets:
            members["ranks"] = In(ranks)
        if config.recovers:
            members |= {"flush": In(1), "late": Out(ranks)}
        if config.quantizes:
            members["scale_packets"] = In(range(config.scale_packets + 1))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        slots = range(config.write_waves)
        newest = self.write_slot
        oldest = Signal(self._slot_bits)
        operations = Array(Signal(slot_bits(config), name=f"operation_{s}") for s in slots)
        closed = Signal(config.write_waves)
        last = Signal(config.write_waves)
        written = Signal(config.write_waves)
        # Of packets and waves these are counted; which slot is open and free is known at once.
        packet, counted, close = (
            delayed(m, value, name, when=config.sliced)
            for value, name in (
                (self.packet, "packet_counted"),
                (newest, "slot_counted"),
                (self.close, "close_counted"),
            )
        )
        # By port: bits of slots without unanswered packets.
        gone = Signal(config.write_waves)  # slots whose answers nobody waits for any more
        answered = self._count(m, packet, counted, gone)
        lacking = Cat(~port.bit_select(oldest, 1) for port in answered)
        flush = 0
        if config.recovers:
            flush = self.flush
            m.d.comb += [
                gone.eq(Mux(self.retire, 1 << oldest, 0)),
                self.late.eq(Mux(closed.bit_select(oldest, 1), lacking, 0)),
            ]

        m.d.comb += [
            self.slot_free.eq(self.writing != config.write_waves),
            self.retire.eq(closed.bit_select(oldest, 1) & (~lacking.any() | flush)),
            self.retire_operation.eq(operations[self._index(oldest)]),
            self.retire_last.eq(last.bit_select(oldest, 1)),
            self.retire_written.eq(written.bit_select(oldest, 1)),
        ]
        m.d.sync += self.writing.eq(self.writing + self.open - self.retire)
        with m.If(self.open):
            m.d.sync += operations[self._index(newest)].eq(self.operation)
        with m.If(self.close):
            m.d.sync += [
                last.bit_select(newest, 1).eq(self.close_last),
                written.bit_select(newest, 1).eq(self.written),
                newest.eq(self._next(newest)),
            ]
        one = Signal(config.write_waves)
        m.d.comb += one.eq(1)
        m.d.sync += closed.eq(
            (closed | Mux(close, one << counted, 0)) & ~Mux(self.retire, one << oldest, 0)
        )
        with m.If(self.retire):
            m.d.sync += oldest.eq(self._next(oldest))
        for port in range(config.ranks):
            m.d.comb += self.error_operation[port].eq(
                operations[self._index(self.acknowledged_slot[port])]
            )
        return m

    def _index(self, slot):
        return slot if self._config.write_waves > 1 else 0

    def _next(self, slot):
        return Mux(slot == self._config.write_waves - 1, 0, slot + 1)

    def _count(self, m, packet, newest, gone):
        """Unanswered packets, a counter a port and slot."""
        config = self._config
        most = config.packets_per_wave + config.scale_packets
        scales = 0
        if config.quantizes:
            scales = delayed(
                m, Mux(self.open, self.scale_packets, 0), "scales_counted", when=config.sliced
            )
        goes = Const(-1, config.ranks)
        if config.subsets:
            goes = delayed(m, self.ranks, "ranks_counted", when=config.sliced)
        result = []
        for port in range(config.ranks):
            slot = self.acknowledged_slot[port]
            nothing_owed = Signal(config.write_waves, name=f"nothing_owed_{port}")
            owed = Signal(name=f"owed_{port}")
            m.d.comb += [
                owed.eq(self.acknowledge[port] & ~nothing_owed.bit_select(slot, 1)),
                self.stray[port].eq(self.acknowledge[port] & ~owed),
                self.write_error[port].eq(
                    owed & (self.response[port].as_value() > Response.EXOKAY.value)
                ),
            ]
            for index in range(config.write_waves):
                count = Signal(range(most + 1), name=f"unanswered_{port}_{index}")
                sent = packet & (newest == index) & goes[port]
                taken = owed & (slot == index)
                later = Mux((newest == index) & goes[port], scales, 0) if config.quantizes else 0
                m.d.sync += count.eq(count + sent + later - taken)
                if config.recovers:
                    with m.If(gone[index]):
                        m.d.sync += count.eq(0)
                m.d.comb += nothing_owed[index].eq(count == 0)
            result.append(nothing_owed)
        return result
