"""`Transmitter`: whole packets, with credits for all of them before they start."""

from __future__ import annotations

from amaranth import Array, Cat, Const, Mux, Signal

from hdl.transport import channels
from hdl.transport.transmitter import Transmitter

from .proof import Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]


class TransmitterContract(Specification):
    """A transmitter against what it took, and what the far end of the link has room for."""

    def __init__(self, config):
        self._config = config
        self._sources = channels.endpoint_sources(config)
        self._credits = channels.credits_to_switch(config)
        super().__init__(Transmitter(config, self._sources, self._credits))

    def specify(self, m):
        self._heads = [getattr(self.component, s.name).head for s in self._sources]
        self._payloads = [getattr(self.component, s.name).payload for s in self._sources]
        for spec, head in zip(self._sources, self._heads, strict=True):
            flits = head.payload.flits
            longest = flits <= spec.payload_flits
            self.assume(f"{spec.name}_heads_are_offered", self.offers(head, spec.name))
            self.assume(f"{spec.name}_is_no_longer", ~head.valid | longest)
        self._send(m)
        self._conserve(m)

    def _send(self, m):
        """The packet that was taken, as the link must show it."""
        transmitter, config = self.component, self._config
        link, flit = transmitter.link, transmitter.link.flit
        channel, left = Signal(3), Signal(range(config.packet_flits + 1))
        header, header_left = Signal(128), Signal(range(config.header_flits + 1))
        taken = Cat(head.valid & head.ready for head in self._heads)
        self.always(
            "takes_one_packet_at_a_time",
            (taken & (taken - 1)) == 0,
            "Of all sources one packet is taken at a time.",
            when=taken.any(),
        )
        self.always(
            "starts_only_with_credits",
            Cat(
                self._available(spec) >= config.header_flits + spec.payload_flits
                for spec in self._sources
            )
            & taken
            == taken,
            "A packet is taken only when its channel has credits for the longest of its source.",
            when=taken.any(),
        )
        # Chosen a cycle or more before it starts; held until then.
        held, held_flits = Signal(), Signal(range(config.payload_flits + 1))
        held_channel, held_header = Signal(3), Signal(128)
        starts = link.valid & flit.first
        with m.If(taken.any()):
            m.d.sync += held.eq(1)
            for index, (spec, head) in enumerate(zip(self._sources, self._heads, strict=True)):
                with m.If(taken[index]):
                    m.d.sync += [
                        held_flits.eq(head.payload.flits if spec.has_payload else 0),
                        held_channel.eq(spec.channel),
                        held_header.eq(head.payload.header.as_value()),
                    ]
        return starts, held
