"""Where a port's ordinary traffic ends while the switch has no core: every request is an error."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Beat, Header, MessageClass, PacketSource, Response
from ..stream import Queue

__all__ = ["CoreStub"]


class CoreStub(wiring.Component):
    """Answers ordinary reads and writes with DECERR, as an unmapped address would be.

    Members
    -------
    requests : ordinary read requests; each is answered by read data without payload
    writes : ordinary write packets; each is swallowed and answered once
    read_data, write_responses : the answers

    Timing and stalls
    -----------------
    An answer follows its request by one cycle. A request waits while its answer has no room, which
    fills its own virtual channel and no other.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "requests": In(stream.Signature(Beat(config))),
                "writes": In(stream.Signature(Beat(config))),
                "read_data": Out(PacketSource(config)),
                "write_responses": Out(PacketSource(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name, beats, answers, message_class in (
            ("reads", self.requests, self.read_data, MessageClass.READ_DATA),
            ("writes", self.writes, self.write_responses, MessageClass.WRITE_RESPONSE),
        ):
            m.submodules[name] = queue = Queue(Header, depth=1)
            asked = beats.payload.header
            answer = queue.i.payload
            m.d.comb += [
                queue.i.valid.eq(beats.valid & beats.payload.last),
                beats.ready.eq(queue.i.ready),
                answer.message_class.eq(message_class),
                answer.source.eq(asked.destination),
                answer.destination.eq(asked.source),
                answer.context.eq(asked.context),
                answer.generation.eq(asked.generation),
                answer.tag.eq(asked.tag),
                answer.status.eq(Response.DECERR),
                answers.head.valid.eq(queue.o.valid),
                answers.head.payload.header.eq(queue.o.payload),
                queue.o.ready.eq(answers.head.ready),
            ]
        return m
