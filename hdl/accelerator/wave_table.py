"""One rank's wave table: where its read data waits for the other ranks'."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import SwitchConfig
from ..interfaces import Beat, Response
from ..stream import delayed
from .layouts import block_flits, context_bits, entry_bits, flit_scale_bits, packet_bits
from .wave_controller import GENERATION_BITS, Reservation

__all__ = ["READ_DELAY", "LookUp", "WaveTable", "read_delay"]

#: Cycles from ``read_enable`` to ``data``: block RAM, and a register, since a block RAM's output
#: comes too late in its cycle for arithmetic behind it.
READ_DELAY = 2


class LookUp(wiring.Signature):
    """One context's question to a wave table.

    ``entry`` is the one to ask about; ``ready``: all its packets are there, and it was not taken
    yet; ``taken``: it is taken for read-out; ``response``: the worst AXI response among its beats.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "entry": Out(entry_bits(config)),
                "taken": Out(1),
                "ready": In(1),
                "response": In(Response),
            }
        )


def read_delay(config: SwitchConfig) -> int:
    """Cycles from ``read_enable`` to ``data``: what to read may be registered on its way here."""
    return READ_DELAY + config.sliced


class WaveTable(wiring.Component):
    """Entries of a wave each, filled by tag in any order.

    Members
    -------
    reserve : an entry is taken; from now on its packets have a place
    i : read data, taken at once and always
    look_ups : by context (`LookUp`)
    read_enable, read_entry, read_flit : read this flit; ``data`` follows `read_delay` cycles later,
        and where quantized operations are built ``scales``, those of the flit's block or blocks
    stray : a packet came that nobody waits for; it was dropped

    Timing
    ------
    One flit in and one out each cycle. ``ready`` rises one cycle after the last beat.

    With register slices ``ready`` and ``response`` answer to ``entry`` one cycle later, and
    ``taken`` counts one cycle later.

    Ordering
    --------
    Packets of an entry, and entries, in any order. Each packet has a bit of its own, so a second
    answer to one request is noticed and dropped, as is one with an old generation, one for another
    context than the entry's, and one for an entry that was taken without it. A packet longer than a
    payload is cut, never written beyond its place.

    Errors
    ------
    An answer without payload counts as SLVERR unless it says DECERR. That a packet has as many
    flits as were asked for is the endpoint's part, and not checked.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        members = {
            "reserve": In(Reservation(config)),
            "i": In(stream.Signature(Beat(config), always_ready=True)),
            "look_ups": In(LookUp(config)).array(config.contexts),
            "read_enable": In(1),
            "read_entry": In(entry_bits(config)),
            "read_flit": In(range(config.wave_flits)),
            "data": Out(config.flit_bits),
            "stray": Out(1),
        }
        if config.quantizes:
            members["scales"] = Out(flit_scale_bits(config))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        packets = config.packets_per_wave + config.scale_packets
        arrived = Array(
            Signal(packets, name=f"arrived_{entry}", init=(1 << packets) - 1)
            for entry in range(config.waves)
        )
        complete = Array(Signal(name=f"complete_{entry}") for entry in range(config.waves))
        generation = Array(
            Signal(GENERATION_BITS, name=f"generation_{entry}") for entry in range(config.waves)
        )
        response = Array(Signal(2, name=f"response_{entry}") for entry in range(config.waves))

        beat = self.i.payload
        tag_packet = beat.header.tag[: packet_bits(config)]
        tag_entry = self._entry(beat.header.tag[packet_bits(config) :])
        owned = self._owned(m, beat.header.context, tag_entry)
        place = Signal(packets)  # one-hot
        expected = Signal()
        m.d.comb += [
            place.eq(1 << tag_packet),
            expected.eq(
                (generation[tag_entry] == beat.header.generation)
                & ~(arrived[tag_entry] & place).any()
                & (beat.header.tag >> packet_bits(config) < config.waves)
                & (tag_packet < packets)
                & owned
            ),
        ]
        taken = self.i.valid & expected
        self._store(m, beat, taken, tag_entry, tag_packet)

        # An answer without data is an error, whatever its status says.
        status = beat.header.status.as_value()
        refusal = Mux(status == Response.DECERR, Response.DECERR, Response.SLVERR)
        worst = Mux(beat.empty, refusal, beat.response)
        m.d.comb += [
            self.stray.eq(self.i.valid & beat.last & ~expected),
        ]
        domain = "sync" if config.sliced else "comb"
        gone = []
        for number, look_up in enumerate(self.look_ups):
            asked = self._entry(look_up.entry)
            m.d[domain] += [
                look_up.ready.eq(complete[asked]),
                look_up.response.eq(response[asked]),
            ]
            taken_now = delayed(m, look_up.taken, f"gone_{number}", when=config.sliced)
            gone.append((taken_now, delayed(m, asked, f"gone_entry_{number}", when=config.sliced)))
        for entry in range(config.waves):
            here = taken & (tag_entry == entry)
            with m.If(here & (worst > response[entry])):
                m.d.sync += response[entry].eq(worst)
            with m.If(here & beat.last):
                m.d.sync += [
                    arrived[entry].eq(arrived[entry] | place),
                    complete[entry].eq((arrived[entry] | place).all()),
                ]
            for taken_now, gone_entry in gone:
                with m.If(taken_now & (gone_entry == entry)):
                    m.d.sync += complete[entry].eq(0)
                    if config.recovers:  # what has not come is not waited for any more
                        m.d.sync += arrived[entry].eq(-1)
            with m.If(self.reserve.valid & (self._entry(self.reserve.entry) == entry)):
                m.d.sync += [
                    arrived[entry].eq(self.reserve.absent),
                    generation[entry].eq(self.reserve.generation),
                    response[entry].eq(Response.OKAY),
                ]
        return m

    def _owned(self, m, context, entry):
        """Whether an entry is the context's, where there are several."""
        config = self._config
        if config.contexts == 1:
            return 1
        owners = Array(Signal(context_bits(config), name=f"owner_{e}") for e in range(config.waves))
        for number, owner in enumerate(owners):
            with m.If(self.reserve.valid & (self._entry(self.reserve.entry) == number)):
                m.d.sync += owner.eq(self.reserve.context)
        return owners[entry] == context

    def _entry(self, value):
        """The bits of `value` that number an entry; none where there is only one."""
        return value[: (self._config.waves - 1).bit_length()]

    def _store(self, m, beat, taken, tag_entry, tag_packet):
        """Write each beat where its tag says; read a flit, and its scales."""
        config = self._config
        index = Signal(range(config.payload_flits + 1))  # in the packet
        position = Signal.like(index)
        m.d.comb += position.eq(Mux(beat.first, 0, index))
        with m.If(self.i.valid & (position != config.payload_flits)):
            m.d.sync += index.eq(position + 1)
        stored = Signal()
        m.d.comb += stored.eq(taken & ~beat.empty & (position != config.payload_flits))
        self._fetch, read_flit, self._fetch_entry = (
            delayed(m, value, name, when=config.sliced)
            for value, name in (
                (self.read_enable, "fetch"),
                (self.read_flit, "fetch_flit"),
                (self._entry(self.read_entry), "fetch_entry"),
            )
        )
        self._fetched = Signal()
        m.d.sync += self._fetched.eq(self._fetch)
        of_data = tag_packet < config.packets_per_wave if config.quantizes else 1
        flit = tag_packet * config.payload_flits + position
        fetched = self._memory(
            m, "data", config.wave_flits, (stored & of_data, tag_entry, flit, beat.data),
            read_flit,
        )  # fmt: skip
        with m.If(self._fetched):
            m.d.sync += self.data.eq(fetched)
        if config.quantizes:
            flit = (tag_packet - config.packets_per_wave) * config.payload_flits + position
            self._store_scales(m, (stored & ~of_data, tag_entry, flit, beat.data), read_flit)

    def _store_scales(self, m, written, read_flit):
        """Scales stand in a memory of their own, so that both are read in the same cycle."""
        bits = flit_scale_bits(self._config)
        parts = self._config.flit_bits // bits  # of a flit of scales
        part = read_flit >> exact_log2(block_flits(self._config))
        fetched = self._memory(
            m, "scales", self._config.scale_flits, written, part >> exact_log2(parts)
        )
        select = Signal(range(parts))
        m.d.sync += select.eq(part)
        with m.If(self._fetched):
            m.d.sync += self.scales.eq(fetched.word_select(select, bits))

    def _memory(self, m, name, flits, written, read_flit):
        """A memory of so many flits an entry, a write and a read port; what was read."""
        enable, entry, flit, data = written
        flit_bits = (flits - 1).bit_length()
        m.submodules[name] = memory = Memory(
            shape=self._config.flit_bits,
            depth=self._config.waves << flit_bits,
            init=[],
            # Small ones, too: a flit is wide, and small devices are short of LUTs first.
            attrs={"ram_style": "block"},
        )
        write = memory.write_port()
        read = memory.read_port()
        m.d.comb += [
            write.en.eq(enable),
            write.addr.eq(Cat(flit[:flit_bits], entry)),
            write.data.eq(data),
            read.en.eq(self._fetch),
            read.addr.eq(Cat(read_flit[:flit_bits], self._fetch_entry)),
        ]
        return read.data
