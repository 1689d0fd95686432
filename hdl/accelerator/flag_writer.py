"""Tells every rank that an operation is over: one flag each, in its own memory."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from ..stream import Queue
from .address_check import FLAG_BYTES
from .barrier import EPOCH_BITS
from .layouts import FLAG_TAG, Status, operation_slots, slot_bits

__all__ = ["WAVE_COUNT_BITS", "FlagWord", "FlagWriter"]

#: Width of the number of an operation's waves that is reported.
WAVE_COUNT_BITS = 32

#: The flag, from bit 0 up; written whole by one packet.
FlagWord = data.StructLayout(
    {
        "epoch": unsigned(32),
        "code": Status,
        "rank": unsigned(8),  # that the code speaks of
        "context": unsigned(8),
        "reserved": unsigned(8),
    }
)


class FlagWriter(wiring.Component):
    """Writes the flags of operations that are over, in order.

    Parameters
    ----------
    context
        That flags and the tags of their writes name.

    Members
    -------
    over, over_slot, over_waves : an operation's last write is acknowledged; at most one waits a
        slot; its waves that were written
    slot : the operation at hand; ``flags``, ``epoch``, ``code`` and ``rank`` answer to it (flags
        one cycle later)
    members : ranks that get a flag, where that may be some
    hold, skip : ports whose flag waits, or is not sent, unless it has begun; where contexts outlive
        failures
    missed : with ``retire``, ports whose flag was not sent; ``late``: whose flag is not taken yet;
        ``word``: that of the operation at hand; likewise
    o : by port, the flag
    retire : every port has taken its flag
    waves : of the operation at hand
    sending : flags are waiting

    Timing
    ------
    Two cycles from ``over`` to the flags being offered. The next operation's flags follow once all
    ports have taken these.
    """

    def __init__(self, config: SwitchConfig, *, context: int = 0):
        self._config = config
        self._context = context
        slot = slot_bits(config)
        super().__init__(
            {
                "over": In(1),
                "over_slot": In(slot),
                "over_waves": In(WAVE_COUNT_BITS),
                "slot": Out(slot),
                "flags": In(config.operand_address_bits).array(config.ranks),
                "epoch": In(EPOCH_BITS),
                "code": In(Status),
                "rank": In(4),
                "o": Out(PacketSource(config)).array(config.ranks),
                "retire": Out(1),
                "waves": Out(WAVE_COUNT_BITS),
                "sending": Out(1),
            }
            | ({"members": In(config.ranks)} if config.subsets else {})
            | (self._recovery() if config.recovers else {})
        )

    def _recovery(self):
        ranks = self._config.ranks
        return {
            "hold": In(ranks),
            "skip": In(ranks),
            "missed": Out(ranks),
            "late": Out(ranks),
            "word": Out(FlagWord),
        }

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.waiting = waiting = Queue(
            data.StructLayout({"slot": slot_bits(config), "waves": WAVE_COUNT_BITS}),
            depth=operation_slots(config),
        )
        m.d.comb += [
            waiting.i.valid.eq(self.over),
            waiting.i.payload.slot.eq(self.over_slot),
            waiting.i.payload.waves.eq(self.over_waves),
            self.slot.eq(waiting.o.payload.slot),
            self.waves.eq(waiting.o.payload.waves),
        ]
        looked_up = Signal()
        begun = Signal(config.ranks)  # the head is taken
        sent = Signal(config.ranks)
        taken = Signal(config.ranks)
        offered, spared = Const(-1, config.ranks), 0  # ports that get this flag, and that do not
        if config.recovers:
            skipped = Signal(config.ranks)
            wanted, offered = Signal(config.ranks), Signal(config.ranks)
            spared = ~wanted
            m.d.comb += [
                skipped.eq(self.members & self.skip & ~begun & ~sent),
                wanted.eq(self.members & ~skipped),
                offered.eq(wanted & ~(self.hold & ~begun)),
                self.missed.eq(skipped),
                self.late.eq(Mux(looked_up, wanted & ~(sent | taken), 0)),
            ]
        elif config.subsets:
            offered, spared = self.members, ~self.members
        all_taken = (sent | taken | spared).all()
        m.d.comb += [
            self.sending.eq(waiting.o.valid),
            self.retire.eq(looked_up & all_taken),
            waiting.o.ready.eq(self.retire),
        ]
        m.d.sync += [
            looked_up.eq(waiting.o.valid & ~self.retire),
            sent.eq((sent | taken) & ~self.retire.replicate(config.ranks)),
        ]
        heads = Cat(o.head.valid & o.head.ready for o in self.o)
        m.d.sync += begun.eq((begun | heads) & ~self.retire.replicate(config.ranks))
        word = self.word if config.recovers else Signal(FlagWord)
        m.d.comb += [
            word.epoch.eq(self.epoch),
            word.code.eq(self.code),
            word.rank.eq(self.rank),
            word.context.eq(self._context),
        ]
        tag = FLAG_TAG | self._context << slot_bits(config)
        copies = Cat(word.as_value() for _ in range(config.flit_bytes // FLAG_BYTES))
        for port, o in enumerate(self.o):
            header = o.head.payload.header
            goes = offered[port]
            m.d.comb += [
                o.head.valid.eq(looked_up & ~begun[port] & goes),
                o.head.payload.flits.eq(1),
                header.message_class.eq(MessageClass.WRITE_DATA),
                header.inc.eq(1),
                header.source.eq(port),
                header.destination.eq(port),
                header.context.eq(self._context),
                header.tag.eq(Const(tag, 16) | self.slot),
                header.address.eq(self.flags[port]),
                header.length.eq(FLAG_BYTES),
                # The word stands in every place that its address may name.
                o.payload.valid.eq(looked_up & ~sent[port] & goes),
                o.payload.payload.data.eq(copies),
                taken[port].eq(o.payload.valid & o.payload.ready),
            ]
        return m
