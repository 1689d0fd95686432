"""Credits of a rank's link, as docs/wire-format.md states them: flits by virtual channel."""

from __future__ import annotations

from hdl.config import SwitchConfig

__all__ = ["to_rank", "to_switch"]

#: Packets in flight on a channel that sees one now and then.
FEW = 4


def to_rank(config: SwitchConfig) -> dict[int, int]:
    """What a rank has room for."""
    few = FEW * config.header_flits
    return {
        1: few,  # ordinary read data
        3: few,  # ordinary write responses
        4: config.read_request_credits,
        6: config.write_data_credits,
        7: few,  # answers to arrivals
    }


def to_switch(config: SwitchConfig) -> dict[int, int]:
    """What a port has room for."""
    return {
        0: FEW * config.header_flits,  # ordinary read requests
        2: config.packet_flits,  # ordinary writes
        5: config.write_data_credits,  # read data
        6: FEW * (config.header_flits + 1),  # arrivals
        7: config.read_request_credits,  # write responses
    }
