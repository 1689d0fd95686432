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
    "WHOLE",
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

#: Ordinary packets with payload, which the core stores whole before it forwards them.
WHOLE = (CORE_READ_DATA, CORE_WRITE_DATA)
#: Channels of answers to ordinary requests.
ORDINARY_ANSWERS = (CORE_READ_DATA, CORE_WRITE_RESPONSE)
#: Channels of forwarded packets.
FORWARDED = (CORE_READ_REQUEST, CORE_READ_DATA, CORE_WRITE_DATA, CORE_WRITE_RESPONSE)

#: Headers in flight on channels that see one now and then.
FEW = 4


def endpoint_channels(config: SwitchConfig) -> dict[int, int]:
    """Queue depths of a rank's receiver, in flits."""
    served = (CORE_READ_REQUEST, CORE_WRITE_DATA) if config.forwards else ()
    return (
        {
            READ_REQUEST: config.read_request_credits,
            WRITE_DATA: config.write_data_credits,
            WRITE_RESPONSE: 0,  # of arrivals; the arrival logic takes it
        }
        # Answers sink: their requester has kept room.
        | dict.fromkeys(ORDINARY_ANSWERS if config.carries_ordinary else (), 0)
        | dict.fromkeys(served, config.ordinary_credits)
    )


def credits_to_rank(config: SwitchConfig) -> dict[int, int]:
    """Credits that a port's transmitter starts with."""
    forwarded = FORWARDED if config.forwards else ()
    answers = ORDINARY_ANSWERS if config.carries_ordinary else ()
    return (
        {
            READ_REQUEST: config.read_request_credits,
            WRITE_DATA: config.write_data_credits,
            WRITE_RESPONSE: FEW * config.header_flits,
        }
        | dict.fromkeys(answers, FEW * config.header_flits)
        | dict.fromkeys(forwarded, config.ordinary_credits)
    )


def port_channels(config: SwitchConfig) -> dict[int, int]:
    """Queue depths of a port's receiver, in flits.

    Read data and write responses for the accelerator sink at once. Arrivals and ordinary requests
    wait for room for their answers. Forwarded packets wait for the port that they go to.
    """
    requests = {
        CORE_READ_REQUEST: FEW * config.header_flits,
        CORE_WRITE_DATA: config.packet_flits,
    }
    forwarded = FORWARDED if config.forwards else ()
    return (
        {
            READ_DATA: 0,
            WRITE_RESPONSE: 0,
            WRITE_DATA: FEW * (config.header_flits + 1),
        }
        | (requests if config.carries_ordinary else {})
        | dict.fromkeys(forwarded, config.ordinary_credits)
    )


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
        *(_forwarded_sources(config) if config.forwards else ()),
    ]


def accelerator_sources(config: SwitchConfig) -> list[SourceSpec]:
    """What the accelerator sends through one port."""
    return [
        SourceSpec("requests", MessageClass.READ_REQUEST),
        SourceSpec(
            "writes",
            MessageClass.WRITE_DATA,
            payload_flits=config.payload_flits,
            sliced=not config.recovers,
        ),
        SourceSpec("flags", MessageClass.WRITE_DATA, payload_flits=1),
        SourceSpec("answers", MessageClass.WRITE_RESPONSE),
    ]


def core_sources(config: SwitchConfig) -> list[SourceSpec]:
    """What the core sends through one port."""
    if not config.carries_ordinary:
        return []
    if config.forwards:
        return _forwarded_sources(config) + refusal_sources(config)
    return [
        SourceSpec("core_read_data", MessageClass.READ_DATA, inc=False),
        SourceSpec("core_write_responses", MessageClass.WRITE_RESPONSE, inc=False),
    ]


def _forwarded_sources(config: SwitchConfig) -> list[SourceSpec]:
    """Ordinary packets of each class, in the order of `MessageClass`."""
    return [
        SourceSpec(
            f"core_{name}",
            message_class,
            inc=False,
            payload_flits=config.payload_flits if payload else 0,
        )
        for name, message_class, payload in (
            ("requests", MessageClass.READ_REQUEST, False),
            ("read_data", MessageClass.READ_DATA, True),
            ("writes", MessageClass.WRITE_DATA, True),
            ("write_responses", MessageClass.WRITE_RESPONSE, False),
        )
    ]


def refusal_sources(config: SwitchConfig) -> list[SourceSpec]:
    """Answers to ordinary requests that a port refuses, where the core forwards."""
    return [
        SourceSpec("refused_reads", MessageClass.READ_DATA, inc=False),
        SourceSpec("refused_writes", MessageClass.WRITE_RESPONSE, inc=False),
    ]
