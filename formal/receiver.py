"""`Receiver`: who sends with credits finds room, on each channel by itself."""

from __future__ import annotations

from amaranth import Const, Mux, Signal

from hdl.interfaces import Header
from hdl.transport import channels
from hdl.transport.receiver import Depacketizer, Receiver

from .proof import Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]


class ReceiverContract(Specification):
    """A receiver against a sender that spends credits, channel by channel."""

    def __init__(self, config, depths: dict[int, int]):
        self._config = config
        self._depths = depths
        super().__init__(Receiver(config, depths))

    def specify(self, m):
        receiver = self.component
        link = receiver.link
        self.assume("sends_on_known_channels", ~link.valid | self._is_known(link.flit.channel))
        for number, depth in self._depths.items():
            if depth:
                self._queued(m, number, depth)
            else:
                self._direct(m, number)

    def _is_known(self, channel):
        known = Const(0)
        for number in self._depths:
            known = known | (channel == number)
        return known

    def _queued(self, m, number, depth):
        receiver = self.component
        link = receiver.link
        arrives = link.valid & (link.flit.channel == number)
        credits = Signal(range(depth + 1), init=depth, name=f"credits_{number}")
        self.assume(f"spends_credits_{number}", ~arrives | (credits != 0))
        m.d.sync += credits.eq(credits - arrives + receiver.credit[number])
        level = self.inside.signal(f"queue_{number}.level")
        self.always(
            f"never_overflows_on_channel_{number}",
            self.inside.signal(f"queue_{number}.i__ready"),
            "A flit that was sent with a credit always finds a place.",
            when=arrives,
            trace=arrives & (level == depth - 1),
        )
        self.always(
            f"credits_conserve_on_channel_{number}",
            credits + level == depth,
            "Credits of the sender and flits in the queue are the queue's depth: each flit that "
            "leaves gives one credit back, and nothing else does.",
            trace=credits == 0,
        )

    def _direct(self, m, number):
        receiver = self.component
        link = receiver.link
        output = getattr(receiver, f"channel_{number}")
        self.assume(f"takes_at_once_{number}", output.ready)
        arrives = link.valid & (link.flit.channel == number)
        self.always(
            f"gives_credit_at_once_on_channel_{number}",
            receiver.credit[number] == arrives,
            "A channel without a queue gives each credit back as its flit arrives.",
            trace=arrives,
        )


class DepacketizerContract(Specification):
    """A depacketizer against whole packets, one after the other."""

    def __init__(self, config):
        self._config = config
        super().__init__(Depacketizer(config))

    def specify(self, m):
        depacketizer, config = self.component, self._config
        i, o = depacketizer.i, depacketizer.o
        flit, beat = i.payload, o.payload
        two = config.header_flits == 2
        taken = i.valid & i.ready
        # 0: between packets; 1: the header's second flit is due; 2: payload is.
        in_header, in_payload = Signal(), Signal()
        payload_begun = Signal()
        header = Signal(Header.size, name="header_sent")
        with m.If(taken & flit.first):
            m.d.sync += [
                in_header.eq(two),
                in_payload.eq(not two),
                payload_begun.eq(0),
                header.eq(flit.data),
            ]
        with m.Elif(taken & in_header):
            m.d.sync += [
                in_header.eq(0),
                in_payload.eq(~flit.last),
                header[config.flit_bits :].eq(flit.data),
            ]
        with m.Elif(taken):
            m.d.sync += [in_payload.eq(~flit.last), payload_begun.eq(1)]
        between = ~in_header & ~in_payload
        self.assume("flits_are_packets", ~i.valid | (flit.first == between))
        self.assume("headers_are_whole", ~(i.valid & flit.first) | (flit.last == 0))
        self.assume("flits_are_offered", self.offers(i, "i"))

        whole_header = Mux(
            in_header, header[: config.flit_bits] | (flit.data << config.flit_bits), header
        )[: Header.size]
        self.always(
            "gives_a_beat_a_flit_of_payload",
            o.valid == (i.valid & (in_payload | (in_header & flit.last))),
            "Each flit of payload is a beat, a packet without payload is one, and no other flit.",
            trace=o.valid & in_payload,
        )
        self.always(
            "keeps_the_header_beside_the_payload",
            beat.header.as_value() == whole_header,
            "The header of its packet stands beside each beat.",
            when=o.valid,
            trace=o.valid & payload_begun,
        )
        self.always(
            "marks_first_last_and_empty",
            (beat.first == (in_header | ~payload_begun))
            & (beat.last == flit.last)
            & (beat.empty == in_header)
            & (beat.data == flit.data)
            & (beat.response == flit.response),
            "First, last and empty beats are marked, and data goes through unchanged.",
            when=o.valid,
        )
        self.always(
            "waits_for_its_user_only",
            i.ready == (o.ready | ~o.valid),
            "A flit waits only while the beat that it makes is not taken.",
            when=i.valid,
            trace=i.valid & ~i.ready,
        )
        self.always(
            "stream_contract",
            self.offers(o, "o"),
            "A beat that was not taken is offered again, unchanged.",
            when=self.offer_waits(o, "o"),
        )
        completes = self.inside.signal("completes")
        self.lemma("one_state", ~(in_header & in_payload))
        self.lemma("header_comes_first", ~in_header | ~payload_begun)
        self.lemma("completes", completes == in_header)
        kept, earlier = self.inside.signal("kept"), self.inside.signal("earlier")
        bits = config.flit_bits
        self.lemma("earlier", between | (earlier == header[:bits]))
        self.lemma("kept", ~in_payload | (kept == header[bits:]))
        after = self.inside.signal("after_header")
        self.lemma("after_header", ~in_payload | (after == ~payload_begun))


PROOFS = [
    Proof(
        name="receiver",
        component="Receiver",
        size=f"channels of an endpoint; {describe(SMALL)}",
        specify=lambda: ReceiverContract(SMALL, channels.endpoint_channels(SMALL)),
        trace_depth=60,
        faults=(
            Fault("credits come back all the time", "credit", lambda credit: Const(1)),
            Fault("a flit goes to another channel", "arrives_6", lambda arrives: arrives & 0),
        ),
    ),
    Proof(
        name="depacketizer",
        component="Depacketizer",
        size=describe(SMALL),
        specify=lambda: DepacketizerContract(SMALL),
        faults=(
            Fault("the header is that of the packet before", "kept", lambda kept: kept & 0),
            Fault("a header is given as a beat", "o__valid", lambda valid: valid | 1),
            Fault("the first beat is not marked", "after_header", lambda after: after & 0),
        ),
    ),
]
