"""`Transmitter`: whole packets, each with credits for all of it before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import Cat, Const, Mux, Signal

from hdl.interfaces import Header, LinkState
from hdl.transport import channels
from hdl.transport.transmitter import Transmitter

from .proof import Fault, Proof
from .sizes import SMALL, TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


@dataclass
class _Packet:
    """A packet that was taken some cycles ago: registers of a model."""

    valid: Signal
    source: Signal  # one-hot
    channel: Signal
    flits: Signal  # of payload
    header: Signal


class TransmitterContract(Specification):
    """A transmitter against the packets that it took and the room that the far end has."""

    def __init__(self, config, sources, credits):
        self._config = config
        self._sources = sources
        self._credits = credits
        super().__init__(Transmitter(config, sources, credits))

    def specify(self, m):
        self._heads = [getattr(self.component, s.name).head for s in self._sources]
        for spec, head in zip(self._sources, self._heads, strict=True):
            short = head.payload.flits <= spec.payload_flits
            self.assume(f"{spec.name}_is_no_longer", ~head.valid | short)
        self._taken = Cat(head.valid & head.ready for head in self._heads)
        self._up = Const(1)
        if self._config.recovers:
            self._go_down()
        one = self._packet_taken(m)
        two = self._later(m, one, "two")
        current, left = self._send(m, two)
        self._conserve(m, one, two, current, left)
        self._know_registers(one, two, current, left)

    # -- a link that goes down ------------------------------------------------------------------

    def _go_down(self):
        """What `LinkEnd` keeps to, whose `clean` is that nothing is left here, among other things;
        and what the link's state changes.
        """
        transmitter, state = self.component, self.component.state
        self._up = state == LinkState.UP
        before = {
            each: self.past(state == each, name=f"was_{each.name}", init=each == LinkState.UP)
            for each in LinkState
        }
        was_idle = self.past(transmitter.idle, name="was_idle")
        self._was_down = self.past(~self._up, name="was_not_up")
        self.assume(
            "states_follow_each_other",
            (self._up & (before[LinkState.UP] | before[LinkState.CLEAN]))
            | (state == LinkState.DOWN)
            | ((state == LinkState.CLEAN) & before[LinkState.CLEAN])
            | ((state == LinkState.CLEAN) & before[LinkState.DOWN] & was_idle),
        )
        self.always(
            "takes_nothing_while_clean",
            ~self._taken.any(),
            "While its end is CLEAN no packet is taken, whoever offers one.",
            when=state == LinkState.CLEAN,
            trace=(state == LinkState.CLEAN) & Cat(h.valid for h in self._heads).any(),
        )
        self.always(
            "waits_for_no_credits_while_down",
            transmitter.starved == 0,
            "An end that is not UP has all credits, so what is offered goes without waiting.",
            when=self._was_down,
            trace=self._was_down & self._taken.any(),
        )
        self.always(
            "tells_its_state",
            transmitter.link.state == state,
            "The link carries what its end says of itself.",
            trace=state == LinkState.DOWN,
        )

    def _rest(self, one, two, undecided):
        """Nothing of before is left as an end becomes CLEAN."""
        transmitter = self.component
        nothing = ~one.valid & ~two.valid & (undecided == 0)
        offered = Cat(head.valid for head in self._heads).any()
        self.always(
            "idle_when_nothing_is_left",
            transmitter.idle == (~one.valid & (undecided == 0) & ~offered),
            "`idle` says that no packet waits, was taken, or has flits that do not go to the link "
            "in this cycle.",
            trace=transmitter.idle & self.past(two.valid, name="had_a_packet"),
        )
        self.lemma("clean_is_empty", (transmitter.state != LinkState.CLEAN) | nothing)

    # -- a model of two cycles ------------------------------------------------------------------

    def _packet_taken(self, m) -> _Packet:
        """What was taken one cycle ago."""
        count = len(self._sources)
        taken = _Packet(Signal(), Signal(count), Signal(3), Signal(8), Signal(Header.size))
        m.d.comb += [taken.valid.eq(self._taken.any()), taken.source.eq(self._taken)]
        for index, (spec, head) in enumerate(zip(self._sources, self._heads, strict=True)):
            with m.If(self._taken[index]):
                m.d.comb += [
                    taken.channel.eq(spec.channel),
                    taken.flits.eq(head.payload.flits if spec.has_payload else 0),
                    taken.header.eq(head.payload.header.as_value()),
                ]
        return self._later(m, taken, "one")

    def _later(self, m, packet: _Packet, name: str, enable=1) -> _Packet:
        later = {}
        for field, value in vars(packet).items():
            later[field] = Signal.like(value, name=f"{name}_{field}")
            with m.If(enable):
                m.d.sync += later[field].eq(value)
        return _Packet(**later)

    def _total(self, packet: _Packet):
        return packet.flits + self._config.header_flits

    # -- what the link must show ----------------------------------------------------------------

    def _send(self, m, two):
        """Whole packets on the link; gives the one under way and its flits that are to come."""
        config, transmitter = self._config, self.component
        link, flit = transmitter.link, transmitter.link.flit
        left = Signal(range(config.packet_flits + 1), name="flits_left")
        current = self._later(m, two, "current", two.valid)
        second_header = Signal()  # the header's second flit is due
        with m.If(two.valid):
            m.d.sync += [
                left.eq(self._total(two) - 1),
                second_header.eq(config.header_flits == 2),
            ]
        with m.Elif(link.valid):
            m.d.sync += [left.eq(left - 1), second_header.eq(0)]
        self._second_header = second_header

        self.always(
            "takes_one_packet_at_a_time",
            (self._taken & (self._taken - 1)) == 0,
            "Of all sources one packet is taken at a time.",
            when=self._taken.any(),
        )
        self.always(
            "starts_two_cycles_after_it_was_taken",
            (link.valid & flit.first) == two.valid,
            "A packet that is taken is on the link two cycles later, and nothing else starts.",
            trace=two.valid,
        )
        self.always(
            "never_interrupts_a_packet",
            (left == 0) & (flit.channel == two.channel) & (flit.last == (self._total(two) == 1)),
            "A packet starts, on its own channel, only behind the last flit of the one before.",
            when=two.valid,
        )
        self.always(
            "sends_the_flits_of_a_packet",
            (left != 0) & (flit.channel == current.channel) & (flit.last == (left == 1)),
            "Every other flit belongs to the packet under way; the last is marked, no other.",
            when=link.valid & ~flit.first,
            trace=link.valid & flit.last & (current.flits > 1),
        )
        payload = [getattr(transmitter, spec.name).payload for spec in self._sources]
        here = [current.source[i] & s.has_payload for i, s in enumerate(self._sources)]
        came = [self.past(p.valid, name=f"payload_{i}") for i, p in enumerate(payload)]
        self.always(
            "waits_for_its_own_payload_only",
            ~second_header & ~Cat(h & c for h, c in zip(here, came, strict=True)).any(),
            "A packet that has started pauses only in a cycle in which its own payload was not "
            "there: never for credits, another packet or another class.",
            when=(left != 0) & ~link.valid,
        )
        self.always(
            "sends_the_header",
            flit.data
            == Mux(
                two.valid,
                two.header[: config.flit_bits],
                current.header[config.flit_bits :],
            ),
            "The header's flits are those of the head that was taken.",
            when=link.valid & (two.valid | second_header),
        )
        for index, (spec, stream) in enumerate(zip(self._sources, payload, strict=True)):
            if not spec.has_payload:
                continue
            data = self.past(stream.payload.as_value(), name=f"data_{index}")
            moved = self.past(stream.valid & stream.ready, name=f"moved_{index}")
            self.always(
                f"sends_each_payload_flit_of_{spec.name}",
                link.valid
                & current.source[index]
                & ~flit.first
                & (flit.data == data[: config.flit_bits])
                & (flit.response.as_value() == data[config.flit_bits :]),
                "A flit of payload that is taken is on the link one cycle later, unchanged.",
                when=moved,
            )
        return current, left

    def _conserve(self, m, one, two, current, left):
        """Credits against the room at the far end, by channel."""
        link = self.component.link
        for number in sorted({spec.channel for spec in self._sources}):
            initial = self._credits[number]
            room = Signal(range(initial + 1), init=initial, name=f"room_{number}")
            sent = link.valid & (link.flit.channel == number)
            returned = self.component.returned[number]
            owed = ~(returned & self._up) | (room < initial)
            self.assume(f"returns_what_was_sent_{number}", owed)
            m.d.sync += room.eq(Mux(self._up, room - sent + returned, initial))
            self.always(
                f"credits_cover_the_packet_on_channel_{number}",
                room >= self._total(two),
                "When a packet starts, the far end has room for all of its flits: so it never "
                "overflows, and the packet never waits for credits.",
                when=two.valid & (two.channel == number) & self._up,
            )
            promised = Signal(range(2 * self._config.packet_flits + 1), name=f"promised_{number}")
            here = [(packet, packet.channel == number) for packet in (one, two, current)]
            payload = any(s.has_payload for s in self._sources if s.channel == number)
            m.d.comb += promised.eq(
                # A packet with payload is paid for as it starts, a cycle after it was taken.
                (0 if payload else Mux(one.valid & here[0][1], self._total(one), 0))
                + Mux(two.valid & here[1][1], self._total(two), 0)
                + Mux(here[2][1], left, 0)
            )
            available = self.inside.signal(f"credits_{number}.available")
            if payload:
                covered = available >= self._total(one)
                self.lemma(f"covered_{number}", ~(one.valid & here[0][1]) | covered)
            self.always(
                f"credits_conserve_on_channel_{number}",
                available + promised == room,
                "Credits in hand, and flits that are paid for and not sent yet, are the room at "
                "the far end: none is lost, none is made.",
                when=self._up,
                trace=self._up & (available + self._config.header_flits <= initial),
            )
            if self._config.recovers:
                renewed = (available == initial) & (room == initial)
                self.lemma(f"renewed_{number}", ~self._was_down | renewed)

    # -- the component's registers, for induction -----------------------------------------------

    def _know_registers(self, one, two, current, left):
        config, link = self._config, self.component.link
        in_header, in_payload = self.inside.signal("_in_header"), self.inside.signal("_in_payload")
        remaining = self.inside.signal("remaining")
        undecided = Signal(range(config.packet_flits + 1), name="flits_undecided")
        self.helper.d.comb += undecided.eq(Mux(two.valid, self._total(two) - 1, left - link.valid))
        if config.recovers:
            self._rest(one, two, undecided)
        self.lemma("granted", self.inside.signal("_granted") == Mux(one.valid, one.source, 0))
        self.lemma("taken_is_a_source", ~one.valid | _one_hot(one.source))
        self.lemma("two_is_a_source", ~two.valid | _one_hot(two.source))
        self.lemma("current_is_a_source", (left == 0) | _one_hot(current.source))
        self.lemma("starts_when_idle", ~one.valid | (undecided == 0))
        self.lemma("left_is_bounded", left < config.packet_flits)
        self.lemma("one_at_a_time", ~two.valid | (left == 0))
        self.lemma("sent_is_left", two.valid | ~link.valid | (left != 0))
        under_way = Mux(two.valid, two.source, current.source)
        on_link = link.flit.channel == current.channel
        self.lemma("channel_stays", (left == 0) | on_link)
        self.lemma("current", (undecided == 0) | (self.inside.signal("_current") == under_way))
        self.lemma("header_or_payload", ~(in_header & in_payload))
        self.lemma("idle", (undecided == 0) == (~in_header & ~in_payload))
        self.lemma("undecided", (undecided == 0) | (undecided == remaining + in_header))
        self.lemma("payload_remains", ~in_payload | (remaining != 0))
        if config.header_flits == 2:
            self.lemma("header_is_due", in_header == two.valid)
            self.lemma(
                "header_comes_second", self._second_header == self.past(two.valid, name="two")
            )
            self.lemma(
                "header_at_once", ~self._second_header | (link.valid & (left == current.flits + 1))
            )
            rest = self.inside.signal("rest")
            self.lemma("rest", ~in_header | (rest == two.header[config.flit_bits :]))
        for index, spec in enumerate(self._sources):
            here = [packet.source[index] for packet in (one, two, current)]
            held = self.inside.signal(f"{spec.name}_held")
            same = held[: Header.size] == one.header
            if spec.has_payload:
                same &= held[Header.size :] == one.flits
            self.lemma(f"{spec.name}_held", ~(one.valid & here[0]) | same)
            for name, packet, valid in (
                ("one", one, one.valid),
                ("two", two, two.valid),
                ("current", current, left != 0),
            ):
                fits = (packet.channel == spec.channel) & (packet.flits <= spec.payload_flits)
                self.lemma(f"{spec.name}_{name}", ~(valid & packet.source[index]) | fits)
        self.lemma(
            "no_payload_left_over",
            (left == 0) | self._second_header | (left <= current.flits),
        )


def _one_hot(value):
    return (value != 0) & ((value & (value - 1)) == 0)


def _not_renewed(value):
    """One credit too few where all are in hand again, which is a constant."""
    return value - 1 if isinstance(value, Const) else value


def _of_endpoint(config):
    return TransmitterContract(
        config, channels.endpoint_sources(config), channels.credits_to_switch(config)
    )


def _of_port(config):
    sources = channels.accelerator_sources(config) + channels.core_sources(config)
    return TransmitterContract(config, sources, channels.credits_to_rank(config))


PROOFS = [
    Proof(
        name="transmitter-endpoint",
        component="Transmitter",
        size=f"sources of an endpoint; {describe(SMALL)}",
        specify=lambda: _of_endpoint(SMALL),
        # All credits of a channel must be spent first.
        fault_depth=18,
        mutants_depth=8,
        faults=(
            Fault(
                "a packet spends a credit too few",
                "credits_6.available",
                lambda available: available + 1,
            ),
            Fault("starts with a credit too few", "arrivals_covered", lambda covered: covered | 1),
            Fault("takes the next packet too soon", "_ends", lambda ends: ends | 1),
            Fault("the last flit is not marked", "remaining", lambda remaining: remaining + 1),
        ),
    ),
    Proof(
        name="transmitter-port",
        component="Transmitter",
        size=f"sources of a port; {describe(SMALL)}",
        specify=lambda: _of_port(SMALL),
        quick=False,
    ),
    Proof(
        name="transmitter-of-links-that-go-down",
        component="Transmitter",
        size=f"sources of an endpoint; {describe(TENANTS)}",
        specify=lambda: _of_endpoint(TENANTS),
        # All credits of a channel must be spent first.
        fault_depth=18,
        mutants_depth=8,
        quick=False,
        faults=(
            Fault("credits are not renewed", "credits_6.available", _not_renewed),
            Fault("is idle too early", "idle", lambda idle: idle | 1),
        ),
    ),
    Proof(
        name="transmitter-port-of-links-that-go-down",
        component="Transmitter",
        size=f"sources of a port; {describe(TENANTS)}",
        specify=lambda: _of_port(TENANTS),
        quick=False,
    ),
]
