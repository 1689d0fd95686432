"""The switch: ports, the in-switch accelerator, registers."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .accelerator.accelerator import Accelerator
from .accelerator.address_check import WORD_SHIFT
from .accelerator.counters import Counters
from .accelerator.layouts import address_kinds
from .accelerator.outstanding import outstanding_limit
from .accelerator.totals import CONTEXT_TOTALS, Totals, port_totals
from .accelerator.trace import RankTrace, WaveTrace
from .accelerator.trace_buffer import TraceBuffer
from .config import SwitchConfig
from .interfaces import LinkSignature, LinkState, Response, is_inc
from .registers import (
    PORT_PAGE,
    SWITCH_PAGE,
    RegisterBank,
    RegisterBus,
    context_page,
    context_registers,
    join_buses,
    port_registers,
    switch_registers,
)
from .transport.channels import accelerator_sources
from .transport.core import Core
from .transport.port import Port

__all__ = ["Switch", "observers"]


def observers(config: SwitchConfig) -> dict:
    """The member with every context's waves: ``trace``, or where there are several ``traces``."""
    trace = Out(WaveTrace(config))
    return {"trace": trace} if config.contexts == 1 else {"traces": trace.array(config.contexts)}


class Switch(wiring.Component):
    """N ports with the accelerator behind them.

    Members
    -------
    rx, tx : by rank, the link from and to it
    bus : registers (`RegisterBus`, page 0; with a trace buffer also its pages)
    now : cycles since reset, for time stamps
    trace, rank_trace : for observers (see `observers`)
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks = config.ranks
        super().__init__(
            {
                "rx": In(LinkSignature(config)).array(ranks),
                "tx": Out(LinkSignature(config)).array(ranks),
                "bus": In(RegisterBus()),
                "now": In(32),
                **observers(config),
                "rank_trace": Out(RankTrace(config)).array(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.accelerator = accelerator = Accelerator(config)
        m.submodules.registers = registers = RegisterBank(
            switch_registers(config), page=SWITCH_PAGE
        )
        m.submodules.counters = counters = Counters(config)
        starved = Signal(config.ranks)
        ports = []
        for rank in range(config.ranks):
            m.submodules[f"port_{rank}"] = port = Port(config)
            inside = accelerator.ports[rank]
            connect(m, flipped(self.rx[rank]), port.rx)
            connect(m, port.tx, flipped(self.tx[rank]))
            for name in ("read_data", "write_responses", "arrivals"):
                connect(m, getattr(port, name), getattr(inside, name))
            for spec in accelerator_sources(config):
                connect(m, getattr(inside, spec.name), getattr(port, spec.name))
            connect(m, accelerator.rank_trace[rank], flipped(self.rank_trace[rank]))
            m.d.comb += starved[rank].eq(port.starved)
            ports.append(port)
        for inside, outside in zip(accelerator.traces, self._traces(), strict=True):
            connect(m, inside, flipped(outside))
        self._clear = registers.clear_written
        if config.recovers:
            self._soft_reset = registers.soft_reset_written
            self._watch_links(m, registers, accelerator, ports)
        banks = self._context_banks(m, registers)
        for context, bank in enumerate(banks):
            self._context(m, context, bank, accelerator)
        buses = [bank.bus for bank in dict.fromkeys((registers, *banks))]
        if config.recovers:
            m.submodules.port_registers = counted = RegisterBank(
                port_registers(config), page=PORT_PAGE
            )
            self._count_ports(m, counted, accelerator, ports)
            buses.append(counted.bus)
        if config.trace_records:
            buses.append(self._trace(m, accelerator))
        join_buses(m, self.bus, buses)
        if config.forwards:
            self._forward(m, registers, ports)
        self._count(m, registers, accelerator, counters, starved)
        self._report(m, registers, accelerator)
        return m

    def _traces(self):
        """The observers' ports, by context."""
        return [self.trace] if self._config.contexts == 1 else self.traces

    def _context_banks(self, m, registers):
        """By context, the registers that have it: the switch's own, or a page each."""
        config = self._config
        if config.contexts == 1:
            return [registers]
        banks = []
        for context in range(config.contexts):
            bank = RegisterBank(
                context_registers(config, context), page=context_page(config, context)
            )
            m.submodules[f"registers_{context}"] = bank
            banks.append(bank)
        return banks

    def _trace(self, m, accelerator):
        m.submodules.trace_buffer = buffer = TraceBuffer(self._config)
        connect(m, accelerator.traces[0], buffer.trace)
        for seen, kept in zip(accelerator.rank_trace, buffer.rank_trace, strict=True):
            connect(m, seen, kept)
        m.d.comb += [buffer.now.eq(self.now), buffer.ended.eq(accelerator.ended[0].valid)]
        return buffer.bus

    def _forward(self, m, registers, ports):
        """Ordinary packets from port to port, and what becomes of those without a way."""
        m.submodules.core = core = Core(self._config)
        for rank, port in enumerate(ports):
            for name in Core.CLASSES:
                connect(m, getattr(port, f"to_core_{name}"), getattr(core, name)[rank])
                connect(m, getattr(core, f"core_{name}")[rank], getattr(port, f"core_{name}"))
        for name in ("refused", "dropped"):
            total = Signal(32, name=f"core_{name}_total")
            events = [bit for port in ports for bit in getattr(port, name)]
            m.d.sync += total.eq(total + sum(events))
            m.d.comb += getattr(registers, f"core_{name}").eq(total)
        for rank, port in enumerate(ports):
            for way, link in (("sent", port.tx), ("received", port.rx)):
                self._count_flits(m, registers, f"{way}_inc_{rank}", link, True)
                self._count_flits(m, registers, f"{way}_ordinary_{rank}", link, False)

    def _count_flits(self, m, registers, name, link, inc):
        """Flits of a link that are the accelerator's, or that are not."""
        total, seen = Signal(32, name=f"total_{name}"), Signal(name=f"seen_{name}")
        m.d.sync += [
            seen.eq(link.valid & (is_inc(link.flit.channel) == inc)),
            total.eq(Mux(registers.clear_written, 0, total + seen)),
        ]
        m.d.comb += getattr(registers, name).eq(total)

    def _context(self, m, context, registers, accelerator):
        """One context's registers: instructions, status, and what it may do."""
        config, posting = self._config, accelerator.postings[context]
        for kind in address_kinds(config):
            for rank in range(config.ranks):
                written = getattr(registers, f"{kind}_{rank}_written")
                m.d.comb += getattr(posting, f"stage_{kind}")[rank].eq(written)
        m.d.comb += [
            posting.address.eq(Cat(registers.written_data, registers.address_high)),
            posting.length.eq(registers.length),
            posting.format.eq(registers.format),
            posting.post.eq(registers.post_written),
            registers.post_busy.eq(posting.busy),
            registers.post_code.eq(posting.code),
            registers.post_rank.eq(posting.rank),
            registers.epoch.eq(accelerator.epochs[context]),
            registers.arrived.eq(accelerator.arrived[context]),
        ]
        if config.subsets:
            m.d.comb += [
                posting.source_ranks.eq(registers.source_ranks),
                posting.destination_ranks.eq(registers.destination_ranks),
                accelerator.members[context].eq(
                    registers.members if config.contexts > 1 else (1 << config.ranks) - 1
                ),
            ]
        if config.chunks:
            m.d.comb += posting.chunk.eq(registers.chunk)
        if config.contexts > 1:
            m.d.comb += accelerator.enabled[context].eq(registers.enable)
            for rank, window in enumerate(accelerator.windows[context]):
                m.d.comb += [
                    window.base.eq(getattr(registers, f"window_base_{rank}") >> WORD_SHIFT),
                    window.limit.eq(getattr(registers, f"window_limit_{rank}") >> WORD_SHIFT),
                ]
        if config.recovers:
            self._watch(m, context, registers, accelerator)
        self._keep_last(m, context, registers, accelerator.ended[context])

    def _watch(self, m, context, registers, accelerator):
        """What a context does when something does not come."""
        upkeep = accelerator.upkeep[context]
        m.d.comb += [
            upkeep.watchdog.eq(registers.watchdog),
            upkeep.abort.eq(registers.abort_written | self._soft_reset),
            upkeep.in_band.eq(registers.in_band),
        ]
        m.submodules[f"totals_{context}"] = totals = Totals(CONTEXT_TOTALS)
        m.d.comb += totals.clear.eq(self._clear)
        for total in CONTEXT_TOTALS:
            name = f"total_{total.name}"
            m.d.comb += [
                getattr(totals, total.name).eq(getattr(upkeep, total.name)),
                getattr(registers, name).eq(getattr(totals, name)),
            ]
        counted = [total.name for total in CONTEXT_TOTALS]
        for name, member in upkeep.signature.members.items():
            if member.flow is Out and name not in counted:
                m.d.comb += getattr(registers, name).eq(getattr(upkeep, name))
        width = outstanding_limit(self._config).bit_length()
        for rank in range(self._config.ranks):
            for kind in ("owed_reads", "owed_writes"):
                owed = getattr(accelerator, kind)[rank].word_select(context, width)
                m.d.comb += getattr(registers, f"{kind}_{rank}").eq(owed)

    def _keep_last(self, m, context, registers, ended):
        """How many operations have ended, and what became of the last."""
        total, seen = Signal(32, name=f"operations_{context}"), Signal(name=f"ended_{context}")
        # Registered first: counting adds nothing to the events' paths.
        m.d.sync += [seen.eq(ended.valid), total.eq(total + seen)]
        m.d.comb += registers.operations.eq(total)
        for name in ("code", "rank", "epoch", "waves"):
            kept = Signal.like(getattr(ended, name), name=f"last_{name}_{context}")
            m.d.comb += getattr(registers, f"last_{name}").eq(kept)
            with m.If(ended.valid):
                m.d.sync += kept.eq(getattr(ended, name))

    def _watch_links(self, m, registers, accelerator, ports):
        """Which links are up, and what that means for what is owed and under way."""
        up = Signal(self._config.ranks, name="links_up")
        forgotten = Mux(registers.forget_written, registers.forget, 0)
        m.d.comb += [
            up.eq(Cat(port.state == LinkState.UP for port in ports)),
            accelerator.up.eq(up),
            accelerator.lost.eq(forgotten | ~up),
        ]
        for rank, port in enumerate(ports):
            # Ordinary packets that found the link UP and wait for their turn to go there.
            coming = Cat(
                getattr(other, f"to_core_{name}").valid
                & getattr(other, f"to_core_{name}").payload.target[rank]
                for other in ports
                for name in (Core.CLASSES if self._config.forwards else ())
            )
            m.d.comb += [
                port.reachable.eq(up),
                port.quiet.eq(~accelerator.busy[rank] & ~coming.any()),
            ]

    def _count_ports(self, m, registers, accelerator, links):
        """What goes through each port, and how it ended; how its link is."""
        events = port_totals(self._config)
        for rank, port in enumerate(accelerator.ports):
            m.submodules[f"port_totals_{rank}"] = totals = Totals(events)
            m.d.comb += totals.clear.eq(self._clear)
            data, responses = port.read_data, port.write_responses
            writes, flags = port.writes.head, port.flags.head
            beat, status = data.payload, responses.payload.header.status
            read, wrote = data.valid & beat.last, writes.valid & writes.ready
            refused = beat.empty & (beat.header.status != Response.DECERR)
            decerr = Mux(beat.empty, beat.header.status, beat.response) == Response.DECERR
            happened = {
                "read_packets": read,
                "read_bytes": Mux(read & ~beat.empty, beat.header.length, 0),
                "write_packets": wrote | (flags.valid & flags.ready),
                "write_bytes": Mux(wrote, writes.payload.header.length, 0),
                "read_slverr": data.valid & (refused | (beat.response == Response.SLVERR)),
                "read_decerr": data.valid & decerr,
                "write_slverr": responses.valid & (status == Response.SLVERR),
                "write_decerr": responses.valid & (status == Response.DECERR),
                "links_lost": links[rank].lost,
            }
            m.d.comb += getattr(registers, f"link_state_{rank}").eq(links[rank].state)
            for total in events:
                register = getattr(registers, f"{total.name}_{rank}")
                m.d.comb += [
                    getattr(totals, total.name).eq(happened[total.name]),
                    register.eq(getattr(totals, f"total_{total.name}")),
                ]

    def _count(self, m, registers, accelerator, counters, starved):
        m.d.comb += [
            counters.clear.eq(registers.clear_written),
            counters.now.eq(self.now),
            counters.request.eq(accelerator.request.any()),
            counters.response.eq(accelerator.response.any()),
            counters.reading.eq(accelerator.reading),
            counters.writing.eq(accelerator.writing),
            counters.barrier.eq(accelerator.waits_barrier),
            counters.entries.eq(accelerator.waits_entry),
            counters.data.eq(accelerator.waits_data),
            counters.write_room.eq(accelerator.waits_room),
            counters.request_credits.eq(starved),
        ]
        for name, member in counters.signature.members.items():
            if member.flow is Out:
                m.d.comb += getattr(registers, name).eq(getattr(counters, name))

    def _report(self, m, registers, accelerator):
        totals = {
            "refused_arrivals": accelerator.refused,
            "stray_responses": accelerator.stray,
            "flag_errors": accelerator.flag_error,
            "values_nan": accelerator.nan,
            "values_overflow": accelerator.overflow,
        }
        sticky = ["values_nan", "values_overflow"]
        if self._config.quantizes:
            totals |= {
                "blocks_nan": accelerator.blocks_nan,
                "blocks_overflow": accelerator.blocks_overflow,
            }
            sticky += ["blocks_nan", "blocks_overflow"]
        happened = {}
        for name, events in totals.items():
            total = Signal(32, name=f"total_{name}")
            # Registered first: counting adds nothing to the events' paths.
            seen = Signal(len(events), name=f"seen_{name}")
            m.d.sync += [
                seen.eq(events),
                total.eq(total + sum(seen[bit] for bit in range(len(events)))),
            ]
            m.d.comb += getattr(registers, name).eq(total)
            happened[name] = seen.any()
        self._keep_sticky(m, registers, Cat(happened[name] for name in sticky))

    def _keep_sticky(self, m, registers, happened):
        """What happened since `clear`, from its cycle on: an event is one cycle under way here."""
        sticky = Signal.like(registers.sticky)
        m.d.comb += registers.sticky.eq(sticky)
        with m.If(registers.clear_written):
            m.d.sync += sticky.eq(0)
        with m.Else():
            m.d.sync += sticky.eq(sticky | happened)
