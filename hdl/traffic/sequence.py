"""Which requests a traffic generator makes: to whom, where, and of which kind."""

from amaranth import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .settings import TrafficPattern, traffic_settings

__all__ = ["Choice", "TrafficSequence"]

#: Of a request's random number: bits that decide its kind, and its destination.
KIND_BITS, DESTINATION_BITS = slice(0, 8), slice(8, 24)
#: What parts the sequences of ranks with one seed: 2^32 divided by the golden ratio, odd.
RANK_STEP = 0x9E3779B9
WORD_MASK = 0xFFFFFFFF


class Choice(data.StructLayout):
    """A request: destination and kind, and the byte address in the destination's memory."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "destination": unsigned(4),
                "write": unsigned(1),
                "address": unsigned(config.operand_address_bits),
            }
        )


class TrafficSequence(wiring.Component):
    """The requests of one rank, one after the other; settings alone decide them, never time.

    Request n is for slot n modulo the slots of this rank at its destination: base + (slot * R +
    rank) * S bytes, with R the ranks and S a payload's bytes, each up to a power of two.

    Parameters
    ----------
    rank
        This rank's number.

    Members
    -------
    go : start anew, with the settings as they are
    taken : the request at hand is made, the next one follows
    more : there is one
    choice : the request
    one member a setting (`traffic_settings`)
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        super().__init__(
            {value.name: In(value.width) for value in traffic_settings(config)}
            | {"go": In(1), "taken": In(1), "more": Out(1), "choice": Out(Choice(config))}
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(32)
        number = Signal(32)
        nobody = (self.pattern == TrafficPattern.HOT_SPOT) & (self.target == self._rank)
        m.d.comb += self.more.eq(left != 0)
        with m.If(self.go):
            m.d.sync += [left.eq(Mux(nobody, 0, self.count)), number.eq(0)]
        with m.Elif(self.taken):
            m.d.sync += [left.eq(left - 1), number.eq(number + 1)]
        drawn = self._draw(m)
        self._choose_destination(m, drawn)
        self._place(m, number)
        m.d.comb += self.choice.write.eq(drawn[KIND_BITS] < self.writes)
        return m

    def _draw(self, m):
        """A random number a request: Marsaglia's xorshift with shifts 13, 17 and 5."""
        state = Signal(32, init=1)
        first, second, drawn = Signal(32), Signal(32), Signal(32)
        begin = Signal(32)
        m.d.comb += [
            first.eq(state ^ (state << 13)),
            second.eq(first ^ (first >> 17)),
            drawn.eq(second ^ (second << 5)),
            begin.eq(self.seed + (self._rank * RANK_STEP & WORD_MASK)),
        ]
        with m.If(self.go):
            m.d.sync += state.eq(Mux(begin == 0, 1, begin))  # zero would stay zero
        with m.Elif(self.taken):
            m.d.sync += state.eq(drawn)
        return drawn

    def _choose_destination(self, m, drawn):
        rank, ranks = self._rank, self._config.ranks
        others = Array((rank + 1 + step) % ranks for step in range(ranks - 1))
        turn = Signal(range(max(2, ranks - 1)))
        with m.If(self.go):
            m.d.sync += turn.eq(0)
        with m.Elif(self.taken):
            m.d.sync += turn.eq(Mux(turn == ranks - 2, 0, turn + 1))
        at_random = (drawn[DESTINATION_BITS] * (ranks - 1)) >> 16
        destination = self.choice.destination
        with m.Switch(self.pattern):
            with m.Case(TrafficPattern.ALL_TO_ALL):
                m.d.comb += destination.eq(others[turn])
            with m.Case(TrafficPattern.NEIGHBOUR):
                m.d.comb += destination.eq(others[0])
            with m.Case(TrafficPattern.HOT_SPOT):
                m.d.comb += destination.eq(self.target)
            with m.Case(TrafficPattern.RANDOM):
                m.d.comb += destination.eq(others[at_random])
            with m.Default():
                m.d.comb += destination.eq(rank)

    def _place(self, m, number):
        config = self._config
        rank_bits = (config.ranks - 1).bit_length()
        slot_shift = (config.payload_bytes - 1).bit_length()
        flit_shift = config.flit_address_bits
        slot = (number & self.slots) << rank_bits | self._rank
        base = Mux(self.choice.write, self.write_base, self.read_base)
        m.d.comb += self.choice.address.eq((base[flit_shift:] << flit_shift) + (slot << slot_shift))
