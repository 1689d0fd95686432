"""Which virtual channels the two ends of a rank's link use, and how deep.

One table for both ends: what a receiver buffers is what the transmitter at the other end may send.
A depth of 0 is a channel that is taken at once; its sender still counts credits, enough for a
round trip at full rate.
"""

from ..config import SwitchConfig
from ..interfaces import MessageClass, virtual_channel
from .transmitter import SourceSpec

__all__ = [
    "core_sources",
    "credits_to_rank",
    "credits_to_switch",
    "endpoint_channels",
    "endpoint_sources",
    "port_channels",
    "accelerator_sources",
]

READ_REQUEST = virtual_channel(MessageClass.READ_REQUEST, True)
READ_DATA = virtual_channel(MessageClass.READ_DATA, True)
WRITE_DATA = virtual_channel(MessageClass.WRITE_DATA, True)
WRITE_RESPONSE = virtual_channel(MessageClass.WRITE_RESPONSE, True)
CORE_READ_REQUEST = virtual_channel(MessageClass.READ_REQUEST, False)
CORE_READ_DATA = virtual_channel(MessageClass.READ_DATA, False)
CORE_WRITE_DATA = virtual_channel(MessageClass.WRITE_DATA, False)
CORE_WRITE_RESPONSE = virtual_channel(MessageClass.WRITE_RESPONSE, False)

#: Headers in flight on channels that see one now and then.
FEW = 4


def endpoint_channels(config: SwitchConfig) -> dict[int, int]:
    """Queue depths of a rank's receiver, in flits."""
    return {
        READ_REQUEST: config.read_request_credits,
        WRITE_DATA: config.write_data_credits,
        WRITE_RESPONSE: 0,  # of arrivals; the arrival logic takes it
        CORE_READ_DATA: 0,  # answers sink: their requester has kept room
        CORE_WRITE_RESPONSE: 0,
    }


def credits_to_rank(config: SwitchConfig) -> dict[int, int]:
    """Credits that a port's transmitter starts with."""
    return {
        READ_REQUEST: config.read_request_credits,
        WRITE_DATA: config.write_data_credits,
        WRITE_RESPONSE: FEW * config.header_flits,
        CORE_READ_DATA: FEW * config.header_flits,
        CORE_WRITE_RESPONSE: FEW * config.header_flits,
    }


def port_channels(config: SwitchConfig) -> dict[int, int]:
    """Queue depths of a port's receiver, in flits.

    Read data and write responses for the accelerator sink at once. Arrivals and ordinary requests
    wait for room for their answers.
    """
    return {
        READ_DATA: 0,
        WRITE_RESPONSE: 0,
        WRITE_DATA: FEW * (config.header_flits + 1),
        CORE_READ_REQUEST: FEW * config.header_flits,
        CORE_WRITE_DATA: config.packet_flits,
    }


def credits_to_switch(config: SwitchConfig) -> dict[int, int]:
    """Credits that an endpoint's transmitter starts with."""
    return port_channels(config) | {
        READ_DATA: config.write_data_credits,
        WRITE_RESPONSE: config.read_request_credits,
    }


def endpoint_sources(config: SwitchConfig) -> list[SourceSpec]:
    """What a rank sends."""
    return [
        SourceSpec("read_data", MessageClass.READ_DATA, payload_flits=config.payload_flits),
        SourceSpec("write_responses", MessageClass.WRITE_RESPONSE),
        SourceSpec("arrivals", MessageClass.WRITE_DATA, payload_flits=1),
    ]


def accelerator_sources(config: SwitchConfig) -> list[SourceSpec]:
    """What the accelerator sends through one port."""
    return [
        SourceSpec("requests", MessageClass.READ_REQUEST),
        SourceSpec("writes", MessageClass.WRITE_DATA, payload_flits=config.payload_flits),
        SourceSpec("flags", MessageClass.WRITE_DATA, payload_flits=1),
        SourceSpec("answers", MessageClass.WRITE_RESPONSE),
    ]


def core_sources(config: SwitchConfig) -> list[SourceSpec]:
    """What the core sends through one port."""
    return [
        SourceSpec("core_read_data", MessageClass.READ_DATA, inc=False),
        SourceSpec("core_write_responses", MessageClass.WRITE_RESPONSE, inc=False),
    ]
