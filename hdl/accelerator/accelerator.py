"""The in-switch accelerator: its blocks, joined."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..arithmetic.inq_reducer import blocks_per_flit
from ..config import SwitchConfig
from ..interfaces import Beat, PacketSource, Response
from ..stream import Queue, Slice, delayed
from .address_check import HOST_BITS
from .arithmetic import Arithmetic
from .barrier import EPOCH_BITS, Barrier
from .doorbell import Doorbell
from .flag_writer import WAVE_COUNT_BITS, FlagWriter
from .instruction_queue import FORMAT_BITS, InstructionQueue
from .layouts import FLAG_TAG, Status, WaveLayout, address_kinds, entry_bits, packet_bits
from .operation_table import OperationTable
from .read_out import ReadOut
from .request_issuer import RequestIssuer
from .trace import RankTrace, WaveTrace
from .wave_controller import WaveController
from .wave_table import WaveTable, read_delay
from .write_back import WriteBack
from .write_tracker import WriteTracker

__all__ = ["Accelerator", "AcceleratorPort"]


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


class Posting(wiring.Signature):
    """How instructions come in; see `InstructionQueue`."""

    def __init__(self, config: SwitchConfig):
        staged = {f"stage_{kind}": Out(config.ranks) for kind in address_kinds(config)}
        super().__init__(
            {
                "address": Out(HOST_BITS),
                "length": Out(HOST_BITS),
                "format": Out(FORMAT_BITS),
                "post": Out(1),
                "busy": In(1),
                "code": In(Status),
                "rank": In(4),
            }
            | staged
        )


class OperationEnd(wiring.Signature):
    """An operation's flags are sent: what became of it."""

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "code": Out(Status),
                "rank": Out(4),
                "epoch": Out(EPOCH_BITS),
                "waves": Out(WAVE_COUNT_BITS),
            }
        )


class Accelerator(wiring.Component):
    """Reads every rank's operand, adds, writes the sum to every rank, and raises their flags.

    Members
    -------
    ports : by rank (`AcceleratorPort`)
    posting : instructions (`Posting`)
    ended : an operation is over (`OperationEnd`)
    epoch, arrived, refused : of the barrier; ``refused`` by rank, in the cycle of the arrival
    stray : by rank, read data came that nobody waits for; then by rank, a write response
    flag_error : by rank, a flag's write was answered with an error
    result_valid, nan, overflow : of the reducer's output
    blocks_nan, blocks_overflow : likewise of codes, a bit a block, where quantized operations are
        built
    reading, writing, waits_* : what `Counters` counts
    trace, rank_trace : for observers

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
            "posting": In(Posting(config)),
            "ended": Out(OperationEnd()),
            "epoch": Out(EPOCH_BITS),
            "arrived": Out(ranks),
            "refused": Out(ranks),
            "stray": Out(2 * ranks),
            "flag_error": Out(ranks),
            "result_valid": Out(1),
            "nan": Out(1),
            "overflow": Out(1),
            "request": Out(ranks),
            "response": Out(ranks),
            "reading": Out(range(config.waves + 1)),
            "writing": Out(range(config.write_waves + 1)),
            "waits_barrier": Out(1),
            "waits_entry": Out(1),
            "waits_data": Out(ranks),
            "waits_room": Out(ranks),
            "trace": Out(WaveTrace(config)),
            "rank_trace": Out(RankTrace(config)).array(ranks),
        }
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
        m.submodules.instructions = self._instructions = InstructionQueue(config)
        m.submodules.barrier = self._barrier = Barrier(config)
        m.submodules.controller = self._controller = WaveController(config)
        arithmetic = self._arithmetic
        m.submodules.read_out = self._read_out = ReadOut(config, inq_lead=arithmetic.inq_lead)
        m.submodules.arithmetic = arithmetic
        m.submodules.tracker = self._tracker = WriteTracker(config)
        m.submodules.operations = self._operations = OperationTable(config)
        m.submodules.flags = self._flags = FlagWriter(config)
        self._tables, self._issuers, self._write_backs = [], [], []
        for rank in range(config.ranks):
            m.submodules[f"table_{rank}"] = table = WaveTable(config)
            m.submodules[f"issuer_{rank}"] = issuer = RequestIssuer(config, port=rank)
            m.submodules[f"write_back_{rank}"] = write_back = WriteBack(
                config, port=rank, data_delay=self.data_delay, inq_delay=self.inq_delay
            )
            self._tables.append(table)
            self._issuers.append(issuer)
            self._write_backs.append(write_back)
        self._start(m)
        self._request(m)
        self._receive(m)
        self._reduce(m)
        self._write(m)
        self._end(m)
        self._observe(m)
        return m

    def _start(self, m):
        """Arrivals, instructions, and the start of an operation."""
        instructions, barrier, controller = self._instructions, self._barrier, self._controller
        kinds = [f"stage_{kind}" for kind in address_kinds(self._config)]
        for name in (*kinds, "address", "length", "format", "post"):
            m.d.comb += getattr(instructions, name).eq(getattr(self.posting, name))
        for name in ("busy", "code", "rank"):
            m.d.comb += getattr(self.posting, name).eq(getattr(instructions, name))
        for rank, port in enumerate(self.ports):
            m.submodules[f"doorbell_{rank}"] = doorbell = Doorbell(self._config, port=rank)
            self._connect_arrivals(m, rank, port.arrivals, doorbell.i)
            connect(m, doorbell.o, flipped(port.answers))
            m.d.comb += [
                barrier.arrive[rank].eq(doorbell.arrive),
                barrier.epochs[rank].eq(doorbell.epoch),
                doorbell.refused.eq(barrier.refused[rank]),
                controller.sources[rank].eq(instructions.sources[rank]),
                self.rank_trace[rank].arrival.eq(doorbell.arrive),
            ]
            if self._config.quantizes:
                m.d.comb += controller.scale_sources[rank].eq(instructions.scale_sources[rank])
        connect(m, instructions.launch, controller.launch)
        m.d.comb += [
            controller.complete.eq(barrier.complete),
            barrier.take.eq(controller.take),
            controller.failed.eq(self._operations.failed),
            self._operations.launch.eq(controller.take),
            self._operations.launch_slot.eq(instructions.launch.payload.slot),
            self._operations.epoch.eq(barrier.epoch),
            self.epoch.eq(barrier.epoch),
            self.arrived.eq(barrier.arrived),
            self.refused.eq(barrier.refused),
        ]

    def _connect_arrivals(self, m, rank, arrivals, doorbell):
        if self._config.sliced:
            m.submodules[f"arrivals_{rank}"] = slice = Slice(arrivals.payload.shape())
            connect(m, flipped(arrivals), slice.i)
            connect(m, slice.o, doorbell)
        else:
            connect(m, flipped(arrivals), doorbell)

    def _request(self, m):
        """Waves to entries and requests."""
        controller = self._controller
        # Registered on its way to the tables, which are many: no answer comes as soon as that.
        reserve = {name: Signal.like(getattr(controller.reserve, name), name=f"reserve_{name}")
                   for name in controller.reserve.signature.members}  # fmt: skip
        m.d.sync += [later.eq(getattr(controller.reserve, name)) for name, later in reserve.items()]
        for rank, (table, issuer) in enumerate(zip(self._tables, self._issuers, strict=True)):
            m.d.comb += [getattr(table.reserve, name).eq(later) for name, later in reserve.items()]
            connect(m, issuer.o, flipped(self.ports[rank].requests))
            m.d.comb += [
                issuer.valid.eq(controller.issue.valid),
                issuer.address.eq(controller.issue.address[rank]),
                issuer.size.eq(controller.issue.size),
                issuer.entry.eq(controller.issue.entry),
                issuer.generation.eq(controller.issue.generation),
            ]
            if self._config.quantizes:
                m.d.comb += [
                    issuer.scale_address.eq(controller.issue.scale_address[rank]),
                    issuer.scale_size.eq(controller.issue.scale_size),
                ]
        m.d.comb += controller.issue_ready.eq(Cat(i.ready for i in self._issuers).all())

    def _receive(self, m):
        """Read data to the tables, write responses to the tracker. Both always sink."""
        tracker = self._tracker
        self._responses = []  # by rank, header of the write response
        for rank, (port, table) in enumerate(zip(self.ports, self._tables, strict=True)):
            # One register between a port and the table's look into its entries.
            received = stream.Signature(Beat(self._config), always_ready=True).create()
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
            known = header.tag < self._config.write_waves
            nobodys = Signal(name=f"nobodys_{rank}")  # the tag is no write's at all
            m.d.comb += [
                port.read_data.ready.eq(1),
                port.write_responses.ready.eq(1),
                table.i.valid.eq(received.valid),
                table.i.payload.eq(received.payload),
                answered.eq(valid & ~is_flag & known),
                tracker.acknowledge[rank].eq(answered),
                tracker.acknowledged_slot[rank].eq(header.tag),
                tracker.response[rank].eq(header.status),
                bad.eq(header.status.as_value() > Response.EXOKAY.value),
                self.flag_error[rank].eq(valid & is_flag & bad),
                nobodys.eq(valid & ~is_flag & ~known),
                self.stray[rank].eq(table.stray),
                self.stray[self._config.ranks + rank].eq(tracker.stray[rank] | nobodys),
                self.response[rank].eq(answered & ~tracker.stray[rank]),
            ]

    def _reduce(self, m):
        """Complete waves through the arithmetic."""
        read_out, arithmetic, controller = self._read_out, self._arithmetic, self._controller
        # Between issue and read-out: as many waves as there are entries, and one that is empty.
        m.submodules.waves = waves = Queue(WaveLayout(self._config), depth=self._config.waves + 1)
        connect(m, controller.waves, waves.i)
        connect(m, waves.o, read_out.waves)
        for rank, table in enumerate(self._tables):
            m.d.comb += [
                table.entry.eq(read_out.entry),
                table.taken.eq(read_out.taken),
                table.read_enable.eq(read_out.read_enable),
                table.read_entry.eq(read_out.read_entry),
                table.read_flit.eq(read_out.read_flit),
                read_out.ready[rank].eq(table.ready),
                read_out.response[rank].eq(table.response),
            ]
        m.d.comb += [
            controller.release.eq(read_out.release),
            read_out.failed.eq(self._operations.failed),
            arithmetic.valid.eq(read_out.operands_valid),
            arithmetic.operands.eq(Cat(table.data for table in self._tables)),
            arithmetic.keep.eq(read_out.keep),
            arithmetic.format.eq(read_out.format),
            self.result_valid.eq(arithmetic.result_valid),
            self.nan.eq(arithmetic.nan),
            self.overflow.eq(arithmetic.overflow),
        ]
        if self._config.quantizes:
            m.d.comb += [
                arithmetic.scales.eq(Cat(table.scales for table in self._tables)),
                arithmetic.ends_wave.eq(read_out.ends_wave),
                arithmetic.ends_blocks.eq(read_out.ends_blocks),
                self.blocks_nan.eq(arithmetic.blocks_nan),
                self.blocks_overflow.eq(arithmetic.blocks_overflow),
            ]

    def _write(self, m):
        """Results to the ports, and their acknowledgements."""
        read_out, tracker = self._read_out, self._tracker
        instructions, arithmetic = self._instructions, self._arithmetic
        m.d.comb += instructions.destination_slot.eq(read_out.destinations_of)
        domain = "sync" if self._config.sliced else "comb"  # of the ways to and from write-back
        for rank, write_back in enumerate(self._write_backs):
            connect(m, write_back.o, flipped(self.ports[rank].writes))
            for name in read_out.start.signature.members:
                m.d[domain] += getattr(write_back.start, name).eq(getattr(read_out.start, name))
            m.d[domain] += [
                write_back.destination.eq(instructions.destinations[rank]),
                read_out.room[rank].eq(write_back.room),
                write_back.result_valid.eq(arithmetic.result_valid),
                write_back.result.eq(arithmetic.result),
            ]
            if self._config.quantizes:
                m.d[domain] += [
                    write_back.scale_destination.eq(instructions.scale_destinations[rank]),
                    write_back.result_ends.eq(arithmetic.result_ends),
                    write_back.scales_valid.eq(arithmetic.scales_valid),
                    write_back.scales.eq(arithmetic.new_scales),
                ]
        m.d.comb += [
            read_out.slot_free.eq(tracker.slot_free),
            read_out.write_slot.eq(tracker.write_slot),
            tracker.open.eq(read_out.open),
            tracker.operation.eq(read_out.operation),
            tracker.packet.eq(read_out.start.valid),
            tracker.close.eq(read_out.close),
            tracker.close_last.eq(read_out.close_last),
            tracker.written.eq(read_out.written),
        ]
        if self._config.quantizes:
            m.d.comb += tracker.scale_packets.eq(read_out.scale_packets)

    def _end(self, m):
        """Errors, completion, flags."""
        operations, tracker, flags = self._operations, self._tracker, self._flags
        read_out, instructions = self._read_out, self._instructions
        waves = Signal(WAVE_COUNT_BITS)  # acknowledged, of the operation whose waves retire now
        with m.If(tracker.retire):
            m.d.sync += waves.eq(Mux(tracker.retire_last, 0, flags.over_waves))
        m.d.comb += [
            operations.read_error.eq(read_out.read_error),
            operations.read_operation.eq(read_out.operation),
            operations.read_rank.eq(read_out.read_error_rank),
            operations.read_response.eq(read_out.read_error_response),
            operations.write_error.eq(tracker.write_error),
            operations.ask.eq(flags.slot),
            instructions.flag_slot.eq(flags.slot),
            instructions.retire.eq(flags.retire),
            flags.over.eq(tracker.retire & tracker.retire_last),
            flags.over_slot.eq(tracker.retire_operation),
            flags.over_waves.eq(waves + tracker.retire_written),
            flags.epoch.eq(operations.asked_epoch),
            flags.code.eq(operations.asked_code),
            flags.rank.eq(operations.asked_rank),
        ]
        for rank, port in enumerate(self.ports):
            connect(m, flags.o[rank], flipped(port.flags))
            m.d.comb += [
                operations.write_operation[rank].eq(tracker.error_operation[rank]),
                operations.write_response[rank].eq(tracker.response[rank]),
                flags.flags[rank].eq(instructions.flags[rank]),
            ]
        m.d.comb += [
            self.ended.valid.eq(flags.retire),
            self.ended.code.eq(operations.asked_code),
            self.ended.rank.eq(operations.asked_rank),
            self.ended.epoch.eq(operations.asked_epoch),
            self.ended.waves.eq(flags.waves),
        ]

    def _observe(self, m):
        controller, read_out, tracker = self._controller, self._read_out, self._tracker
        trace = self.trace
        m.d.comb += [
            self.reading.eq(controller.reading),
            self.writing.eq(tracker.writing),
            self.waits_barrier.eq(controller.waits_barrier),
            self.waits_entry.eq(controller.waits_entry),
            self.waits_data.eq(read_out.waits_data),
            self.waits_room.eq(read_out.waits_room),
            trace.issue.eq(controller.waves.valid & controller.waves.ready),
            trace.issue_entry.eq(controller.waves.payload.entry),
            trace.issue_operation.eq(controller.waves.payload.slot),
            trace.issue_empty.eq(~controller.issue.valid),
            trace.read_out.eq(read_out.open),
            trace.read_out_entry.eq(read_out.read_entry),
            trace.read_out_slot.eq(read_out.write_slot),
            trace.release.eq(read_out.release),
            trace.retire.eq(tracker.retire),
            trace.over.eq(tracker.retire & tracker.retire_last),
            trace.reading.eq(controller.reading),
            trace.writing.eq(tracker.writing),
        ]
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
