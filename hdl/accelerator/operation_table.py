"""What became of each operation under way: its epoch and its first error."""

from amaranth import Array, Cat, Module, Signal
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

    The first error of an operation stays; of several in one cycle a read error goes first, then
    the lowest port.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        slot = slot_bits(config)
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
        for slot in slots:
            with m.If(self.launch & (self.launch_slot == slot)):
                m.d.sync += [
                    epochs[slot].eq(self.epoch),
                    codes[slot].eq(Status.OK),
                    ranks[slot].eq(0),
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
        return m
