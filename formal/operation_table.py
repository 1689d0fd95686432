"""`OperationTable`: the first error of an operation stays, until its slot is launched anew."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.barrier import EPOCH_BITS
from hdl.accelerator.layouts import Status, operation_slots, slot_bits
from hdl.accelerator.operation_table import READ_ERROR, WRITE_ERROR, OperationTable

from .proof import Fault, Proof
from .sizes import SMALL, TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class OperationTableContract(Specification):
    """One slot, whichever it is, and where contexts recover, those that are under way."""

    def __init__(self, config):
        self._config = config
        super().__init__(OperationTable(config))

    def specify(self, m):
        table = self.component
        slot = self.any_constant(slot_bits(self._config), "slot")
        launched = table.launch & (table.launch_slot == slot)
        code, rank, epoch = Signal(8, name="code"), Signal(4), Signal(EPOCH_BITS)
        failed = Signal()
        m.d.comb += failed.eq(code != Status.OK.value)
        has_error, error, of_rank = self._error(slot)
        ends_by, ends_code, ends_rank = Const(0), Const(0), Const(0)
        begins_code, begins_rank = Const(Status.OK.value, 8), Const(0)
        if self._config.recovers:
            ends_by, ends_code, ends_rank = self._ring(m, slot, failed)
            begins_code, begins_rank = table.launch_code.as_value(), table.launch_rank
        with m.If(launched):
            m.d.sync += [code.eq(begins_code), rank.eq(begins_rank), epoch.eq(table.epoch)]
        with m.Elif(~failed & ends_by):
            m.d.sync += [code.eq(ends_code), rank.eq(ends_rank)]
        with m.Elif(~failed & has_error):
            m.d.sync += [code.eq(error), rank.eq(of_rank)]
        asked = table.ask == slot
        self.always(
            "says_what_became_of_the_operation",
            (table.asked_code.as_value() == code)
            & (table.asked_rank == rank)
            & (table.asked_epoch == epoch),
            "What a slot has is what its operation was launched with, or its first error, with the "
            "rank and the epoch. Of several errors in one cycle an abort goes first, then that of "
            "a read, then the lowest port's.",
            when=asked,
            trace=asked & failed & (table.asked_rank == 1) & (epoch == 2),
        )
        self.always(
            "failed_says_so",
            table.failed.bit_select(slot, 1) == failed,
            "A slot has failed if its code is not OK, and only then.",
            trace=failed,
        )
        was_failed = self.past(table.failed.bit_select(slot, 1) & asked, name="failed_and_asked")
        answer = Cat(table.asked_code, table.asked_rank)
        same = answer == self.past(answer, name="answer")
        again = self.past(has_error | ends_by, name="another_error")
        not_launched = ~self.past(launched, name="launched")
        self.always(
            "the_first_error_stays",
            same & table.failed.bit_select(slot, 1),
            "An operation that has failed keeps its code and rank until its slot is launched anew.",
            when=was_failed & not_launched & asked,
            trace=was_failed & not_launched & asked & again,
        )
        good = launched & (begins_code == Status.OK.value)
        self.always(
            "a_launch_clears_the_slot",
            ~table.failed.bit_select(slot, 1),
            "An operation that is launched as a good one has not failed, whatever came before.",
            when=self.past(good, name="good"),
            trace=self.past(good & failed, name="cleared"),
        )
        for name, value in (("code", code), ("rank", rank), ("epoch", epoch)):
            for number in range(operation_slots(self._config)):
                inside = self.inside.signal(f"{name}_{number}")
                self.lemma(f"{name}_{number}", (slot != number) | (inside == value))

    def _error(self, slot):
        """Whether the slot has an error in this cycle, its code and its rank."""
        table = self.component
        read = table.read_error & (table.read_operation == slot)
        any_error, code, rank = Const(0), Const(0, 8), Const(0, 4)
        for port in reversed(range(self._config.ranks)):
            here = table.write_error[port] & (table.write_operation[port] == slot)
            response = table.write_response[port].as_value()
            any_error = any_error | here
            code = Mux(here, WRITE_ERROR | response, code)
            rank = Mux(here, port, rank)
        code = Mux(read, READ_ERROR | table.read_response.as_value(), code)
        return any_error | read, code, Mux(read, table.read_rank, rank)

    def _ring(self, m, slot, failed):
        """Operations start, are over and end in the order of slots; what an abort does to one."""
        table, slots = self.component, operation_slots(self._config)
        bits = slot_bits(self._config)
        oldest = Signal(bits, name="oldest_slot")
        live, over = Signal(range(slots + 1), name="live_ones"), Signal(range(slots + 1))
        m.d.sync += [
            oldest.eq(oldest + table.end),
            live.eq(live + table.launch - table.end),
            over.eq(over + table.over - table.end),
        ]
        next_slot = (oldest + live)[:bits]
        next_over = (oldest + over)[:bits]
        self.assume(
            "launches_in_order",
            ~table.launch | ((live != slots) & (table.launch_slot == next_slot)),
        )
        self.assume(
            "are_over_in_order", ~table.over | ((over != live) & (table.over_slot == next_over))
        )
        self.assume("ends_what_is_over", ~table.end | (over != 0))
        self.assume("launches_none_as_it_aborts", ~(table.abort & table.launch))
        self.always(
            "tells_what_is_under_way",
            (table.live == (live != 0)) & (table.unfinished == (over != live)),
            "`live` says that operations are launched and not ended, `unfinished` that some of "
            "them are not over.",
            trace=table.live & ~table.unfinished,
        )
        place = (slot - oldest)[:bits]
        is_live = place < live
        overs = over + table.over  # and those that are over now
        spared = table.spare & (place < overs)
        first = Mux(table.spare, place == overs, place == 0)
        aborted = table.abort & is_live & ~spared
        fails = self.past(aborted, name="aborted")
        self.always(
            "an_abort_ends_all_that_is_under_way",
            table.failed.bit_select(slot, 1),
            "An abort fails every operation that is launched and not ended, but with `spare` not "
            "those that are over.",
            when=fails & (self.past(table.abort_code.as_value(), name="abort_code") != 0),
        )
        spares = self.past(table.abort & is_live & spared & ~failed, name="spared") & ~self.past(
            self._error(slot)[0], name="error"
        )
        self.always(
            "an_abort_spares_what_is_over",
            ~table.failed.bit_select(slot, 1),
            "With `spare` an abort leaves as it is what has only flags to send.",
            when=spares,
        )
        lives, is_over = self.inside.signal("live"), self.inside.signal("over")
        for number in range(slots):
            where = (Const(number, bits) - oldest)[:bits]
            self.lemma(f"live_{number}", lives[number] == (where < live))
            self.lemma(f"over_{number}", is_over[number] == (where < over))
        self.lemma("oldest", self.inside.signal("oldest") == oldest)
        self.lemma("oldest_unfinished", self.inside.signal("oldest_unfinished") == next_over)
        self.lemma("over_ones_are_live", (over <= live) & (live <= slots))
        return (
            aborted,
            Mux(first, table.abort_code.as_value(), Status.ABORTED.value),
            Mux(first, table.abort_rank, 0),
        )


PROOFS = [
    Proof(
        name="operation-table",
        component="OperationTable",
        size=describe(SMALL),
        specify=lambda: OperationTableContract(SMALL),
        faults=(
            Fault("nothing has failed", "failed", lambda failed: failed & 0),
            Fault("the rank is not told", "rank_1", lambda rank: rank & 0),
            Fault("the code of another slot", "asked_code", lambda code: code & 0),
        ),
    ),
    Proof(
        name="operation-table-of-contexts",
        component="OperationTable",
        size=describe(TENANTS),
        specify=lambda: OperationTableContract(TENANTS),
        faults=(
            Fault("nothing is under way", "unfinished", lambda unfinished: unfinished & 0),
            Fault("the code is lost", "code_2", lambda code: code & 0),
            Fault("the oldest stays the first", "oldest", lambda oldest: oldest & 0),
        ),
    ),
]
