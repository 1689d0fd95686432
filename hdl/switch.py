"""The switch: ports, the in-switch accelerator, registers."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .accelerator.accelerator import Accelerator
from .accelerator.counters import Counters
from .accelerator.layouts import address_kinds
from .accelerator.trace import RankTrace, WaveTrace
from .accelerator.trace_buffer import TraceBuffer
from .config import SwitchConfig
from .interfaces import LinkSignature, is_inc
from .registers import SWITCH_PAGE, RegisterBank, RegisterBus, join_buses, switch_registers
from .transport.channels import accelerator_sources
from .transport.core import Core
from .transport.port import Port

__all__ = ["Switch"]


class Switch(wiring.Component):
    """N ports with the accelerator behind them.

    Members
    -------
    rx, tx : by rank, the link from and to it
    bus : registers (`RegisterBus`, page 0; with a trace buffer also its pages)
    now : cycles since reset, for time stamps
    trace, rank_trace : for observers
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
                "trace": Out(WaveTrace(config)),
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
        connect(m, accelerator.trace, flipped(self.trace))
        if config.trace_records:
            self._trace(m, registers, accelerator)
        else:
            connect(m, flipped(self.bus), registers.bus)
        if config.forwards:
            self._forward(m, registers, ports)
        self._post(m, registers, accelerator)
        self._count(m, registers, accelerator, counters, starved)
        self._report(m, registers, accelerator)
        return m

    def _trace(self, m, registers, accelerator):
        m.submodules.trace_buffer = buffer = TraceBuffer(self._config)
        connect(m, accelerator.trace, buffer.trace)
        for seen, kept in zip(accelerator.rank_trace, buffer.rank_trace, strict=True):
            connect(m, seen, kept)
        m.d.comb += [buffer.now.eq(self.now), buffer.ended.eq(accelerator.ended.valid)]
        join_buses(m, self.bus, [registers.bus, buffer.bus])

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

    def _post(self, m, registers, accelerator):
        posting = accelerator.posting
        ranks = range(self._config.ranks)
        for kind in address_kinds(self._config):
            for rank in ranks:
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
        ended = accelerator.ended
        m.d.comb += [
            registers.epoch.eq(accelerator.epoch),
            registers.arrived.eq(accelerator.arrived),
        ]
        totals = {
            "operations": ended.valid,
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
        last = {name: Signal.like(getattr(registers, f"last_{name}"), name=f"last_{name}_kept")
                for name in ("code", "rank", "epoch", "waves")}  # fmt: skip
        for name, kept in last.items():
            m.d.comb += getattr(registers, f"last_{name}").eq(kept)
            with m.If(ended.valid):
                m.d.sync += kept.eq(getattr(ended, name))

    def _keep_sticky(self, m, registers, happened):
        """What happened since `clear`, from its cycle on: an event is one cycle under way here."""
        sticky = Signal.like(registers.sticky)
        m.d.comb += registers.sticky.eq(sticky)
        with m.If(registers.clear_written):
            m.d.sync += sticky.eq(0)
        with m.Else():
            m.d.sync += sticky.eq(sticky | happened)
