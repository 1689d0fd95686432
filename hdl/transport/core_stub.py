"""Where a port's ordinary traffic ends while the switch has no core: every request is an error."""

from amaranth import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Beat, MessageClass, PacketSource, Response
from ..stream import Queue

__all__ = ["CoreStub"]

#: What an answer must know of its request.
Owed = data.StructLayout(
    {
        "requester": unsigned(4),
        "asked": unsigned(4),
        "context": unsigned(4),
        "generation": unsigned(4),
        "tag": unsigned(16),
    }
)


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
            m.submodules[name] = queue = Queue(Owed, depth=1)
            asked, owed = beats.payload.header, queue.i.payload
            answer = answers.head.payload.header
            m.d.comb += [
                queue.i.valid.eq(beats.valid & beats.payload.last),
                beats.ready.eq(queue.i.ready),
                owed.requester.eq(asked.source),
                owed.asked.eq(asked.destination),
                answers.head.valid.eq(queue.o.valid),
                queue.o.ready.eq(answers.head.ready),
                answer.message_class.eq(message_class),
                answer.source.eq(queue.o.payload.asked),
                answer.destination.eq(queue.o.payload.requester),
                answer.status.eq(Response.DECERR),
            ]
            for field in ("context", "generation", "tag"):
                m.d.comb += [
                    getattr(owed, field).eq(getattr(asked, field)),
                    getattr(answer, field).eq(getattr(queue.o.payload, field)),
                ]
        return m
