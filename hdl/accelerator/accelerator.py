"""The in-switch accelerator: its blocks, joined."""

from functools import reduce
from operator import or_

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arithmetic.inq_reducer import blocks_per_flit
from ..config import SwitchConfig
from ..interfaces import Beat, PacketSource, Response
from ..stream import Slice, delayed
from ..transport.packet_slice import PacketSlice
from .address_check import Window
from .arithmetic import Arithmetic
from .barrier import EPOCH_BITS
from .context import Context, OperationEnd
from .doorbell import Doorbell
from .entry_shares import EntryShares
from .instruction_queue import Posting
from .issue_turns import IssueTurns
from .layouts import FLAG_TAG, Status, context_bits, entry_bits, packet_bits, write_slot_bits
from .merge import one_of
from .outstanding import Outstanding, outstanding_limit
from .packet_drop import PacketDrop
from .packet_merge import PacketMerge
from .read_out_turns import ReadOutTurns
from .recovery import WATCHDOG_BITS
from .request_issuer import RequestIssuer
from .totals import CONTEXT_TOTALS
from .trace import RankTrace, WaveTrace
from .wave_table import WaveTable, read_delay
from .write_back import WriteBack

__all__ = ["Accelerator", "AcceleratorPort", "Upkeep"]


class AcceleratorPort(wiring.Signature):
    """What the accelerator has to do with one switch port."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "read_data": In(stream.Signature(Beat(config))),
                "write_responses": In(stream.Signature(Beat(config))),
                "arrivals": In(stream.Signature(Beat(config))),
                "requests": Out(PacketSource(config)),
                "writes": Out(PacketSource(config)),
                "flags": Out(PacketSource(config)),
                "answers": Out(PacketSource(config)),
            }
        )


#: Totals of a context that are counted outside it.
LATE = ("late_data", "late_responses")


class Upkeep(wiring.Signature):
    """How a context is told to run and is watched, and what became of that; see `Recovery`."""

    def __init__(self, config: SwitchConfig):
        ranks = config.ranks
        super().__init__(
            {
                "watchdog": Out(WATCHDOG_BITS),
                "abort": Out(1),
                "in_band": Out(1),
                "failing": In(1),
                **{total.name: In(total.width) for total in CONTEXT_TOTALS},
                "draining": In(ranks),
                "unreachable": In(ranks),
                "aborts": In(16),
                "abort_code": In(Status),
                "abort_rank": In(4),
            }
        )


class Accelerator(wiring.Component):
    """Reads every rank's operand, adds, writes the sum to every rank, and raises their flags.

    Members
    -------
    ports : by rank (`AcceleratorPort`)
    enabled, windows, members : by context, see `Context`
    postings : by context, instructions (`Posting`)
    ended : by context, an operation is over (`OperationEnd`)
    epochs, arrived : by context, of the barrier
    refused : by rank, in the cycle of the arrival
    stray : by rank, read data came that nobody waits for; then by rank, a write response
    flag_error : by rank, a flag's write was answered with an error
    result_valid, nan, overflow : of the reducer's output
    blocks_nan, blocks_overflow : likewise of codes, a bit a block, where quantized operations are
        built
    upkeep : by context (`Upkeep`), where contexts outlive failures
    lost : ranks whose link was reset, so that nothing that they owe will come; likewise
    up, busy : ranks whose link is UP; those that something here may still go to; likewise
    owed_reads, owed_writes : by rank, packets that it owes each context; likewise
    reading, writing, waits_* : what `Counters` counts
    traces, rank_trace : for observers, by context and by rank

    Timing
    ------
    Last arrival to first request, both at a port: 4 cycles. Last flit of a wave at a port to its
    first result: `data_delay` + 3 cycles. With register slices a cycle more each.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._arithmetic = Arithmetic(config)
        ranks = config.ranks
        members = {
            "ports": Out(AcceleratorPort(config)).array(ranks),
            "postings": In(Posting(config)).array(config.contexts),
            "ended": Out(OperationEnd()).array(config.contexts),
            "epochs": Out(EPOCH_BITS).array(config.contexts),
            "arrived": Out(ranks).array(config.contexts),
            "refused": Out(ranks),
            "stray": Out(2 * ranks),
            "flag_error": Out(ranks),
            "result_valid": Out(1),
            "nan": Out(1),
            "overflow": Out(1),
            "request": Out(ranks),
            "response": Out(ranks),
            "reading": Out(range(config.waves + 1)),
            "writing": Out(range(config.contexts * config.write_waves + 1)),
            "waits_barrier": Out(1),
            "waits_entry": Out(1),
            "waits_data": Out(ranks),
            "waits_room": Out(ranks),
            "traces": Out(WaveTrace(config)).array(config.contexts),
            "rank_trace": Out(RankTrace(config)).array(ranks),
        }
        if config.recovers:
            owed = Out(config.contexts * outstanding_limit(config).bit_length()).array(ranks)
            members |= {
                "upkeep": In(Upkeep(config)).array(config.contexts),
                "lost": In(ranks),
                "up": In(ranks, init=(1 << ranks) - 1),
                "busy": Out(ranks),
                "owed_reads": owed,
                "owed_writes": owed,
            }
        if config.contexts > 1:
            windows = In(Window(config)).array(ranks).array(config.contexts)
            members |= {"enabled": In(config.contexts), "windows": windows}
        if config.subsets:
            members["members"] = In(ranks).array(config.contexts)
        if config.quantizes:
            blocks = blocks_per_flit(config.flit_bytes, config.block)
            members |= {"blocks_nan": Out(blocks), "blocks_overflow": Out(blocks)}
        super().__init__(members)

    @property
    def data_delay(self) -> int | None:
        """Cycles from a packet's start, as write-back sees it, to its first sums; None where none
        are built.
        """
        return self._behind_read_out(self._arithmetic.delay)

    @property
    def inq_delay(self) -> int | None:
        """The same to its first codes."""
        return self._behind_read_out(self._arithmetic.inq_delay)

    def _behind_read_out(self, delay):
        # Where starts are registered on their way to write-back, so are results.
        return None if delay is None else read_delay(self._config) + delay

    def elaborate(self, platform):
        m = Module()
        config = self._config
        arithmetic = self._arithmetic
        m.submodules.arithmetic = arithmetic
        self._contexts = []
        for number in range(config.contexts):
            m.submodules[f"context_{number}"] = context = Context(config, number=number)
            self._contexts.append(context)
        self._tables = []
        for rank in range(config.ranks):
            m.submodules[f"table_{rank}"] = table = WaveTable(config)
            self._tables.append(table)
        self._drops = []  # of (context, `PacketDrop`)
        self._make_ends(m)
        self._start(m)
        if config.contexts > 1:
            self._share(m)
        self._request(m)
        self._receive(m)
        self._reduce(m)
        self._write(m)
        self._end(m)
        if config.recovers:
            self._recover(m)
        self._observe(m)
        return m

    def _make_ends(self, m):
        """By context and rank, what cuts requests and what keeps results."""
        config = self._config
        self._issuers, self._write_backs = [], []
        for context in range(config.contexts):
            ends = [("issuer", self._issuers, RequestIssuer, {})]
            delays = {"data_delay": self.data_delay, "inq_delay": self.inq_delay}
            ends.append(("write_back", self._write_backs, WriteBack, delays))
            for name, kept, block, parameters in ends:
                kept.append([])
                for rank in range(config.ranks):
                    end = block(config, port=rank, context=context, **parameters)
                    m.submodules[self._name(name, context, rank)] = end
                    kept[-1].append(end)

    def _name(self, name, context, rank):
        """That of a submodule which each context has at each rank."""
        return f"{name}_{rank}" if self._config.contexts == 1 else f"{name}_{context}_{rank}"

    def _start(self, m):
        """Doorbells and instructions."""
        contexts = self._contexts
        self._arriving = []  # by rank, an arrival waits at its doorbell
        for context, posting in zip(contexts, self.postings, strict=True):
            connect(m, flipped(posting), context.posting)
        for rank, port in enumerate(self.ports):
            m.submodules[f"doorbell_{rank}"] = doorbell = Doorbell(self._config, port=rank)
            self._connect_arrivals(m, rank, port.arrivals, doorbell.i)
            self._arriving.append(doorbell.i.valid)
            connect(m, doorbell.o, flipped(port.answers))
            m.d.comb += self.rank_trace[rank].arrival.eq(doorbell.arrive)
            for number, context in enumerate(contexts):
                m.d.comb += [
                    context.arrive[rank].eq(doorbell.arrive & (doorbell.context == number)),
                    context.epochs[rank].eq(doorbell.epoch),
                ]
            if self._config.contexts > 1:
                self._stage(m, rank, doorbell)
            refused = Cat(context.refused[rank] for context in contexts).any()
            m.d.comb += [doorbell.refused.eq(refused), self.refused[rank].eq(refused)]
        for number, context in enumerate(contexts):
            m.d.comb += [
                self.epochs[number].eq(context.epoch),
                self.arrived[number].eq(context.arrived),
            ]
            if self._config.subsets:
                m.d.comb += context.members.eq(self.members[number])

    def _stage(self, m, rank, doorbell):
        """What a rank writes to the contexts' windows."""
        locked = Array(context.locked[rank] for context in self._contexts)
        m.d.comb += doorbell.locked.eq(locked[doorbell.context])
        for number, context in enumerate(self._contexts):
            m.d.comb += [
                context.stage[rank].eq(doorbell.stage & (doorbell.context == number)),
                context.stage_words[rank].eq(doorbell.word),
                context.stage_values[rank].eq(doorbell.value),
            ]

    def _share(self, m):
        """Entries of the wave tables, where there are several contexts."""
        m.submodules.entry_shares = shares = EntryShares(self._config)
        m.d.comb += shares.enabled.eq(self.enabled)
        for number, context in enumerate(self._contexts):
            m.d.comb += [
                shares.reading[number].eq(context.reading),
                context.hold.eq(shares.hold[number]),
                context.base.eq(shares.base[number]),
                context.share.eq(shares.share[number]),
                context.enabled.eq(self.enabled[number]),
            ]
            for window, checked in zip(self.windows[number], context.windows, strict=True):
                m.d.comb += [checked.base.eq(window.base), checked.limit.eq(window.limit)]

    def _connect_arrivals(self, m, rank, arrivals, doorbell):
        if self._config.sliced:
            m.submodules[f"arrivals_{rank}"] = slice = Slice(arrivals.payload.shape())
            connect(m, flipped(arrivals), slice.i)
            connect(m, slice.o, doorbell)
        else:
            connect(m, flipped(arrivals), doorbell)

    def _request(self, m):
        """Waves to entries and requests."""
        m.submodules.issue_turns = turns = IssueTurns(self._config)
        for number, context in enumerate(self._contexts):
            connect(m, context.reserve, turns.reserve[number])
            m.d.comb += [
                turns.wants[number].eq(context.wants),
                context.issue_turn.eq(turns.turn[number]),
            ]
            self._issue(m, context, self._issuers[number], turns, number)
        reserved = turns.reserved
        # Registered on its way to the tables, which are many: no answer comes as soon as that.
        reserve = {name: Signal.like(getattr(reserved, name), name=f"reserve_{name}")
                   for name in reserved.signature.members}  # fmt: skip
        m.d.sync += [later.eq(getattr(reserved, name)) for name, later in reserve.items()]
        for rank, table in enumerate(self._tables):
            m.d.comb += [getattr(table.reserve, name).eq(later) for name, later in reserve.items()]
            if self._config.subsets:
                m.d.comb += table.reserve.valid.eq(reserve["valid"] & reserve["ranks"][rank])
            requests = [issuers[rank].o for issuers in self._issuers]
            self._merge(m, "requests", rank, requests, self.ports[rank].requests)

    def _issue(self, m, context, issuers, turns, number):
        """One context's waves to its issuers."""
        config, issue = self._config, context.issue
        for rank, issuer in enumerate(issuers):
            asked = issue.ranks[rank] if config.subsets else 1
            m.d.comb += [
                issuer.valid.eq(issue.valid & asked),
                issuer.address.eq(issue.address[rank]),
                issuer.size.eq(issue.size),
                issuer.entry.eq(issue.entry),
                issuer.generation.eq(turns.reserved.generation),
            ]
            if config.quantizes:
                m.d.comb += [
                    issuer.scale_address.eq(issue.scale_address[rank]),
                    issuer.scale_size.eq(issue.scale_size),
                ]
        lacking = ~Cat(issuer.ready for issuer in issuers)
        if config.subsets:
            lacking &= context.sources_of
        m.d.comb += turns.issuers_ready[number].eq(~lacking.any())
        if config.recovers:
            m.d.comb += context.lacking.eq(lacking)

    def _merge(self, m, name, rank, sources, sink):
        """Packets of the contexts to a port; says whose is taken."""
        if len(sources) == 1:
            connect(m, sources[0], flipped(sink))
            return Const(1)
        m.submodules[f"{name}_{rank}"] = merge = PacketMerge(self._config, count=len(sources))
        for source, i in zip(sources, merge.i, strict=True):
            connect(m, source, i)
        connect(m, merge.o, flipped(sink))
        return merge.taken

    def _receive(self, m):
        """Read data to the tables, write responses to the contexts. Both always sink."""
        config = self._config
        self._responses = []  # by rank, header of the write response
        for rank, (port, table) in enumerate(zip(self.ports, self._tables, strict=True)):
            # One register between a port and the table's look into its entries.
            received = stream.Signature(Beat(config), always_ready=True).create()
            m.d.sync += [
                received.valid.eq(port.read_data.valid),
                received.payload.eq(port.read_data.payload),
            ]
            header, valid = (
                delayed(m, value, f"response_{name}_{rank}", when=self._config.sliced)
                for value, name in (
                    (port.write_responses.payload.header, "header"),
                    (port.write_responses.valid, "valid"),
                )
            )
            self._responses.append(header)
            is_flag = (header.tag & FLAG_TAG) != 0
            answered = Signal(name=f"answered_{rank}")
            bad = Signal(name=f"bad_flag_{rank}")
            slot, context_of, beyond = self._write_tag(header.tag)
            known = (slot < config.write_waves) & (context_of < config.contexts) & (beyond == 0)
            nobodys = Signal(name=f"nobodys_{rank}")  # the tag is no write's at all
            m.d.comb += [
                port.read_data.ready.eq(1),
                port.write_responses.ready.eq(1),
                table.i.valid.eq(received.valid),
                table.i.payload.eq(received.payload),
                answered.eq(valid & ~is_flag & known),
                bad.eq(header.status.as_value() > Response.EXOKAY.value),
                self.flag_error[rank].eq(valid & is_flag & bad),
                nobodys.eq(valid & ~is_flag & ~known),
                self.stray[rank].eq(table.stray),
            ]
            for number, context in enumerate(self._contexts):
                if config.recovers:
                    flag = valid & is_flag & (header.context == number)
                    m.d.comb += context.flag_answered[rank].eq(flag)
                m.d.comb += [
                    context.acknowledge[rank].eq(answered & (context_of == number)),
                    context.acknowledged_slot[rank].eq(slot),
                    context.acknowledged[rank].eq(header.status),
                ]
            stray = Cat(context.stray[rank] for context in self._contexts).any()
            m.d.comb += [
                self.stray[config.ranks + rank].eq(stray | nobodys),
                self.response[rank].eq(answered & ~stray),
            ]

    def _write_tag(self, tag):
        """A data write's slot and context, and what of its tag is neither."""
        bits = write_slot_bits(self._config)
        end = bits + context_bits(self._config)
        return tag[:bits], tag[bits:end], tag[end:]

    def _reduce(self, m):
        """Complete waves through the arithmetic."""
        contexts, arithmetic, config = self._contexts, self._arithmetic, self._config
        m.submodules.read_out_turns = turns = ReadOutTurns(config, inq_lead=arithmetic.inq_lead)
        for number, context in enumerate(contexts):
            for name in ("asks", "holds", "quantized", "reads_codes"):
                m.d.comb += getattr(turns, name)[number].eq(getattr(context, name))
            m.d.comb += [
                turns.starts[number].eq(context.start.valid),
                context.turn.eq(turns.turn[number]),
                context.settled.eq(turns.settled),
            ]
        for rank, table in enumerate(self._tables):
            for look_up, context in zip(table.look_ups, contexts, strict=True):
                m.d.comb += [
                    look_up.entry.eq(context.entry),
                    look_up.taken.eq(context.taken),
                    context.ready[rank].eq(look_up.ready),
                    context.response[rank].eq(look_up.response),
                ]
            for name in ("entry", "flit"):
                values = [(c.read_enable, getattr(c, f"read_{name}")) for c in contexts]
                m.d.comb += getattr(table, f"read_{name}").eq(one_of(values))
            m.d.comb += table.read_enable.eq(Cat(c.read_enable for c in contexts).any())
        m.d.comb += [
            arithmetic.valid.eq(Cat(c.operands_valid for c in contexts).any()),
            arithmetic.operands.eq(Cat(table.data for table in self._tables)),
            self.result_valid.eq(arithmetic.result_valid),
            self.nan.eq(arithmetic.nan),
            self.overflow.eq(arithmetic.overflow),
        ]
        beside = ["keep", "format"]
        if config.subsets:
            beside.append("sources")
            places = (Mux(c.operands_valid, c.destinations, 0) for c in contexts)
            m.d.comb += arithmetic.places.eq(Cat(places))
        if config.chooses_operation:
            beside.append("reduction")
        if config.quantizes:
            beside += ["ends_wave", "ends_blocks"]
            m.d.comb += [
                arithmetic.scales.eq(Cat(table.scales for table in self._tables)),
                self.blocks_nan.eq(arithmetic.blocks_nan),
                self.blocks_overflow.eq(arithmetic.blocks_overflow),
            ]
        for name in beside:
            values = [(c.operands_valid, getattr(c, name)) for c in contexts]
            m.d.comb += Value.cast(getattr(arithmetic, name)).eq(one_of(values))

    def _write(self, m):
        """Results to the ports."""
        domain = "sync" if self._config.sliced else "comb"  # of the ways to and from write-back
        for number, context in enumerate(self._contexts):
            for rank, write_back in enumerate(self._write_backs[number]):
                self._write_one(m, m.d[domain], number, rank, context, write_back)
        for rank, port in enumerate(self.ports):
            sources = [
                self._leave(m, number, rank, write_backs[rank])
                for number, write_backs in enumerate(self._write_backs)
            ]
            self._merge(m, "writes", rank, sources, port.writes)

    def _write_one(self, m, domain, number, rank, context, write_back):
        """One context's results to one port."""
        config, arithmetic, start = self._config, self._arithmetic, context.start
        result_here = scales_here = 1
        for name in start.signature.members:
            domain += getattr(write_back.start, name).eq(getattr(start, name))
        if config.subsets:
            domain += write_back.start.valid.eq(start.valid & start.ranks[rank])
            place = number * config.ranks + rank
            result_here = arithmetic.result_places[place]
            scales_here = arithmetic.scales_places[place]
        if config.chunks:
            domain += write_back.passes.eq(start.valid)
        domain += [
            write_back.destination.eq(context.results[rank]),
            context.room[rank].eq(write_back.room),
            write_back.result_valid.eq(arithmetic.result_valid & result_here),
            write_back.result.eq(arithmetic.result),
        ]
        if config.quantizes:
            domain += [
                write_back.scale_destination.eq(context.scale_results[rank]),
                write_back.result_ends.eq(arithmetic.result_ends & result_here),
                write_back.scales_valid.eq(arithmetic.scales_valid & scales_here),
                write_back.scales.eq(arithmetic.new_scales),
            ]

    def _leave(self, m, number, rank, write_back):
        """What comes out of a write-back: where contexts outlive failures, unless it is dropped."""
        config = self._config
        if not config.recovers:
            return write_back.o
        context = self._contexts[number]
        m.submodules[f"drop_{number}_{rank}"] = drop = PacketDrop(config)
        self._drops.append((number, drop))
        source = write_back.o
        if config.sliced:
            m.submodules[f"slice_{number}_{rank}"] = slice = PacketSlice(config)
            connect(m, source, slice.i)
            source = slice.o
        connect(m, source, drop.i)
        begun = context.start.valid & context.start.ranks[rank]
        scales = self._scale_packets(context.start) if config.quantizes else 0
        m.d.comb += [drop.drop.eq(context.flushing), drop.coming.eq(Mux(begun, 1 + scales, 0))]
        return drop.o

    def _scale_packets(self, start):
        """Packets of scales that will follow the packets of a wave, of which one starts."""
        payload, most = self._config.payload_bytes, self._config.scale_packets
        packets = sum(start.scale_size > packet * payload for packet in range(most))
        return Mux(start.begins & start.quantized, packets, 0)

    def _end(self, m):
        """Flags."""
        for context, ended in zip(self._contexts, self.ended, strict=True):
            connect(m, context.ended, flipped(ended))
        for rank, port in enumerate(self.ports):
            flags = [context.flags[rank] for context in self._contexts]
            if self._config.recovers:
                flags += [context.late_flags[rank] for context in self._contexts]
            self._merge(m, "flags", rank, flags, port.flags)

    def _recover(self, m):
        """What ranks owe, and what is still in the switch."""
        config = self._config
        self._late = [[] for _ in self._contexts]
        for rank, port in enumerate(self.ports):
            m.submodules[f"outstanding_{rank}"] = owed = Outstanding(config)
            self._owe(m, port, owed)
            m.d.comb += owed.lost.eq(self.lost[rank])
            self._count_late(m, rank)
            m.d.comb += self.owed_reads[rank].eq(Cat(owed.reads))
            m.d.comb += self.owed_writes[rank].eq(Cat(owed.writes))
            for number, context in enumerate(self._contexts):
                m.d.comb += context.idle[rank].eq(owed.idle[number])
            uses = Cat(self._arriving[rank], *(context.uses[rank] for context in self._contexts))
            m.d.comb += self.busy[rank].eq(uses.any())
        for late, failing in zip(self._late, self.upkeep, strict=True):
            for name, events in zip(LATE, zip(*late, strict=True), strict=True):
                m.d.comb += getattr(failing, name).eq(sum(events))
        for number, context in enumerate(self._contexts):
            issuers, failing = self._issuers[number], self.upkeep[number]
            idle = [issuer.idle for issuer in issuers]
            m.d.comb += [issuer.drop.eq(context.flushing) for issuer in issuers]
            empty = [drop.empty for whose, drop in self._drops if whose == number]
            m.d.comb += [
                context.clear.eq(Cat(*idle, *empty).all()),
                context.up.eq(self.up),
                context.watchdog.eq(failing.watchdog),
                context.abort.eq(failing.abort),
                context.in_band.eq(failing.in_band),
            ]
            for name, member in failing.signature.members.items():
                if member.flow is Out and name not in LATE:
                    m.d.comb += getattr(failing, name).eq(getattr(context, name))

    def _count_late(self, m, rank):
        """By context, what comes from a rank and is dropped."""
        header = self._tables[rank].i.payload.header
        for number, context in enumerate(self._contexts):
            data = self._tables[rank].stray & (header.context == number)
            self._late[number].append((data, context.stray[rank]))

    def _owe(self, m, port, owed):
        """Requests, data, writes and responses of one port."""
        config = self._config
        requests, writes, flags = port.requests.head, port.writes.head, port.flags.head
        data, responses = port.read_data, port.write_responses

        def of(header, happens):
            """By context, whether it happens to it."""
            return Cat(happens & (header.context == number) for number in range(config.contexts))

        asked = requests.payload.header
        parts = range(0, config.read_request_bytes, config.payload_bytes)
        packets = sum(asked.length > part for part in parts)
        flag = of(flags.payload.header, flags.valid & flags.ready)
        write = of(writes.payload.header, writes.valid & writes.ready)
        m.d.comb += [
            owed.asked.eq(of(asked, requests.valid & requests.ready)),
            owed.asked_packets.eq(packets),
            owed.came.eq(of(data.payload.header, data.valid & data.payload.last)),
            owed.written.eq(flag | write),
            owed.answered.eq(of(responses.payload.header, responses.valid)),
        ]

    def _observe(self, m):
        contexts = self._contexts
        for name in ("reading", "writing"):
            m.d.comb += getattr(self, name).eq(sum(getattr(c, name) for c in contexts))
        for name in ("waits_barrier", "waits_entry", "waits_data", "waits_room"):
            waiting = (getattr(context, name) for context in contexts)
            m.d.comb += getattr(self, name).eq(reduce(or_, waiting))
        for context, trace in zip(contexts, self.traces, strict=True):
            connect(m, context.trace, flipped(trace))
        shift = packet_bits(self._config)
        width = entry_bits(self._config)
        for rank, port in enumerate(self.ports):
            seen = self.rank_trace[rank]
            requests, data = port.requests.head, port.read_data
            m.d.comb += [
                self.request[rank].eq(requests.valid & requests.ready),
                seen.request.eq(self.request[rank]),
                seen.request_entry.eq(requests.payload.header.tag[shift : shift + width]),
                seen.data.eq(data.valid & data.payload.last),
                seen.data_entry.eq(data.payload.header.tag[shift : shift + width]),
                seen.write.eq(port.writes.head.valid & port.writes.head.ready),
                seen.write_slot.eq(port.writes.head.payload.header.tag),
                seen.response.eq(self.response[rank]),
                seen.response_slot.eq(self._responses[rank].tag),
                seen.flag.eq(port.flags.head.valid & port.flags.head.ready),
            ]
