"""Registers: one table each for the switch, the system and an emulated rank.

Hardware decode, the host's names and the docs come from these tables alone.

Address: bits 15..10 name a page of 256 words, bits 9..2 a word. Page 0 is the switch, page 1 the
system around it, page 16 + r the emulated rank r. Where there is a trace buffer, page 2 has its
registers, and page 3 shows a part of its records. Where there are several contexts, page 4 counts
what goes through the ports, and page 8 + c is context c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from . import __version__
from .accelerator.outstanding import outstanding_limit
from .accelerator.recovery import WATCHDOG_BITS
from .accelerator.totals import CONTEXT_TOTALS, port_totals
from .accelerator.window import WINDOW_WORDS, WORD_BITS, window_words
from .config import DEFAULT_FORMATS, KNOWN_FORMATS, KNOWN_OPERATIONS, SwitchConfig
from .interfaces import (
    Axi4LiteSignature,
    Collective,
    Format,
    LinkState,
    Operation,
    Response,
)
from .traffic.settings import traffic_settings, traffic_totals

__all__ = [
    "IDENTITY",
    "PAGE_BYTES",
    "RANK_PAGE",
    "Axi4LiteBridge",
    "Register",
    "RegisterBank",
    "RegisterBus",
    "addresses",
    "context_page",
    "context_registers",
    "program_register",
    "join_buses",
    "port_registers",
    "rank_registers",
    "switch_registers",
    "system_registers",
    "trace_registers",
]

#: What the first register reads: "TGAT".
IDENTITY = 0x54474154
#: What an end of a link says of itself; SILENT it only hears.
LINK_STATES = (LinkState.UP, LinkState.DOWN, LinkState.CLEAN)
WORD_BYTES = 4
PAGE_WORDS = 256
PAGE_BYTES = PAGE_WORDS * WORD_BYTES
#: Pages.
SWITCH_PAGE, SYSTEM_PAGE, TRACE_PAGE, TRACE_WINDOW_PAGE, PORT_PAGE = 0, 1, 2, 3, 4
CONTEXT_PAGE, RANK_PAGE = 8, 16


@dataclass(frozen=True)
class Register:
    """One register.

    Parameters
    ----------
    name
        Also the name of the hardware port.
    access
        "ro": the hardware drives it. "rw": the host writes it, and it reads back. "wo": each write
        is a strobe ``<name>_written`` of one cycle, beside the value.
    width
        Bits, at most 64. More than 32 take two words, the low one first; reading the low word
        keeps the high one for the read that follows.
    meaning
        One line for docs.
    reset
        Reset value ("rw"), or the constant that it reads ("ro").
    constant
        It always reads ``reset``.
    """

    name: str
    access: str
    width: int
    meaning: str
    reset: int = 0
    constant: bool = False

    @property
    def words(self) -> int:
        return -(-self.width // 32)


def addresses(registers: Sequence[Register], page: int) -> dict[str, int]:
    """Byte address of each register's low word."""
    result, word = {}, 0
    for register in registers:
        result[register.name] = page * PAGE_BYTES + word * WORD_BYTES
        word += register.words
    if word > PAGE_WORDS:
        raise ValueError(f"registers: {word} words do not fit a page of {PAGE_WORDS}")
    return result


def _version_word() -> int:
    major, minor, patch = (int(part) for part in __version__.split("."))
    return major << 16 | minor << 8 | patch


def _each(config: SwitchConfig, name, access, width, meaning, reset=0) -> list[Register]:
    """A register for each rank."""
    return [
        Register(f"{name}_{rank}", access, width, f"{meaning} {rank}", reset)
        for rank in range(config.ranks)
    ]


def _format_word(config: SwitchConfig) -> str:
    """What the codes in an instruction's format word mean."""

    def codes(enum, names):
        return ", ".join(f"{enum[name.upper()].value} {name}" for name in names)

    # The presets' formats are named in any configuration: docs show one table for all.
    named = {*DEFAULT_FORMATS, *config.formats}
    parts = [codes(Format, (name for name in KNOWN_FORMATS if name in named))]
    if config.chooses_operation:
        copy = ("copy",) if config.copies else ()
        built = (name for name in KNOWN_OPERATIONS if name in config.operations)
        parts.append(f"bits 15..8: {codes(Operation, (*built, *copy))}")
    if config.chunks:
        parts.append(f"bits 23..16: {codes(Collective, (each.name for each in Collective))}")
    return "; ".join(parts).lower()


def context_page(config: SwitchConfig, context: int) -> int:
    """Where a context's registers are: with the switch's if it is the only one."""
    return SWITCH_PAGE if config.contexts == 1 else CONTEXT_PAGE + context


def context_registers(config: SwitchConfig, context: int = 0) -> list[Register]:
    """Registers of one context: posting and status, and where there are several what is its own.

    After a reset context 0 is enabled, with every rank and all of their memories.
    """
    ranks = config.ranks
    everyone = (1 << ranks) - 1

    def each(name, access, width, meaning, reset=0):
        return _each(config, name, access, width, meaning, reset)

    def quantized(*registers):
        return registers if config.quantizes else ()

    def several(*registers):
        return registers if config.contexts > 1 else ()

    def subsets(*registers):
        return registers if config.subsets else ()

    def chunks(*registers):
        return registers if config.chunks else ()

    first = int(context == 0)
    bits = config.memory_bytes.bit_length()
    return [
        *several(
            Register("enable", "rw", 1, "1: takes instructions, and has a share of the entries; "
                     "0 also ends what is queued and under way", first),
            Register("members", "rw", ranks, "ranks that belong to it; change it while idle",
                     everyone * first),
            *each("window_base", "rw", bits, "first byte that it may touch at rank"),
            *each("window_limit", "rw", bits, "end of what it may touch at rank",
                  config.memory_bytes * first),
        ),
        *subsets(
            Register("source_ranks", "rw", ranks, "ranks that the next instruction reads",
                     everyone),
            Register("destination_ranks", "rw", ranks, "ranks that it writes", everyone),
        ),
        Register("address_high", "rw", 32, "upper half of the address that is staged next"),
        *each("source", "wo", 32, "stages address_high and this as source at rank"),
        *each("destination", "wo", 32, "stages address_high and this as destination at rank"),
        *each("flag", "wo", 32, "stages address_high and this as flag at rank"),
        *quantized(
            *each("scale_source", "wo", 32, "stages address_high and this as scales' source at"
                  " rank"),
            *each("scale_destination", "wo", 32, "stages address_high and this as scales'"
                  " destination at rank"),
        ),
        Register("length", "rw", 64, "bytes of each rank's operand"),
        Register("format", "rw", 32, _format_word(config)),
        *chunks(
            Register("chunk", "rw", 64, "bytes of a chunk, where the collective has them"),
        ),
        Register("post", "wo", 1, "checks the staged instruction and queues it"),
        Register("post_busy", "ro", 1, "the check goes on"),
        Register("post_code", "ro", 8, "status code of the last post"),
        Register("post_rank", "ro", 4, "rank that the code speaks of"),
        Register("operations", "ro", 32, "operations ended since reset"),
        Register("last_code", "ro", 8, "status code of the operation that ended last"),
        Register("last_rank", "ro", 4, "rank that the code speaks of"),
        Register("last_epoch", "ro", 32, "its epoch"),
        Register("last_waves", "ro", 32, "waves of it that every rank has acknowledged"),
        Register("epoch", "ro", 32, "epoch whose arrivals are being collected"),
        Register("arrived", "ro", config.ranks, "ranks that have arrived for it"),
        *(recovery_registers(config) if config.recovers else ()),
    ]  # fmt: skip


def recovery_registers(config: SwitchConfig) -> list[Register]:
    """Registers of one context that say what it does when something does not come."""
    owed = outstanding_limit(config).bit_length()
    return [
        Register("in_band", "rw", 1,
                 "1: instructions come from the members' windows, not from here; change it while"
                 " idle"),
        Register("watchdog", "rw", WATCHDOG_BITS,
                 "cycles without progress that end an operation; 0: none do"),
        Register("abort", "wo", 1, "ends what is queued and under way"),
        Register("failing", "ro", 1, "1 from a failure until flags are sent"),
        Register("draining", "ro", config.ranks, "ranks that still owe answers from before"),
        Register("unreachable", "ro", config.ranks, "members that refuse an instruction as yet"),
        Register("aborts", "ro", 16, "how often operations were ended since reset"),
        Register("abort_code", "ro", 8, "status code of the last time"),
        Register("abort_rank", "ro", 4, "rank that the code speaks of"),
        *(
            Register(f"total_{total.name}", "ro", total.bits, f"{total.meaning}, since clear")
            for total in CONTEXT_TOTALS
        ),
        *_each(config, "owed_reads", "ro", owed, "packets of read data owed by rank"),
        *_each(config, "owed_writes", "ro", owed, "write responses owed by rank"),
    ]  # fmt: skip


def switch_registers(config: SwitchConfig) -> list[Register]:
    """Registers of the switch: identity, those of its context if it has one, counters."""

    def each(name, access, width, meaning):
        return _each(config, name, access, width, meaning)

    def forwarded(*registers):
        return registers if config.forwards else ()

    def quantized(*registers):
        return registers if config.quantizes else ()

    def recovering(registers):
        return registers if config.recovers else ()

    sticky = ["a sum is NaN", "an overflow"] + (
        ["a scale is NaN", "a block is clamped"] if config.quantizes else []
    )
    events = ", ".join(f"bit {bit} {event}" for bit, event in enumerate(sticky))
    return [
        Register("identity", "ro", 32, "reads 0x54474154", IDENTITY, constant=True),
        Register("version", "ro", 32, "major, minor, patch", _version_word(), constant=True),
        Register(
            "config_digest", "ro", 32, "first 8 digits of the configuration's digest",
            int(config.digest[:8], 16), constant=True,
        ),
        Register(
            "geometry", "ro", 32, "ranks (bits 7..0), flit bytes (15..8)",
            config.ranks | config.flit_bytes << 8, constant=True,
        ),
        *(context_registers(config) if config.contexts == 1 else ()),
        Register("refused_arrivals", "ro", 32, "arrivals that were answered with an error"),
        Register("stray_responses", "ro", 32, "responses that nobody waited for, dropped"),
        Register("flag_errors", "ro", 32, "flags whose write was answered with an error"),
        *forwarded(
            Register("core_refused", "ro", 32, "ordinary requests without a place in the map"),
            Register("core_dropped", "ro", 32, "ordinary answers without a rank to go to"),
        ),
        Register("values_nan", "ro", 32, "flits of results that held a NaN, since reset"),
        Register("values_overflow", "ro", 32,
                 "flits in which finite operands gave an infinity, since reset"),
        *quantized(
            Register("blocks_nan", "ro", 32, "blocks whose scale became NaN, since reset"),
            Register("blocks_overflow", "ro", 32,
                     "blocks whose scale is the largest finite one, codes clamped, since reset"),
        ),
        *recovering(
            [
                Register("soft_reset", "wo", 1, "ends what every context has queued and under way"),
                Register("forget", "wo", config.ranks,
                         "ranks whose link was reset: what they owe will never come"),
            ]
        ),
        Register("clear", "wo", 1, "sets what stands below to zero"),
        Register("sticky", "ro", len(sticky), f"what happened since clear: {events}"),
        Register("first_request", "ro", 32, "cycle of the first read request since clear"),
        Register("last_response", "ro", 32, "cycle of the last data write response"),
        Register("reading_max", "ro", 8, "most waves reading at once"),
        Register("reading_sum", "ro", 48, "waves reading, summed over cycles"),
        Register("writing_max", "ro", 8, "most waves in their write phase at once"),
        Register("writing_sum", "ro", 48, "waves in their write phase, summed over cycles"),
        Register("stall_barrier", "ro", 32, "cycles an operation waited for its barrier"),
        Register("stall_entries", "ro", 32, "cycles a wave waited for a wave table entry"),
        *each("stall_data", "ro", 32, "cycles the oldest wave waited for data of rank"),
        *each("stall_write_room", "ro", 32, "cycles a packet waited for write-back room at port"),
        *each("stall_request_credits", "ro", 32, "cycles a request waited for credits at port"),
        *forwarded(
            *each("sent_inc", "ro", 32, "flits of the accelerator to rank"),
            *each("sent_ordinary", "ro", 32, "ordinary flits to rank"),
            *each("received_inc", "ro", 32, "flits for the accelerator from rank"),
            *each("received_ordinary", "ro", 32, "ordinary flits from rank"),
        ),
    ]  # fmt: skip


def port_registers(config: SwitchConfig) -> list[Register]:
    """What goes through the switch's ports and how it ends, where there are several contexts."""
    states = ", ".join(f"{each.value} {each.name}" for each in LINK_STATES)
    return [
        *(
            register
            for total in port_totals(config)
            for register in _each(
                config, total.name, "ro", total.bits, f"{total.meaning} since clear, rank"
            )
        ),
        *_each(config, "link_state", "ro", 2, f"{states}; of the link's end at the port of rank"),
    ]


def system_registers(config: SwitchConfig) -> list[Register]:
    """Registers of the system around the switch."""
    traffic = [
        Register("traffic_go", "wo", 1, "starts every rank's traffic generator in the same cycle"),
        Register("traffic_done", "ro", config.ranks,
                 "ranks whose ordinary requests are all answered"),
    ]  # fmt: skip
    links = [
        Register("links_up", "rw", config.ranks,
                 "ranks whose links carry what is sent; the others' lose it",
                 (1 << config.ranks) - 1),
    ]  # fmt: skip
    starts = [
        Register("go", "wo", 1, "starts every rank's program in the same cycle"),
        Register("done", "ro", config.ranks, "ranks whose program has ended"),
    ]
    if config.contexts > 1:
        starts = [
            Register("go", "wo", config.contexts,
                     "bit a context: starts every rank's program for it in the same cycle"),
            Register("done", "ro", config.ranks, "ranks whose programs have all ended"),
            Register("context_done", "ro", config.contexts,
                     "contexts for which every rank's program has ended"),
        ]  # fmt: skip
    return [
        *starts,
        Register("link_latency", "rw", 15,
                 "cycles of each link, held to 2..link_latency_max; change it while idle",
                 config.link_latency),
        *(links if config.recovers else ()),
        Register("now", "ro", 32, "cycles since reset"),
        *(traffic if config.forwards else ()),
    ]  # fmt: skip


def trace_registers(config: SwitchConfig) -> list[Register]:
    """Registers of the trace buffer."""
    return [
        Register("record", "rw", 1, "1 records, 0 stops", 1),
        Register("operations", "rw", 16,
                 "so many operations that end after clear freeze the buffer; 0: none does"),
        Register("window", "rw", 16, "part of the buffer that page 3 shows"),
        Register("clear", "wo", 1, "empties the buffer, and sets what stands below to zero"),
        Register("frozen", "ro", 1, "nothing is recorded until clear"),
        Register("ended", "ro", 16, "operations that have ended since clear; frozen, it stands"),
        Register("recorded", "ro", 48, "records since clear; the last trace_records are kept"),
        Register("missed", "ro", 48, "cycles with events since clear that were not recorded"),
    ]  # fmt: skip


def program_register(config: SwitchConfig, name: str, context: int) -> str:
    """Name of a register that a rank has for each context: itself where there is only one."""
    return name if config.contexts == 1 else f"{name}_{context}"


def program_registers(config: SwitchConfig, context: int = 0) -> tuple[list, list]:
    """What an emulated rank is told of its part in a context, and what came of it."""
    first = int(config.contexts == 1)  # several: who takes part is said for each

    def register(name, access, width, meaning, reset=0):
        return Register(program_register(config, name, context), access, width, meaning, reset)

    settings = [
        register("count", "rw", 16, "operations that the program takes part in", first),
        register("epoch", "rw", 32, "epoch of the first", 1),
        register("delay", "rw", 32, "cycles before each arrival"),
        register("flag_address", "rw", config.address_bits, "where this rank's flags are written"),
    ]
    if config.contexts > 1:
        settings.append(register("posts", "rw", 1, "it writes these before each arrival"))
        settings += [
            register(
                f"window_{name}",
                "rw",
                WORD_BITS,
                f"word {number} of its window: {WINDOW_WORDS[name]}",
            )
            for number, name in enumerate(window_words(config))
            if number
        ]
    results = [
        register("arrive_time", "ro", 32, "cycle in which the last arrival was issued"),
        register("flag_time", "ro", 32, "cycle in which the last flag was in memory"),
        register("flag", "ro", 64, "the last flag"),
    ]
    return settings, results


def fault_registers(config: SwitchConfig) -> list[Register]:
    """How an emulated rank fails, where contexts outlive that."""
    return [
        Register("hold", "rw", 5, "channels ar, r, aw, w and b that stand still"),
        Register("bad_read", "rw", config.address_bits, "flit whose reads end with read_error"),
        Register("read_error", "rw", 2, "AXI response of that flit's reads; 0: as others"),
        Register("bad_write", "rw", config.address_bits, "flit whose writes end with write_error"),
        Register("write_error", "rw", 2, "AXI response of that flit's writes; 0: as others"),
        Register("hasty", "rw", config.contexts,
                 "bit a context: its program waits for no flag"),
    ]  # fmt: skip


def rank_registers(config: SwitchConfig) -> list[Register]:
    """Registers of one emulated rank."""
    programs = [program_registers(config, context) for context in range(config.contexts)]
    settings, results = ([r for program in programs for r in program[part]] for part in (0, 1))
    traffic = [
        Register("read_first", "rw", 1, "no write beat is taken while a read waits"),
        *(
            Register(f"traffic_{value.name}", "rw", value.width, value.meaning, value.reset)
            for value in traffic_settings(config)
        ),
        *(
            Register(f"traffic_{value.name}", "ro", value.width, value.meaning)
            for value in traffic_totals(config)
        ),
    ]
    return [
        *settings,
        Register("memory_latency", "rw", 15, "cycles from a read address to its first beat",
                 config.memory_latency),
        Register("write_latency", "rw", 15, "cycles from a last write beat to its response", 1),
        Register("jitter", "rw", 10, "at most so many cycles more, at random"),
        Register("stalls", "rw", 40, "chance of a stall, of 256, for ar, r, aw, w and b"),
        Register("seed", "rw", 32, "of jitter and stalls; writing it starts them anew"),
        *results,
        Register("refused", "ro", 16, "arrivals that the switch refused"),
        *(fault_registers(config) if config.recovers else ()),
        *(traffic if config.forwards else ()),
    ]  # fmt: skip


class RegisterBus(wiring.Signature):
    """Word-wide access, answered two cycles later.

    ``write`` or ``read`` is up for one cycle, beside ``page``, ``word`` and ``write_data``. Two
    cycles later ``known`` says whether that address is a register's, and ``read_data`` is what it
    read, else 0. Of banks on other pages both are 0, so that answers are joined by an OR.
    """

    def __init__(self):
        super().__init__(
            {
                "page": Out(6),
                "word": Out(8),
                "write": Out(1),
                "write_data": Out(32),
                "read": Out(1),
                "read_data": In(32),
                "known": In(1),
            }
        )


def join_buses(m: Module, bus, buses: Sequence):
    """Lead `bus` to several: each sees every access; the others of the one it is for give zeros."""
    read_data, known = 0, Cat(each.known for each in buses)
    for each in buses:
        for name in ("page", "word", "write", "write_data", "read"):
            m.d.comb += getattr(each, name).eq(getattr(bus, name))
        read_data = read_data | each.read_data
    m.d.comb += [bus.read_data.eq(read_data), bus.known.eq(known.any())]


class RegisterBank(wiring.Component):
    """The registers of one table.

    Members
    -------
    bus : access (`RegisterBus`)
    written_data : the word that is being written, beside the strobes
    one port a register that is not constant, by its name, and ``<name>_written`` for "wo" and "rw"

    Timing
    ------
    Strobes come one cycle behind ``write``. An access is registered first, so that each bank
    selects among its words with copies of its own, and may stand where its registers are.

    Writing one word of a wide register leaves the other as it is.
    """

    def __init__(self, registers: Sequence[Register], *, page: int):
        self._registers = tuple(registers)
        self._page = page
        members = {"bus": In(RegisterBus()), "written_data": Out(32)}
        for register in self._registers:
            if register.constant:
                continue
            if register.access == "ro":
                members[register.name] = In(register.width)
            else:
                members[register.name] = Out(register.width, init=register.reset)
                members[f"{register.name}_written"] = Out(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        words = [(register, part) for register in self._registers for part in range(register.words)]
        self._word, self._writes, self._reads = Signal(8), Signal(), Signal()
        asked, known = Signal(), Signal()
        here = bus.page == self._page
        m.d.sync += [
            asked.eq(here),
            self._word.eq(bus.word),
            self.written_data.eq(bus.write_data),
            self._writes.eq(here & bus.write),
            self._reads.eq(here & bus.read),
        ]
        # Only the bits that tell the words apart, so that the selection is a tree of few levels.
        index = self._word[: max(1, (len(words) - 1).bit_length())]
        value = Signal(32)
        contents = [self._read(m, register, part) for register, part in words]
        with m.Switch(index):
            for number, content in enumerate(contents):
                with m.Case(number):
                    m.d.comb += value.eq(content)
        m.d.comb += known.eq(asked & (self._word < len(words)))
        m.d.sync += [
            bus.known.eq(known),
            bus.read_data.eq(Mux(known & self._reads, value, 0)),
        ]
        for number, (register, part) in enumerate(words):
            self._write(m, register, part, number)
        return m

    def _read(self, m, register, part):
        """What a word reads."""
        if register.access == "wo":
            return 0
        if register.constant:
            return register.reset >> (32 * part) & 0xFFFFFFFF
        if register.access == "ro" and part == 1:
            return self._kept(m, register)
        return getattr(self, register.name)[32 * part : 32 * part + 32]

    def _kept(self, m, register):
        """The high word as it was when the low word was read."""
        kept = Signal(register.width - 32, name=f"{register.name}_kept")
        words = addresses(self._registers, 0)
        with m.If(self._reads & (self._word == words[register.name] // WORD_BYTES)):
            m.d.sync += kept.eq(getattr(self, register.name)[32:])
        return kept

    def _write(self, m, register, part, number):
        if register.access == "ro":
            return
        value = getattr(self, register.name)
        written = getattr(self, f"{register.name}_written")
        strobe = Signal(name=f"{register.name}_{part}_strobe")
        m.d.comb += strobe.eq(self._writes & (self._word == number))
        if register.access == "wo":
            m.d.comb += [value.eq(self.written_data), written.eq(strobe)]
            return
        with m.If(strobe):
            m.d.sync += value[32 * part : 32 * part + 32].eq(self.written_data)
            m.d.comb += written.eq(1)


class Axi4LiteBridge(wiring.Component):
    """AXI4-Lite to `RegisterBus`, one access at a time.

    Members
    -------
    axil : the bus (`Axi4LiteSignature`, subordinate)
    bus : to the banks; ``read_data`` and ``known`` are the banks' answers joined

    Timing
    ------
    An access takes four cycles, its answer among them. Address and data of a write may come in any
    order. Unknown addresses and partial strobes are answered with DECERR and SLVERR and change
    nothing.
    """

    def __init__(self):
        super().__init__({"axil": In(Axi4LiteSignature()), "bus": Out(RegisterBus())})

    def elaborate(self, platform):
        m = Module()
        axil, bus = self.axil, self.bus
        response = Signal(Response)
        writing = axil.awvalid & axil.wvalid
        address = Mux(writing, axil.awaddr, axil.araddr)
        whole = axil.wstrb.all()
        writes, partial = Signal(), Signal()  # of the access under way
        m.d.comb += [
            bus.page.eq(address[10:]),
            bus.word.eq(address[2:]),
            bus.write_data.eq(axil.wdata),
            axil.bresp.eq(response),
            axil.rresp.eq(response),
        ]
        with m.FSM(name="bridge"):
            with m.State("IDLE"):
                m.d.sync += [writes.eq(writing), partial.eq(writing & ~whole)]
                with m.If(writing):
                    m.d.comb += [axil.awready.eq(1), axil.wready.eq(1), bus.write.eq(whole)]
                    m.next = "SELECTED"
                with m.Elif(axil.arvalid):
                    m.d.comb += [axil.arready.eq(1), bus.read.eq(1)]
                    m.next = "SELECTED"
            with m.State("SELECTED"):
                m.next = "ANSWERED"
            with m.State("ANSWERED"):
                bad = Mux(partial, Response.SLVERR, Response.OKAY)
                m.d.sync += [
                    axil.rdata.eq(bus.read_data),
                    response.eq(Mux(bus.known, bad, Response.DECERR)),
                ]
                with m.If(writes):
                    m.next = "WRITTEN"
                with m.Else():
                    m.next = "READ"
            with m.State("WRITTEN"):
                m.d.comb += axil.bvalid.eq(1)
                with m.If(axil.bready):
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += axil.rvalid.eq(1)
                with m.If(axil.rready):
                    m.next = "IDLE"
        return m
