"""`RequestIssuer`: the requests of a wave ask for its bytes, all of them, in order, each once."""

from __future__ import annotations

from amaranth import Cat, Mux, Signal

from hdl.accelerator.layouts import packet_bits
from hdl.accelerator.request_issuer import WAITING_WAVES, RequestIssuer
from hdl.interfaces import MessageClass

from .proof import Fault, Proof
from .sizes import CODES, LONG_REQUESTS, SMALL, describe
from .specification import Specification
from .stream_queue import behind, keeps_its_place

__all__ = ["PROOFS"]

#: Waves that were taken and are not asked for to their end: a queue holds its depth and one.
MOST = WAITING_WAVES + 1
#: The rank's port.
PORT = 1


class RequestIssuerContract(Specification):
    """An issuer against the waves that it took, oldest first, and what is asked of the oldest."""

    def __init__(self, config):
        self._config = config
        self._context = config.contexts - 1
        super().__init__(RequestIssuer(config, port=PORT, context=self._context))

    def specify(self, m):
        issuer, config = self.component, self._config
        names = ["address", "size", "entry", "generation"]
        names += ["scale_address", "scale_size"] if config.quantizes else []
        self.assume("waves_have_data", ~issuer.valid | (issuer.size != 0))
        self.assume("waves_are_small", issuer.size <= config.wave_bytes)
        if config.quantizes:
            self.assume("scales_are_few", issuer.scale_size <= config.scale_chunk_bytes)
        head = issuer.o.head
        drop = issuer.drop if config.recovers else 0
        takes = issuer.valid & issuer.ready
        arriving = self.past(takes, name="takes")  # it is in a register yet
        level, queued = Signal(range(MOST + 1)), Signal(range(MOST + 1), name="queued")
        m.d.comb += queued.eq(level - arriving)
        waves = [
            {name: Signal.like(getattr(issuer, name), name=f"{name}_{place}") for name in names}
            for place in range(MOST)
        ]
        done = Signal(range(config.wave_bytes + 1))  # bytes asked for, of this piece
        scales_done = Signal()
        address, size, first, of_scales = self._piece(waves[0], scales_done)
        left = size - done
        ends_piece = head.valid & head.ready & (left <= config.read_request_bytes)
        ends = Signal()
        m.d.comb += ends.eq(Mux(drop, queued != 0, ends_piece & ~of_scales))
        m.d.sync += level.eq(level + takes - ends)
        for name in names:
            for place, wave in enumerate(waves):
                later = waves[min(place + 1, MOST - 1)]
                kept = Mux(ends, later[name], wave[name])
                here = takes & (level == place + ends)
                m.d.sync += wave[name].eq(Mux(here, getattr(issuer, name), kept))
        with m.If(ends | ends_piece):
            m.d.sync += [done.eq(0), scales_done.eq(~ends)]
        with m.Elif(head.valid & head.ready):
            m.d.sync += done.eq(done + head.payload.header.length)
        with m.If(drop):
            m.d.sync += [done.eq(0), scales_done.eq(0)]
        self._offers(head, level, queued, drop)
        self._ask(head, waves[0], address, first, of_scales, left, done)
        self._know(waves, names, level, queued, arriving, done, scales_done, left)

    def _piece(self, wave, scales_done):
        """What is to be asked for: address, bytes, first packet's number, whether it is scales."""
        if not self._config.quantizes:
            return wave["address"], wave["size"], 0, 0
        of_scales = (wave["scale_size"] != 0) & ~scales_done
        address = Mux(of_scales, wave["scale_address"], wave["address"])
        size = Mux(of_scales, wave["scale_size"], wave["size"])
        return address, size, Mux(of_scales, self._config.packets_per_wave, 0), of_scales

    def _offers(self, head, level, queued, drop):
        issuer = self.component
        self.always(
            "asks_for_waves_it_took",
            head.valid == ((queued != 0) & ~drop),
            "A request is offered from two cycles after its wave was taken until the wave's last "
            "one was taken, in every cycle, and nothing else is.",
            trace=head.valid & (level == MOST),
        )
        self.always(
            "takes_waves_while_there_is_room",
            issuer.ready == (queued < WAITING_WAVES),
            "A wave is taken while fewer than two wait, one that was just taken aside.",
            trace=~issuer.ready,
        )
        self.always(
            "has_room_for_waves",
            level <= MOST,
            "A wave that is taken finds a place.",
            trace=level == MOST,
        )
        if not self._config.recovers:
            return
        self.always(
            "asks_for_nothing_that_is_dropped",
            ~head.valid,
            "While waves are dropped nothing is asked for.",
            when=issuer.drop,
            trace=issuer.drop & (queued != 0),
        )
        self.always(
            "idle_without_a_wave",
            issuer.idle == (level == 0),
            "An issuer is idle when it has no wave, and only then.",
            trace=issuer.idle & self.past(issuer.drop & (level == 1), name="dropped"),
        )

    def _ask(self, head, wave, address, first, of_scales, left, done):
        config, header = self._config, head.payload.header
        most = config.read_request_bytes
        self.always(
            "requests_cover_the_wave",
            (header.address == (address + done)[: len(header.address)])
            & (header.length == Mux(left <= most, left, most)),
            "A wave's requests ask for its scales, if it has any, and then for its data: all "
            "bytes, in order, each once, and no more at a time than a request may.",
            when=head.valid,
            trace=head.valid & head.ready & (left < config.payload_bytes) & (done != 0),
        )
        packet = first + (done >> (config.payload_bytes - 1).bit_length())
        entry = wave["entry"] if config.waves > 1 else 0
        self.always(
            "requests_are_tagged_with_entry_and_packet",
            (header.tag == ((entry << packet_bits(config)) | packet))
            & (header.generation == wave["generation"]),
            "A request's tag is the wave's entry and its first packet's number in the wave, those "
            "of scales behind those of data; with the generation of the entry's use.",
            when=head.valid,
            trace=head.valid & (of_scales | (done != 0)) & (wave["entry"] == 1),
        )
        self.always(
            "requests_name_context_and_port",
            (header.context == self._context)
            & (header.message_class == MessageClass.READ_REQUEST)
            & (header.inc == 1)
            & (header.source == PORT)
            & (header.destination == PORT),
            "A request is the accelerator's, of its context, to its rank.",
            when=head.valid,
        )

    def _know(self, waves, names, level, queued, arriving, done, scales_done, left):
        config, inside = self._config, self.inside
        memory = inside.memory("waves.memory")
        keeps_its_place(self, "waves")
        self.lemma("as_many_waves", inside.signal("waves.level") == queued)
        register = inside.signal("waves.i__payload")
        self.lemma("arriving", inside.signal("waves.i__valid") == arriving)
        self.lemma("arriving_is_counted", ~arriving | (level != 0))
        self.lemma("room_for_two", level <= MOST)
        for place, wave in enumerate(waves):
            word = Cat(wave[name] for name in names)
            stored = memory.at(behind(memory.read_address, place, memory.words))
            self.lemma(f"wave_{place}", (queued <= place) | (stored == word))
            newest = arriving & (level == place + 1)
            self.lemma(f"wave_{place}_arrives", ~newest | (register == word))
            small = (wave["size"] != 0) & (wave["size"] <= config.wave_bytes)
            self.lemma(f"wave_{place}_has_data", (level <= place) | small)
            if config.quantizes:
                few = wave["scale_size"] <= config.scale_chunk_bytes
                self.lemma(f"wave_{place}_has_few_scales", (level <= place) | few)
        self.lemma("asked", inside.signal("asked") == done)
        self.lemma("asked_is_of_the_oldest", Mux(queued == 0, done == 0, left > 0))
        self.lemma("done_is_less", (queued == 0) | (done < self._size(waves[0], scales_done)))
        self.lemma("whole_requests", done % config.read_request_bytes == 0)
        packet = done >> (config.payload_bytes - 1).bit_length()
        self.lemma("packet", inside.signal("packet") == packet)
        if config.quantizes:
            self.lemma("scales_done", inside.signal("_scales_asked") == scales_done)
            self.lemma("scales_of_a_wave", ~scales_done | (queued != 0))

    def _size(self, wave, scales_done):
        return self._piece(wave, scales_done)[1]


def _proof(name: str, config, *faults) -> Proof:
    return Proof(
        name=name,
        component="RequestIssuer",
        size=describe(config),
        specify=lambda: RequestIssuerContract(config),
        faults=faults,
    )


PROOFS = [
    _proof(
        "request-issuer",
        SMALL,
        Fault("asks for a wave again", "asked", lambda asked: asked & 0),
        Fault("packets are not counted", "packet", lambda packet: packet & 0),
        Fault("is always ready", "ready", lambda ready: ready | 1),
    ),
    _proof(
        "request-issuer-of-contexts",
        LONG_REQUESTS,
        Fault("every field of a head is one more", "o__head__payload", lambda value: value + 1),
        Fault("is idle with a wave", "idle", lambda idle: idle | 1),
        Fault("asks for what is dropped", "o__head__valid", lambda valid: valid | 1),
    ),
    _proof(
        "request-issuer-of-codes",
        CODES,
        Fault("asks for no scales", "of_scales", lambda of_scales: of_scales & 0),
        Fault("asks for scales again", "_scales_asked", lambda asked: asked & 0),
    ),
]
