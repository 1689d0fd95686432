"""One tenant: its barrier, its instructions, and its waves from issue to acknowledgement."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import Format, Operation, PacketSource, Response
from ..stream import Queue
from .address_check import Window
from .barrier import EPOCH_BITS, Barrier
from .flag_writer import WAVE_COUNT_BITS, FlagWriter
from .instruction_queue import SUBSETS, InstructionQueue, Posting
from .late_flags import LateFlags
from .layouts import (
    Status,
    WaveLayout,
    address_kinds,
    context_bits,
    entry_bits,
    write_slot_bits,
)
from .member_posts import MemberPosts
from .operation_table import OperationTable
from .read_out import PacketStart, ReadOut
from .recovery import WATCHDOG_BITS, Recovery
from .totals import CONTEXT_TOTALS
from .trace import WaveTrace
from .wave_controller import Reservation, WaveController, WaveIssue
from .window import WORD_BITS, window_words
from .write_tracker import WriteTracker

__all__ = ["Context", "OperationEnd"]


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


#: Members of `ReadOut` that a context hands out as they are: what it asks of the wave tables, what
#: goes beside their data, and what it says when it asks for its turn.
READING = ("entry", "taken", "read_enable", "read_entry", "read_flit")
BESIDE_DATA = ("operands_valid", "keep", "format")
BESIDE_SUBSETS = ("sources", "destinations")
BESIDE_CHOICE = ("reduction",)
BESIDE_CODES = ("ends_wave", "ends_blocks")
IN_TURN = ("asks", "holds", "quantized", "reads_codes")


class Context(wiring.Component):
    """Takes operations whose barrier is complete through their waves, up to their flags.

    Everything that a tenant has for itself is here, but for what it has at each port: request
    issuers and write-back FIFOs. What tenants share are doorbells, wave tables, the arithmetic and
    the ports.

    Parameters
    ----------
    number
        Of the context: in its flags and in the tags of its writes.

    Members
    -------
    posting : instructions (`Posting`)
    arrive, epochs, refused, epoch, arrived : see `Barrier`
    reserve, issue, wants, issue_turn : see `WaveController`
    hold, base, share : see `EntryShares`, where there are several contexts
    enabled, windows : instructions are taken, for what is inside (`Window`, by rank); likewise
    entry, taken, ready, response, read_enable, read_entry, read_flit : the wave tables, see
        `ReadOut`
    operands_valid, keep, format : to the arithmetic, beside the tables' data; ``ends_wave``,
        ``ends_blocks`` where quantized operations are built
    sources, destinations : likewise, where an operation may have some of the ranks only
    reduction : likewise, where an instruction may ask for more than sums
    members : ranks that belong to the context; sources_of : see `WaveController`; likewise
    asks, turn, holds, quantized, reads_codes, settled : see `ReadOutTurns`
    room, start : its write-back FIFOs
    results, scale_results : by rank, where the operation that ``start`` opens writes
    acknowledge, acknowledged_slot, acknowledged, stray : write responses, see `WriteTracker`
    flags : by port
    ended : an operation is over (`OperationEnd`)
    in_band, stage, stage_words, stage_values, locked : see `MemberPosts`; where there are several
        contexts
    watchdog, abort, failing, flushing, draining, aborts, abort_code, abort_rank : see `Recovery`;
        where contexts outlive failures, as what follows
    idle : ranks that owe nothing
    up : ranks whose link is UP; uses: those that something under way may still go to
    flag_answered : by rank, a flag's write is
    clear : no packet of a wave is in the switch on its way to a rank
    lacking : ranks whose issuer could not take a wave
    late_flags : by port, see `LateFlags`
    unreachable : ranks that no instruction may name
    reading, writing, waits_* : what `Counters` counts
    trace : for observers
    """

    def __init__(self, config: SwitchConfig, *, number: int = 0):
        self._config = config
        self._number = number
        ranks = config.ranks
        addresses = Out(config.operand_address_bits).array(ranks)
        write_slot = write_slot_bits(config)
        self._beside = (
            *BESIDE_DATA,
            *(BESIDE_SUBSETS if config.subsets else ()),
            *(BESIDE_CHOICE if config.chooses_operation else ()),
            *(BESIDE_CODES if config.quantizes else ()),
        )
        members = {
            "posting": In(Posting(config)),
            "arrive": In(ranks),
            "epochs": In(EPOCH_BITS).array(ranks),
            "refused": Out(ranks),
            "epoch": Out(EPOCH_BITS),
            "arrived": Out(ranks),
            "reserve": Out(Reservation(config)),
            "issue": Out(WaveIssue(config)),
            "wants": Out(1),
            "issue_turn": In(1),
            "entry": Out(entry_bits(config)),
            "taken": Out(1),
            "read_enable": Out(1),
            "read_entry": Out(entry_bits(config)),
            "read_flit": Out(range(config.wave_flits)),
            "operands_valid": Out(1),
            "keep": Out(config.flit_bytes if config.quantizes else config.lanes),
            "format": Out(Format),
            "ready": In(ranks),
            "response": In(Response).array(ranks),
            "turn": In(1),
            "settled": In(1),
            "room": In(ranks),
            "start": Out(PacketStart(config)),
            "results": addresses,
            "acknowledge": In(ranks),
            "acknowledged_slot": In(write_slot).array(ranks),
            "acknowledged": In(Response).array(ranks),
            "stray": Out(ranks),
            "flags": Out(PacketSource(config)).array(ranks),
            "ended": Out(OperationEnd()),
            "reading": Out(range(config.waves + 1)),
            "writing": Out(range(config.write_waves + 1)),
            "waits_barrier": Out(1),
            "waits_entry": Out(1),
            "waits_data": Out(ranks),
            "waits_room": Out(ranks),
            "trace": Out(WaveTrace(config)),
        }
        if config.quantizes:
            members |= {name: Out(1) for name in BESIDE_CODES}
            members["scale_results"] = addresses
        if config.subsets:
            members |= {name: Out(ranks) for name in BESIDE_SUBSETS}
            members |= {"members": In(ranks), "sources_of": Out(ranks)}
        if config.chooses_operation:
            members |= {name: Out(Operation) for name in BESIDE_CHOICE}
        members |= {name: Out(1) for name in IN_TURN}
        if config.recovers:
            members |= {
                "in_band": In(1),
                "stage": In(ranks),
                "stage_words": In(range(len(window_words(config)))).array(ranks),
                "stage_values": In(WORD_BITS).array(ranks),
                "locked": Out(ranks),
                "watchdog": In(WATCHDOG_BITS),
                "abort": In(1),
                "idle": In(ranks),
                "up": In(ranks, init=(1 << ranks) - 1),
                "uses": Out(ranks),
                "flag_answered": In(ranks),
                "clear": In(1),
                "lacking": In(ranks),
                "late_flags": Out(PacketSource(config)).array(ranks),
                "flushing": Out(1),
                "failing": Out(1),
                **{total.name: Out(total.width) for total in CONTEXT_TOTALS[:-2]},
                "draining": Out(ranks),
                "unreachable": Out(ranks),
                "aborts": Out(16),
                "abort_code": Out(Status),
                "abort_rank": Out(4),
            }
        if config.contexts > 1:
            waves = config.waves
            members |= {"hold": In(1), "base": In(range(waves)), "share": In(range(waves + 1))}
            members |= {"enabled": In(1), "windows": In(Window(config)).array(ranks)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.instructions = self._instructions = InstructionQueue(config)
        m.submodules.barrier = self._barrier = Barrier(config)
        m.submodules.controller = self._controller = WaveController(config)
        m.submodules.read_out = self._read_out = ReadOut(config)
        m.submodules.tracker = self._tracker = WriteTracker(config)
        m.submodules.operations = self._operations = OperationTable(config)
        m.submodules.flag_writer = self._flag_writer = FlagWriter(config, context=self._number)
        if config.recovers:
            m.submodules.posts = self._posts = MemberPosts(config)
        self._start(m)
        self._issue(m)
        self._read(m)
        self._write(m)
        self._end(m)
        self._observe(m)
        if config.recovers:
            self._forms = Signal()
            self._recover(m)
            self._post(m)
        return m

    def _start(self, m):
        """Arrivals, instructions, and the start of an operation."""
        instructions, barrier, controller = self._instructions, self._barrier, self._controller
        kinds = [f"stage_{kind}" for kind in address_kinds(self._config)]
        subsets = SUBSETS if self._config.subsets else ()
        chunk = ("chunk",) if self._config.chunks else ()
        for name in (*kinds, "address", "length", "format", "post", *subsets, *chunk):
            value = getattr(self.posting, name)
            if self._config.recovers:
                value = Mux(self.in_band, getattr(self._posts.posting, name), value)
            m.d.comb += getattr(instructions, name).eq(value)
        for name in ("busy", "code", "rank"):
            m.d.comb += getattr(self.posting, name).eq(getattr(instructions, name))
        if self._config.recovers:
            self._refuse_host(m)
        for rank in range(self._config.ranks):
            m.d.comb += [
                barrier.epochs[rank].eq(self.epochs[rank]),
                controller.sources[rank].eq(instructions.sources[rank]),
            ]
            if self._config.quantizes:
                m.d.comb += controller.scale_sources[rank].eq(instructions.scale_sources[rank])
        connect(m, instructions.launch, controller.launch)
        m.d.comb += [
            barrier.arrive.eq(self.arrive),
            controller.complete.eq(barrier.complete),
            barrier.take.eq(controller.take | (self._posts.drop if self._config.recovers else 0)),
            controller.failed.eq(self._operations.failed),
            self._operations.launch.eq(controller.take),
            self._operations.launch_slot.eq(instructions.launch.payload.slot),
            self._operations.epoch.eq(barrier.epoch),
            self.epoch.eq(barrier.epoch),
            self.arrived.eq(barrier.arrived),
            self.refused.eq(barrier.refused),
        ]

    def _refuse_host(self, m):
        """A host's post while members post: nothing is checked, and the host is told."""
        refused = Signal()
        with m.If(self.posting.post):
            m.d.sync += refused.eq(self.in_band)
        with m.Elif(self._posts.posting.post):
            m.d.sync += refused.eq(0)
        with m.If(refused):
            m.d.comb += [self.posting.code.eq(Status.MEMBERS_POST), self.posting.rank.eq(0)]

    def _issue(self, m):
        """Waves to entries and requests, and behind them to read-out."""
        controller, read_out = self._controller, self._read_out
        connect(m, controller.reserve, flipped(self.reserve))
        connect(m, controller.issue, flipped(self.issue))
        # Between issue and read-out: as many waves as there are entries, and one that is empty.
        m.submodules.waves = waves = Queue(WaveLayout(self._config), depth=self._config.waves + 1)
        self._waves = waves
        connect(m, controller.waves, waves.i)
        connect(m, waves.o, read_out.waves)
        m.d.comb += [
            self.wants.eq(controller.wants),
            controller.issue_ready.eq(self.issue_turn),
            controller.release.eq(read_out.release),
        ]
        if self._config.contexts > 1:
            for name in ("hold", "base", "share"):
                m.d.comb += getattr(controller, name).eq(getattr(self, name))
            m.d.comb += self._instructions.enabled.eq(self.enabled)
            for window, checked in zip(self.windows, self._instructions.windows, strict=True):
                m.d.comb += [checked.base.eq(window.base), checked.limit.eq(window.limit)]
        if self._config.subsets:
            m.d.comb += self.sources_of.eq(controller.sources_of)
            for block in (self._instructions, self._barrier, self._flag_writer):
                m.d.comb += block.members.eq(self.members)
            m.d.comb += self._tracker.ranks.eq(read_out.start.ranks)

    def _read(self, m):
        """Complete waves out of the tables."""
        read_out = self._read_out
        for name in (*READING, *self._beside, *IN_TURN):
            m.d.comb += getattr(self, name).eq(getattr(read_out, name))
        for rank in range(self._config.ranks):
            m.d.comb += read_out.response[rank].eq(self.response[rank])
        m.d.comb += read_out.turn.eq(self.turn)
        if self._config.sliced:
            m.d.comb += read_out.settled.eq(self.settled)
        m.d.comb += [read_out.ready.eq(self.ready), read_out.failed.eq(self._operations.failed)]

    def _write(self, m):
        """Results to the ports, and their acknowledgements."""
        read_out, tracker, instructions = self._read_out, self._tracker, self._instructions
        for name in read_out.start.signature.members:
            m.d.comb += getattr(self.start, name).eq(getattr(read_out.start, name))
        slot = read_out.start.write_slot[: write_slot_bits(self._config)]
        m.d.comb += self.start.write_slot.eq(
            Cat(slot, Const(self._number, context_bits(self._config)))
        )
        for rank in range(self._config.ranks):
            m.d.comb += [
                self.results[rank].eq(instructions.destinations[rank]),
                tracker.acknowledged_slot[rank].eq(self.acknowledged_slot[rank]),
                tracker.response[rank].eq(self.acknowledged[rank]),
            ]
            if self._config.quantizes:
                scales = instructions.scale_destinations[rank]
                m.d.comb += self.scale_results[rank].eq(scales)
        m.d.comb += [
            instructions.destination_slot.eq(read_out.destinations_of),
            read_out.room.eq(self.room),
            read_out.slot_free.eq(tracker.slot_free),
            read_out.write_slot.eq(tracker.write_slot),
            tracker.open.eq(read_out.open),
            tracker.operation.eq(read_out.operation),
            tracker.packet.eq(read_out.start.valid),
            tracker.close.eq(read_out.close),
            tracker.close_last.eq(read_out.close_last),
            tracker.written.eq(read_out.written),
            tracker.acknowledge.eq(self.acknowledge),
            self.stray.eq(tracker.stray),
        ]
        if self._config.quantizes:
            m.d.comb += tracker.scale_packets.eq(read_out.scale_packets)

    def _end(self, m):
        """Errors, completion, flags."""
        operations, tracker, flags = self._operations, self._tracker, self._flag_writer
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
        for rank in range(self._config.ranks):
            connect(m, flags.o[rank], flipped(self.flags[rank]))
            m.d.comb += [
                operations.write_operation[rank].eq(tracker.error_operation[rank]),
                operations.write_response[rank].eq(self.acknowledged[rank]),
                flags.flags[rank].eq(instructions.flags[rank]),
            ]
        m.d.comb += [
            self.ended.valid.eq(flags.retire),
            self.ended.code.eq(operations.asked_code),
            self.ended.rank.eq(operations.asked_rank),
            self.ended.epoch.eq(operations.asked_epoch),
            self.ended.waves.eq(flags.waves),
        ]

    def _post(self, m):
        """Instructions that members post."""
        posts, barrier, instructions = self._posts, self._barrier, self._instructions
        members = self.members
        for name in ("busy", "code", "rank"):
            m.d.comb += getattr(posts.posting, name).eq(getattr(instructions, name))
        m.d.comb += [
            posts.on.eq(self.in_band),
            posts.stage.eq(self.stage),
            posts.arrived.eq(barrier.arrived),
            posts.early.eq(barrier.early),
            posts.complete.eq(barrier.complete),
            posts.members.eq(members),
            posts.halt.eq(self.failing),
            posts.form.eq(self._forms),
            posts.take.eq(self._controller.take),
            self.locked.eq(posts.locked),
            instructions.flags_only.eq(self.in_band & posts.flags_only),
            instructions.present.eq(Mux(self.in_band, posts.present, members)),
        ]
        for rank in range(self._config.ranks):
            m.d.comb += [
                posts.words[rank].eq(self.stage_words[rank]),
                posts.values[rank].eq(self.stage_values[rank]),
            ]

    def _recover(self, m):
        """The way back to idle when something does not come."""
        m.submodules.recovery = self._recovery = Recovery(self._config)
        m.submodules.late_flags = self._late = LateFlags(self._config, context=self._number)
        read_out, tracker, instructions = self._read_out, self._tracker, self._instructions
        self._no_waves = Signal()  # between issue and acknowledgement
        self._begun = Signal()  # members have arrived for what is next
        self._pending = Signal()  # there is anything to do
        self._down = Signal(self._config.ranks)  # members whose links are not up
        queued = instructions.waiting | self._posts.forming
        waits = instructions.launch.valid | (self.in_band & self._posts.idle)
        busy = self._controller.busy
        m.d.comb += [
            self._no_waves.eq((self._waves.level == 0) & read_out.idle & (tracker.writing == 0)),
            self._begun.eq(waits & ~busy & self._barrier.arrived.any()),
            self._pending.eq(queued | self._begun | ~self._no_waves | busy),
            self._down.eq(self.members & ~self.up),
            self._recovery.queued.eq(queued),
        ]
        self._watch(m)
        self._fail(m)
        self._release(m)
        self._tell(m)
        self._count(m)

    def _watch(self, m):
        """What is waited for, and whether it comes."""
        recovery, controller, read_out = self._recovery, self._controller, self._read_out
        barrier, flags, tracker = self._barrier, self._flag_writer, self._tracker
        begun = self._begun
        moves = (
            (self.arrive & ~barrier.refused).any(), controller.take, controller.reserve.valid,
            read_out.release, read_out.start.valid, tracker.retire, flags.retire,
            self.acknowledge.any(),
        )  # fmt: skip
        # A wave that has its entry, a flag or an arrival waits for ranks, whatever shares do.
        waits = flags.sending | ~self._no_waves | begun | (controller.busy & ~self.hold)
        m.d.comb += [
            recovery.watchdog.eq(self.watchdog),
            recovery.abort.eq(self.abort),
            recovery.disabled.eq(~self.enabled),
            recovery.active.eq(waits),
            recovery.progress.eq(Cat(moves).any()),
            recovery.late_flags.eq(flags.late),
            recovery.late_answers.eq(tracker.late),
            recovery.late_room.eq(read_out.waits_room),
            recovery.late_data.eq(read_out.waits_data),
            recovery.late_requests.eq(Mux(controller.wants, self.lacking, 0)),
            recovery.late_arrivals.eq(Mux(begun, self.members & ~barrier.arrived, 0)),
            recovery.down.eq(self._down),
            recovery.pending.eq(self._pending),
        ]

    def _fail(self, m):
        """The codes of what is under way, and its waves and packets out of the way."""
        recovery, controller, posts = self._recovery, self._controller, self._posts
        operations, flags = self._operations, self._flag_writer
        own_code = Mux(self.in_band, posts.code, Status.OK)
        own_rank = Mux(self.in_band, posts.rank, 0)
        m.d.comb += [
            recovery.live.eq(operations.live),
            recovery.unfinished.eq(operations.unfinished),
            recovery.unformed.eq(self.in_band & self.arrived.any() & posts.idle),
            recovery.dropped.eq(posts.drop),
            recovery.take.eq(controller.take),
            recovery.controller_busy.eq(controller.busy),
            recovery.quiet.eq(self._no_waves & self.clear),
            controller.halt.eq(recovery.failing | recovery.mark),
            controller.force.eq(recovery.force),
            operations.abort.eq(recovery.mark),
            operations.abort_code.eq(recovery.code),
            operations.abort_rank.eq(recovery.rank),
            operations.spare.eq(recovery.spare),
            operations.over.eq(flags.over),
            operations.over_slot.eq(flags.over_slot),
            operations.launch_code.eq(Mux(recovery.failing, recovery.launch_code, own_code)),
            operations.launch_rank.eq(Mux(recovery.failing, recovery.launch_rank, own_rank)),
            operations.end.eq(flags.retire),
            self._read_out.flush.eq(recovery.flushing),
            self._tracker.flush.eq(recovery.flushing),
            self._forms.eq(recovery.form),
            self.flushing.eq(recovery.flushing),
            self.failing.eq(recovery.failing),
        ]
        for name in ("aborts", "abort_code", "abort_rank"):
            m.d.comb += getattr(self, name).eq(getattr(recovery, name))

    def _release(self, m):
        """Ranks that are fit for more, instructions that name others, and ranks in use."""
        recovery, instructions = self._recovery, self._instructions
        uses = self._pending | self._flag_writer.sending | recovery.failing
        m.d.comb += [
            recovery.idle.eq(self.idle),
            instructions.hold.eq(recovery.failing & self._posts.idle),
            instructions.unreachable.eq(recovery.draining | self._late.waiting),
            instructions.down.eq(self._down),
            self.unreachable.eq(recovery.draining | self._late.waiting | self._down),
            self.uses.eq(Mux(uses, self.members, 0)),
            self.draining.eq(recovery.draining),
        ]

    def _tell(self, m):
        """Flags of what failed: to each rank when it owes nothing, to some later than to others."""
        recovery, flags, late = self._recovery, self._flag_writer, self._late
        # An operation that is made of some of its members has no flags for the others.
        absent = ~self._instructions.flagged
        m.d.comb += [
            recovery.sending.eq(flags.sending),
            recovery.unsent.eq(flags.late),
            flags.hold.eq(recovery.hold),
            flags.skip.eq(recovery.skip | self.unreachable | absent),
            late.missed.eq(Mux(flags.retire, flags.missed & ~absent, 0)),
            late.keep.eq(Mux(flags.retire, self.members & ~absent, 0)),
            late.up.eq(self.up),
            late.answered.eq(self.flag_answered),
            late.word.eq(flags.word),
            late.idle.eq(self.idle),
        ]
        for rank in range(self._config.ranks):
            m.d.comb += late.flags[rank].eq(self._instructions.flags[rank])
            connect(m, late.o[rank], flipped(self.late_flags[rank]))
            heads = (self.flags[rank].head, self.late_flags[rank].head)
            taken = Cat(head.valid & head.ready for head in heads)
            m.d.comb += late.sent[rank].eq(taken.any())

    def _count(self, m):
        """What `Totals` counts."""
        tracker = self._tracker
        m.d.comb += [
            self.busy.eq(self._flag_writer.sending | ~self._no_waves | self._controller.busy),
            self.waves.eq(tracker.retire & tracker.retire_written & ~self._recovery.flushing),
            self.stall_barrier.eq(self.waits_barrier),
            self.stall_entries.eq(self.waits_entry),
            self.stall_data.eq(self.waits_data.any()),
            self.stall_write_room.eq(self.waits_room.any()),
            self.refused_arrivals.eq(sum(self._barrier.refused)),
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
