"""Turns the packets that a rank writes to the accelerator into arrivals, and answers them."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import SwitchConfig
from ..interfaces import Beat, MessageClass, PacketSource, Response
from ..stream import Queue
from ..transport.endpoint import DOORBELL_SPACING
from .barrier import EPOCH_BITS
from .window import WORD_BITS, WORD_BYTES, window_words

__all__ = ["Doorbell"]


class Doorbell(wiring.Component):
    """One rank's doorbells.

    Members
    -------
    i : the rank's writes to the accelerator; the low 32 bits of the first flit are the epoch
    o : answers, one a packet: OKAY, SLVERR where the barrier refuses, DECERR off the doorbells
    stage, word, value, locked : where there are several contexts, to and from the `MemberPosts` of
        that context: a word of its window is written, one of 8 bytes; SLVERR where it is locked
    arrive, context, epoch, refused : to and from the `Barrier` of that context

    Timing and stalls
    -----------------
    An arrival counts in the cycle of its beat; its answer follows one cycle later. A packet waits
    while the answer before it has not left, which holds up only the rank that sent both.
    """

    def __init__(self, config: SwitchConfig, *, port: int):
        self._config = config
        self._port = port
        super().__init__(
            {
                "i": In(stream.Signature(Beat(config))),
                "o": Out(PacketSource(config)),
                "arrive": Out(1),
                "context": Out(range(config.contexts)),
                "epoch": Out(EPOCH_BITS),
                "refused": In(1),
            }
            | (self._window() if config.contexts > 1 else {})
        )

    def _window(self):
        return {
            "stage": Out(1),
            "word": Out(range(len(window_words(self._config)))),
            "value": Out(WORD_BITS),
            "locked": In(1),
        }

    def elaborate(self, platform):
        m = Module()
        m.submodules.answers = answers = Queue(
            data.StructLayout({"generation": unsigned(4), "tag": unsigned(16), "status": Response}),
            depth=1,
        )
        beat = self.i.payload
        transfer = self.i.valid & self.i.ready
        inside = beat.header.address < self._config.contexts * DOORBELL_SPACING
        arrival = inside & (beat.header.address[: exact_log2(DOORBELL_SPACING)] == 0)
        known, refused = arrival, self.refused
        if self._config.contexts > 1:
            staged = self._stage(m, inside, transfer)
            known = arrival | staged
            refused = Mux(arrival, self.refused, self.locked)
        m.d.comb += [
            self.i.ready.eq(answers.i.ready),
            self.arrive.eq(transfer & beat.first & ~beat.empty & arrival),
            self.context.eq(beat.header.address >> exact_log2(DOORBELL_SPACING)),
            self.epoch.eq(beat.data),
            # A packet's answer goes with its first beat; what follows is swallowed.
            answers.i.valid.eq(transfer & beat.first),
            answers.i.payload.generation.eq(beat.header.generation),
            answers.i.payload.tag.eq(beat.header.tag),
            answers.i.payload.status.eq(
                Mux(
                    known & ~beat.empty,
                    Mux(refused, Response.SLVERR, Response.OKAY),
                    Response.DECERR,
                )
            ),
        ]
        head = self.o.head
        m.d.comb += [
            head.valid.eq(answers.o.valid),
            answers.o.ready.eq(head.ready),
            head.payload.header.message_class.eq(MessageClass.WRITE_RESPONSE),
            head.payload.header.inc.eq(1),
            head.payload.header.source.eq(self._port),
            head.payload.header.destination.eq(self._port),
            head.payload.header.generation.eq(answers.o.payload.generation),
            head.payload.header.tag.eq(answers.o.payload.tag),
            head.payload.header.status.eq(answers.o.payload.status),
        ]
        return m

    def _stage(self, m, inside, transfer):
        """A word of a window behind its doorbell."""
        beat = self.i.payload
        address = beat.header.address
        offset = address[: exact_log2(DOORBELL_SPACING)]
        within = exact_log2(WORD_BYTES)
        lane = address[within : self._config.flit_address_bits]
        here = Signal()
        m.d.comb += [
            here.eq(
                inside
                & (offset != 0)
                & (offset < len(window_words(self._config)) * WORD_BYTES)
                & (offset[:within] == 0)
                & (beat.header.length == WORD_BYTES)
            ),
            self.word.eq(offset[within:]),
            self.value.eq(beat.data.word_select(lane, WORD_BITS)),
            self.stage.eq(transfer & beat.first & ~beat.empty & here & ~self.locked),
        ]
        return here
