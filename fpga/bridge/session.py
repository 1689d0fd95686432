"""Which requests are done, and which have been: a request that comes twice acts once."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..host.frames import ANSWER, NONCE_BYTES, Opcode, Status, opcode_byte
from .deframer import RequestLayout
from .enframer import AnswerLayout

__all__ = ["Session"]


class Session(wiring.Component):
    """Judges each request by its sequence number, has it executed, and answers.

    Parameters
    ----------
    data_bytes
        Most data of an answer.

    Members
    -------
    request : from the deframer; taken when it is answered or done
    damaged, overrun : strobes from the deframer
    execute : in this cycle ``request`` is to be executed
    executed : in this cycle it has been, with ``status`` and ``size`` of its data
    answer : to the enframer
    close : end the session
    judging : a request is being judged or executed
    active : anything is under way

    The session
    -----------
    An IDENTIFY with another nonce than the session's opens a new one and is its first request.
    After that the last request again is answered as before, without acting; the number behind it
    is executed; any other is answered with OUT_OF_SEQUENCE, and without a session all are with
    NO_SESSION. Neither answer takes the place of the one that is kept.

    Ordering and stalls
    -------------------
    One answer after the other. A damaged frame is answered when no request waits; several of them
    together once.
    """

    def __init__(self, data_bytes: int):
        self._data_bytes = data_bytes
        answer = AnswerLayout(data_bytes)
        super().__init__(
            {
                "request": In(stream.Signature(RequestLayout())),
                "damaged": In(1),
                "overrun": In(1),
                "execute": Out(1),
                "executed": In(1),
                "status": In(answer["status"].shape),
                "size": In(answer["size"].shape),
                "answer": Out(stream.Signature(answer)),
                "close": In(1),
                "judging": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        request, answer = self.request.payload, self.answer.payload
        kept = Signal.like(answer)
        opened = Signal()
        nonce, last = Signal(8 * NONCE_BYTES), Signal(8)
        asked_nonce = request.argument[: 8 * NONCE_BYTES]
        damaged, overrun = Signal(), Signal()
        opens, again, following = Signal(), Signal(), Signal()
        m.d.comb += [
            opens.eq(
                (request.head == opcode_byte(Opcode.IDENTIFY))
                & (request.length == NONCE_BYTES)
                & (~opened | (asked_nonce != nonce))
            ),
            again.eq(request.sequence == last),
            following.eq(request.sequence == (last + 1)[:8]),
        ]

        def send(head, sequence, status):
            """Without data."""
            m.d.sync += [
                answer.head.eq(head),
                answer.sequence.eq(sequence),
                answer.status.eq(status),
                answer.size.eq(0),
            ]
            m.next = "SEND"

        def refuse(status):
            m.d.comb += self.request.ready.eq(1)
            send(request.head | ANSWER, request.sequence, status)

        def execute():
            m.d.comb += self.execute.eq(1)
            m.d.sync += last.eq(request.sequence)
            m.next = "EXECUTE"

        with m.FSM(name="session") as fsm:
            with m.State("IDLE"):
                with m.If(self.request.valid):
                    m.next = "JUDGE"
                with m.Elif(damaged | overrun):
                    m.d.sync += [damaged.eq(0), overrun.eq(0)]
                    none = opcode_byte(Opcode.NONE, answer=True)
                    with m.If(overrun):
                        send(none, 0, Status.OVERRUN)
                    with m.Else():
                        send(none, 0, Status.CORRUPT)
            with m.State("JUDGE"):
                with m.If(opens):
                    m.d.sync += [opened.eq(1), nonce.eq(asked_nonce)]
                    execute()
                with m.Elif(~opened):
                    refuse(Status.NO_SESSION)
                with m.Elif(again):
                    m.d.comb += self.request.ready.eq(1)
                    m.d.sync += answer.eq(kept)
                    m.next = "SEND"
                with m.Elif(following):
                    execute()
                with m.Else():
                    refuse(Status.OUT_OF_SEQUENCE)
            with m.State("EXECUTE"):
                with m.If(self.executed):
                    m.d.comb += self.request.ready.eq(1)
                    for each in (kept, answer):
                        m.d.sync += [
                            each.head.eq(request.head | ANSWER),
                            each.sequence.eq(request.sequence),
                            each.status.eq(self.status),
                            each.size.eq(self.size),
                        ]
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.answer.valid.eq(1)
                with m.If(self.answer.ready):
                    m.next = "IDLE"
        with m.If(self.damaged):
            m.d.sync += damaged.eq(1)
        with m.If(self.overrun):
            m.d.sync += overrun.eq(1)
        with m.If(self.close):
            m.d.sync += opened.eq(0)
        m.d.comb += [
            self.judging.eq(fsm.ongoing("JUDGE") | fsm.ongoing("EXECUTE")),
            self.active.eq(~fsm.ongoing("IDLE") | self.request.valid | damaged | overrun),
        ]
        return m
