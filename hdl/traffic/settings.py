"""What a traffic generator is told and what it counts: names, widths, meanings, in one place."""

from dataclasses import dataclass

from amaranth.lib import enum

from ..config import SwitchConfig

__all__ = [
    "GENERATION_BITS",
    "RATE_ONE",
    "TrafficPattern",
    "TrafficValue",
    "traffic_settings",
    "traffic_totals",
]

#: The rate of one flit a cycle.
RATE_ONE = 256
RATE_BITS = 16
#: Uses of a tag that are told apart, where answers may be given up: as many as a header can.
GENERATION_BITS = 4
#: A chance of 256 of 256 is certain, hence a bit more than eight.
CHANCE_BITS = 9


class TrafficPattern(enum.Enum, shape=3):
    """Where a rank's requests go."""

    ALL_TO_ALL = 0  # the other ranks in turn, the next one first
    NEIGHBOUR = 1  # the next rank
    HOT_SPOT = 2  # one rank, which asks nothing itself
    RANDOM = 3  # the other ranks at random
    ITSELF = 4  # its own memory, through the switch


@dataclass(frozen=True)
class TrafficValue:
    """A setting or a total: name, bits, meaning, and the value after reset."""

    name: str
    width: int
    meaning: str
    reset: int = 0


def traffic_settings(config: SwitchConfig) -> list[TrafficValue]:
    """What a generator is told before it starts."""
    address = config.operand_address_bits
    patterns = ", ".join(f"{each.value} {each.name.lower()}" for each in TrafficPattern)
    return [
        TrafficValue("pattern", 3, f"where requests go: {patterns}"),
        TrafficValue("target", 4, "rank of the hot spot"),
        TrafficValue("rate", RATE_BITS, "flits of data packets a cycle, headers too, in 1/256",
                     (1 << RATE_BITS) - 1),
        TrafficValue("bytes", config.payload_bytes.bit_length(), "of a request, to payload_bytes",
                     config.payload_bytes),
        TrafficValue("writes", CHANCE_BITS, "chance of a write, of 256; 256 is writes only"),
        TrafficValue("count", 32, "requests to make"),
        TrafficValue("slots", 16, "slots at each destination, a power of two, less one"),
        TrafficValue("write_base", address, "where slots that are written begin; whole flits"),
        TrafficValue("read_base", address, "where slots that are read begin; whole flits"),
        TrafficValue("seed", 32, "of destinations and kinds, and of the words"),
        *(
            [TrafficValue("timeout", 32, "cycles after which an answer is given up; 0: never")]
            if config.recovers else []
        ),
    ]  # fmt: skip


def traffic_totals(config: SwitchConfig) -> list[TrafficValue]:
    """What a generator counts from its start on."""
    return [
        TrafficValue("asked", 32, "requests made"),
        TrafficValue("answered", 32, "requests answered"),
        TrafficValue("moved", 48, "bytes read and written without an error"),
        TrafficValue("errors", 32, "answers with an error response"),
        TrafficValue("mismatches", 32, "answers whose data is not what must be there"),
        TrafficValue("strays", 32, "answers that nobody waited for, dropped"),
        TrafficValue("latency_min", 32, "fewest cycles from a request to its answer's last beat"),
        TrafficValue("latency_max", 32, "most cycles"),
        TrafficValue("latency_sum", 64, "cycles, summed over the answers"),
        *(
            [
                TrafficValue("lost", 32, "requests outstanding when this rank's link went down"),
                TrafficValue("timeouts", 32, "requests whose answer was given up"),
            ]
            if config.recovers
            else []
        ),
    ]
