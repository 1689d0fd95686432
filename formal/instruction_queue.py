"""`InstructionQueue`: what was accepted is launched once, in order; slots never run out."""

from __future__ import annotations

from amaranth import Cat, Const, Signal
from amaranth.lib import data

from hdl.accelerator.instruction_queue import InstructionQueue
from hdl.accelerator.layouts import OperationLayout, Status, operation_slots, slot_bits

from .proof import Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]


class InstructionQueueContract(Specification):
    """A queue against a count of operations, and one of them, whichever it is."""

    def __init__(self, config):
        super().__init__(InstructionQueue(config))
        self._config = config

    def specify(self, m):
        queue, config = self.component, self._config
        slots = operation_slots(config)
        launches = queue.launch.valid & queue.launch.ready
        accepted = Signal()  # the post that was checked is queued; known one cycle later
        m.d.comb += accepted.eq(
            self.past(queue.busy, name="busy") & ~queue.busy & (queue.code == Status.OK)
        )
        waiting = Signal(range(slots + 1), name="accepted_and_not_launched")
        running = Signal(range(slots + 1), name="launched_and_not_retired")
        m.d.sync += [
            waiting.eq(waiting + accepted - launches),
            running.eq(running + launches - queue.retire),
        ]
        self.assume("retires_what_was_launched", ~queue.retire | (running != 0))
        self.always(
            "keeps_a_slot_for_staging",
            waiting + accepted + running < slots,
            "Operations from acceptance to retirement leave a slot free, in which the next one is "
            "staged: no slot that is in use is written.",
            trace=(waiting != 0) & (running != 0),
        )
        self.always(
            "holds_no_more_than_its_depth",
            waiting + accepted <= config.queue_depth,
            "At most `queue_depth` operations wait for their launch.",
            trace=waiting == config.queue_depth,
        )
        self.always(
            "launches_only_what_was_accepted",
            waiting != 0,
            "A launch is offered only for an operation that was accepted and not launched.",
            when=queue.launch.valid,
        )
        self.always(
            "stream_contract",
            self.offers(queue.launch, "launch"),
            "A launch that was not taken is offered again, unchanged.",
            when=self.offer_waits(queue.launch, "launch"),
        )
        looked_at = self.past(queue.post & ~queue.busy, name="posted")
        is_full = waiting + accepted == config.queue_depth
        self.always(
            "says_so_when_it_is_full",
            ~queue.busy & (queue.code == Status.QUEUE_FULL),
            "A post that finds as many waiting as the queue holds is refused as such.",
            when=self.past(looked_at & is_full, name="looked_at_while_full"),
        )
        staged, next_launch = self.inside.signal("staged"), self.inside.signal("next_launch")
        inner_waiting, occupied = self.inside.signal("waiting"), self.inside.signal("occupied")
        self.lemma("waiting", inner_waiting == waiting + accepted)
        self.lemma("occupied", occupied == waiting + accepted + running)
        self.lemma("staged", staged == (next_launch + inner_waiting)[: len(staged)])
        self.lemma("launch_waits", ~queue.launch.valid | (inner_waiting != 0))
        state = self.inside.signal("check_state")
        self.lemma("busy", queue.busy == (state != 0))
        self.lemma("states", state <= 2)
        self.lemma("common", looked_at == (state == 1))
        self.lemma(
            "room_while_addresses_are_checked",
            (state != 2)
            | (
                (waiting + accepted < config.queue_depth)
                & (waiting + accepted + running < slots - 1)
            ),
        )
        self._follow(m, waiting, accepted, launches, staged, next_launch)

    def _follow(self, m, waiting, accepted, launches, staged, next_launch):
        """One operation, whichever it is, from acceptance to launch."""
        queue, config = self.component, self._config
        layout = OperationLayout(config)
        posted = queue.post & ~queue.busy
        length = Signal(layout["length"].width, name="posted_length")
        number_format = Signal(layout["format"].width, name="posted_format")
        with m.If(posted):
            m.d.sync += [length.eq(queue.length), number_format.eq(queue.format)]
        slot = Signal(slot_bits(config), name="slot_of_next")
        m.d.sync += slot.eq(slot + accepted)
        following = Signal()
        ahead = Signal.like(waiting, name="ahead")
        wanted = Signal(layout, name="followed")
        with m.If(accepted & ~following & self.any_value(1, "chosen")):
            m.d.sync += [
                following.eq(1),
                wanted.slot.eq(slot),
                wanted.length.eq(length),
                wanted.format.eq(number_format),
                ahead.eq(waiting - launches),
            ]
        with m.Elif(launches & (ahead == 0)):
            m.d.sync += following.eq(0)
        with m.Elif(launches):
            m.d.sync += ahead.eq(ahead - 1)
        turn = following & (ahead == 0)
        self.always(
            "launches_in_order_as_posted",
            queue.launch.payload.as_value() == wanted.as_value(),
            "Operations are launched in the order in which they were accepted, each with its own "
            "slot, length and format.",
            when=turn & queue.launch.valid,
        )
        memory = self.inside.memory("operations")
        stored = memory.at((next_launch + ahead)[: len(next_launch)])
        self.lemma("followed_waits", ~following | (ahead < waiting))
        self.lemma("followed_is_in_its_place", ~following | (stored == wanted.as_value()))
        self.lemma("next_slot", (slot + accepted)[: len(slot)] == staged)
        first = memory.at(next_launch)
        offered = data.View(layout, queue.launch.payload.as_value()).as_value()
        self.lemma("offers_what_is_stored", ~queue.launch.valid | (offered == first))
        # What was posted is what the check sees: neither changes while it goes on.
        busy_or_ended = queue.busy | accepted
        inner_length = self.inside.signal("length")
        inner_format = self.inside.signal("number_format")
        self.lemma("length", ~busy_or_ended | (inner_length[: len(length)] == length))
        self.lemma("format", ~busy_or_ended | (inner_format[: len(number_format)] == number_format))
        just = memory.at((staged - 1)[: len(staged)])
        fresh = Cat(slot, number_format, length)
        self.lemma("accepted_is_stored", ~accepted | (just == fresh))


PROOFS = [
    Proof(
        name="instruction-queue",
        component="InstructionQueue",
        size=describe(SMALL),
        specify=lambda: InstructionQueueContract(SMALL),
        depth=2,
        trace_depth=48,
        fault_depth=44,
        quick=False,
        timeout=1800,
        faults=(
            Fault("an operation is launched again", "next_launch", lambda value: value - 1),
            Fault("a launch of nothing", "launch__valid", lambda valid: valid | 1),
            Fault("no slot stays free", "waiting", lambda value: Const(0)),
        ),
    )
]
