"""Totals of what happens at a port, or in a context, since a host set them to zero."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig

__all__ = ["CONTEXT_TOTALS", "Total", "Totals", "port_totals"]

TOTAL_BITS = 32
BYTES_BITS = 48
#: Width of a number of ranks.
RANKS_BITS = 5


class Total:
    """One total: its name, the width of what a cycle adds, its own, and its meaning in docs."""

    def __init__(self, name: str, meaning: str, *, width: int = 1, bits: int = TOTAL_BITS):
        self.name, self.meaning, self.width, self.bits = name, meaning, width, bits


def port_totals(config: SwitchConfig) -> tuple[Total, ...]:
    """What is counted of the accelerator's traffic at each port."""
    read, written = config.payload_bytes.bit_length(), config.payload_bytes.bit_length()
    return (
        Total("read_packets", "packets of read data"),
        Total("read_bytes", "bytes of read data", width=read, bits=BYTES_BITS),
        Total("write_packets", "packets of results and flags"),
        Total("write_bytes", "bytes of results", width=written, bits=BYTES_BITS),
        Total("read_slverr", "beats of read data with SLVERR, and packets without data"),
        Total("read_decerr", "beats of read data with DECERR"),
        Total("write_slverr", "write responses with SLVERR"),
        Total("write_decerr", "write responses with DECERR"),
        Total("links_lost", "times that the link went down"),
    )


#: What is counted of each context.
CONTEXT_TOTALS = (
    Total("busy", "cycles with an operation under way"),
    Total("waves", "waves that every rank has acknowledged"),
    Total("stall_barrier", "cycles an operation waited for its barrier"),
    Total("stall_entries", "cycles a wave waited for a wave table entry"),
    Total("stall_data", "cycles the oldest wave waited for data"),
    Total("stall_write_room", "cycles a packet waited for write-back room"),
    Total("refused_arrivals", "arrivals that were answered with an error", width=RANKS_BITS),
    Total("late_data", "packets of read data that nobody waited for, dropped", width=RANKS_BITS),
    Total("late_responses", "write responses that nobody waited for, dropped", width=RANKS_BITS),
)


class Totals(wiring.Component):
    """Adds up events since ``clear``.

    Members
    -------
    clear : all to zero
    one input an event, by its name: what this cycle adds
    one output each, ``total_`` and the name

    Timing
    ------
    Events are registered first, so that counting adds nothing to their paths: one shows two cycles
    later.
    """

    def __init__(self, totals: tuple[Total, ...]):
        self._totals = totals
        super().__init__(
            {"clear": In(1)}
            | {total.name: In(total.width) for total in totals}
            | {f"total_{total.name}": Out(total.bits) for total in totals}
        )

    def elaborate(self, platform):
        m = Module()
        for total in self._totals:
            seen = Signal(total.width, name=f"seen_{total.name}")
            value = getattr(self, f"total_{total.name}")
            m.d.sync += [
                seen.eq(Mux(self.clear, 0, getattr(self, total.name))),
                value.eq(Mux(self.clear, 0, value + seen)),
            ]
        return m
