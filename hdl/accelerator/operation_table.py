"""What became of each operation under way: its epoch and its first error."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Response
from .barrier import EPOCH_BITS
from .layouts import Status, operation_slots, slot_bits

__all__ = ["OperationTable"]

#: `Status` codes of errors: this plus the AXI response.
READ_ERROR = 0x10
WRITE_ERROR = 0x20


class OperationTable(wiring.Component):
    """Status of the operations between launch and flag.

    Members
    -------
    launch, launch_slot, epoch : an operation starts
    read_error, read_operation, read_rank, read_response : a wave's data had an error
    write_error, write_operation, write_response : by port, an acknowledgement had one
    failed : by slot: has an error
    ask, asked_epoch, asked_code, asked_rank : look-up, combinational

    Where contexts outlive failures:

    launch_code, launch_rank : the operation starts as one that has failed, unless OK
    end : the oldest operation is over
    abort, abort_code, abort_rank : all operations under way fail, the oldest with this code, the
        others as ABORTED
    over, over_slot : an operation has flags to send and nothing else; spare: ``abort`` leaves those
        as they are
    live, unfinished : some are under way; some are not over

    The first error of an operation stays; of several in one cycle a read error goes first, then
    the lowest port.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        slot = slot_bits(config)
        recovery = {
            "launch_code": In(Status),
            "launch_rank": In(4),
            "end": In(1),
            "abort": In(1),
            "abort_code": In(Status),
            "abort_rank": In(4),
            "over": In(1),
            "over_slot": In(slot),
            "spare": In(1),
            "live": Out(1),
            "unfinished": Out(1),
        }
        super().__init__(
            {
                "launch": In(1),
                "launch_slot": In(slot),
                "epoch": In(EPOCH_BITS),
                "read_error": In(1),
                "read_operation": In(slot),
                "read_rank": In(4),
                "read_response": In(Response),
                "write_error": In(config.ranks),
                "write_operation": In(slot).array(config.ranks),
                "write_response": In(Response).array(config.ranks),
                "failed": Out(operation_slots(config)),
                "ask": In(slot),
                "asked_epoch": Out(EPOCH_BITS),
                "asked_code": Out(Status),
                "asked_rank": Out(4),
            }
            | (recovery if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        slots = range(operation_slots(self._config))
        epochs = Array(Signal(EPOCH_BITS, name=f"epoch_{s}") for s in slots)
        codes = Array(Signal(Status, name=f"code_{s}") for s in slots)
        ranks = Array(Signal(4, name=f"rank_{s}") for s in slots)
        m.d.comb += [
            self.failed.eq(Cat(code != Status.OK for code in codes)),
            self.asked_epoch.eq(epochs[self.ask]),
            self.asked_code.eq(codes[self.ask]),
            self.asked_rank.eq(ranks[self.ask]),
        ]
        code, rank = Status.OK, 0
        if self._config.recovers:
            code, rank = self.launch_code, self.launch_rank
        for slot in slots:
            with m.If(self.launch & (self.launch_slot == slot)):
                m.d.sync += [
                    epochs[slot].eq(self.epoch),
                    codes[slot].eq(code),
                    ranks[slot].eq(rank),
                ]
            with m.Elif(~self.failed[slot]):
                for port in reversed(range(self._config.ranks)):
                    with m.If(self.write_error[port] & (self.write_operation[port] == slot)):
                        m.d.sync += [
                            codes[slot].eq(WRITE_ERROR | self.write_response[port].as_value()),
                            ranks[slot].eq(port),
                        ]
                with m.If(self.read_error & (self.read_operation == slot)):
                    m.d.sync += [
                        codes[slot].eq(READ_ERROR | self.read_response.as_value()),
                        ranks[slot].eq(self.read_rank),
                    ]
        if self._config.recovers:
            self._abort(m, codes, ranks)
        return m

    def _abort(self, m, codes, ranks):
        """Operations start and end in the order of their slots, which are a ring."""
        live = Signal(len(codes))
        oldest = Signal.like(self.ask)
        over = Signal(len(codes))
        oldest_unfinished = Signal.like(self.ask)
        m.d.comb += [self.live.eq(live.any()), self.unfinished.eq((live & ~over).any())]
        with m.If(self.launch):
            m.d.sync += live.bit_select(self.launch_slot, 1).eq(1)
        with m.If(self.end):
            m.d.sync += [live.bit_select(oldest, 1).eq(0), oldest.eq(oldest + 1)]
            m.d.sync += over.bit_select(oldest, 1).eq(0)
        with m.If(self.over):
            m.d.sync += [
                over.bit_select(self.over_slot, 1).eq(1),
                oldest_unfinished.eq(oldest_unfinished + 1),
            ]
        # Slots are a ring: behind the last one comes the first.
        behind_over = (oldest_unfinished + self.over)[: len(oldest)]
        for slot, code in enumerate(codes):
            spared = self.spare & (over[slot] | (self.over & (self.over_slot == slot)))
            with m.If(self.abort & live[slot] & ~self.failed[slot] & ~spared):
                first = Mux(self.spare, behind_over, oldest) == slot
                m.d.sync += [
                    code.eq(Mux(first, self.abort_code, Status.ABORTED)),
                    ranks[slot].eq(Mux(first, self.abort_rank, 0)),
                ]
