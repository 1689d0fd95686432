"""What an observer sees of the accelerator's work, cycle by cycle."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import SwitchConfig
from .layouts import entry_bits, slot_bits, write_tag_bits

__all__ = ["RANK_EVENTS", "WAVE_EVENTS", "RankTrace", "WaveTrace", "trace_ports"]

#: Events of `WaveTrace`: the strobe of each, and the numbers that go with it.
WAVE_EVENTS = {
    "issue": ("issue_entry", "issue_operation", "issue_empty"),
    "read_out": ("read_out_entry", "read_out_slot"),
    "release": (),
    "retire": (),
    "over": (),
}
#: Events of `RankTrace`, likewise.
RANK_EVENTS = {
    "arrival": (),
    "request": ("request_entry",),
    "data": ("data_entry",),
    "write": ("write_slot",),
    "response": ("response_slot",),
    "flag": (),
}


class WaveTrace(wiring.Signature):
    """Waves of the whole accelerator. Entries and write slots are rings, used in order.

    Members
    -------
    issue, issue_entry, issue_operation, issue_empty : a wave is issued (an empty one takes no
        entry)
    read_out, read_out_entry, read_out_slot : a wave's read-out begins, or it is dropped
    release : the read-out of the oldest entry ends
    retire : the oldest wave in its write phase is acknowledged by every rank
    over : an operation's last wave is acknowledged
    reading, writing : waves in either phase
    """

    def __init__(self, config: SwitchConfig):
        write_slot = write_tag_bits(config)
        super().__init__(
            {
                "issue": Out(1),
                "issue_entry": Out(entry_bits(config)),
                "issue_operation": Out(slot_bits(config)),
                "issue_empty": Out(1),
                "read_out": Out(1),
                "read_out_entry": Out(entry_bits(config)),
                "read_out_slot": Out(write_slot),
                "release": Out(1),
                "retire": Out(1),
                "over": Out(1),
                "reading": Out(range(config.waves + 1)),
                "writing": Out(range(config.write_waves + 1)),
            }
        )


class RankTrace(wiring.Signature):
    """One rank's part in the waves.

    Members
    -------
    arrival : the rank's arrival is taken
    request, request_entry : a read request is accepted at its port
    data, data_entry : the last flit of a packet of read data comes
    write : a write packet is accepted at its port; write_slot : its write-phase slot
    response, response_slot : a data write is acknowledged
    flag : the flag is accepted at its port
    """

    def __init__(self, config: SwitchConfig):
        write_slot = write_tag_bits(config)
        super().__init__(
            {
                "arrival": Out(1),
                "request": Out(1),
                "request_entry": Out(entry_bits(config)),
                "data": Out(1),
                "data_entry": Out(entry_bits(config)),
                "write": Out(1),
                "write_slot": Out(write_slot),
                "response": Out(1),
                "response_slot": Out(write_slot),
                "flag": Out(1),
            }
        )


def trace_ports(ranks: int) -> dict[str, tuple[str, ...]]:
    """The strobe of every event by the name of its port, and the names of its numbers' ports.

    Names are those of a top that has members ``trace`` and ``rank_trace``, as `System` has.
    """
    groups = {"trace__": WAVE_EVENTS}
    groups |= {f"rank_trace__{rank}__": RANK_EVENTS for rank in range(ranks)}
    return {
        prefix + event: tuple(prefix + number for number in numbers)
        for prefix, events in groups.items()
        for event, numbers in events.items()
    }
