"""How long an All-Reduce takes, in closed form, where links and not memories are the limit."""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass

from amaranth.hdl import UnusedElaboratable

from hdl.accelerator.arithmetic import Arithmetic
from hdl.accelerator.wave_table import read_delay
from hdl.config import SwitchConfig

__all__ = ["Stage", "data_cycles", "first_wave_stages", "reducer_delay", "wave_cycles"]


@dataclass(frozen=True)
class Stage:
    """A part of the way of an operation's first wave: what passes, and cycles."""

    what: str
    cycles: int


def reducer_delay(config: SwitchConfig, format: str = "fp16") -> int:
    """Cycles that the reducer of `config` takes for sums, or for codes (``inq8``)."""
    with warnings.catch_warnings():
        # It is asked, not built; collected here, so that nothing warns of it later.
        warnings.simplefilter("ignore", UnusedElaboratable)
        arithmetic = Arithmetic(config)
        delay = arithmetic.inq_delay if format == "inq8" else arithmetic.delay
        del arithmetic
        gc.collect()
    return delay


@dataclass(frozen=True)
class Load:
    """What a wave puts on a link in one direction: packets with payload, their flits, and as many
    requests or responses.
    """

    packets: int
    flits: int
    single: int

    @classmethod
    def of(cls, config: SwitchConfig, wave_bytes: int, format: str) -> Load:
        """Of a wave of `wave_bytes`, its scales included."""
        packets = config.packets(wave_bytes)
        flits = config.payload_cycles(wave_bytes)
        requests = config.requests(wave_bytes)
        if format == "inq8":
            scales = config.scales_bytes(wave_bytes)
            packets += -(-scales // config.payload_bytes)
            requests += -(-scales // config.read_request_bytes)
            flits += config.payload_cycles(scales)
        return cls(packets, flits, max(packets, requests))


#: Beats that slices and the endpoint hold: of shorter packets only the first one's address is
#: waited for, since the others' go by while headers are taken off.
SLICED_BEATS = 3
#: What register slices add on that way; a wave table's slower read is in `read_delay`.
SLICES = (
    Stage("slices: transmitters' sources, of requests, read data, results, write responses", 4),
    Stage("slices: memory's bus, read address, read data, write data, write response", 4),
    Stage("slices: memory's array, read", 1),
    Stage("slices: wave table's answer to read-out, results, write responses to the tracker", 3),
)


def first_wave_stages(
    config: SwitchConfig, wave_bytes: int | None = None, format: str = "fp16"
) -> list[Stage]:
    """Stages from the first read request accepted at a port to the wave's last write response
    taken there, on the critical path; their sum is `cycles.data` of an operation of one wave.

    Valid for a wave of one or more packets whose requests are not delayed by credits, memories
    without jitter or stalls, and in-page addresses. Scales are asked for before codes and written
    behind them.
    """
    load = Load.of(config, wave_bytes or config.wave_bytes, format)
    packets, flits = load.packets, load.flits
    headers = config.header_flits
    link = config.link_latency
    return [
        Stage("request: transmitter's two registers", 2),
        Stage("request: link", link + headers - 1),
        Stage("endpoint: request queue, request and address registers", 3),
        Stage("memory: read latency", max(config.memory_latency, 2)),
        Stage("endpoint: transmitter's two registers", 2),
        Stage("read data: headers and payload on the link", packets * headers + flits - 1),
        Stage("read data: link", link),
        Stage("wave table: register, last packet noted", 2),
        Stage("read-out: wave taken", 1),
        Stage("wave table: read", read_delay(config)),
        Stage("reducer", reducer_delay(config, format)),
        Stage("write-back FIFO, transmitter's register", 2),
        Stage("results: payload and further headers on the link",
              flits + (packets - 1) * headers - 1),
        Stage("results: link", link),
        Stage("endpoint: write queue, data register", 2),
        Stage("memory: a burst's address before its data, once a packet",
              1 if config.sliced and config.payload_flits <= SLICED_BEATS else packets),
        Stage("memory: write response", 1),
        Stage("endpoint: response queue, transmitter's two registers", 3),
        Stage("write response: link", link + headers - 1),
        *(SLICES if config.sliced else ()),
    ]  # fmt: skip


def wave_cycles(config: SwitchConfig, format: str = "fp16") -> int:
    """Cycles from one full wave to the next in steady state: the busier link's flits.

    To a rank go results and read requests, from it read data and write responses.
    """
    load = Load.of(config, config.wave_bytes, format)
    return load.flits + config.header_flits * (load.packets + load.single)


def data_cycles(config: SwitchConfig, data_bytes: int, format: str = "fp16") -> int:
    """`cycles.data` of an operation of whole waves: the first wave's way, then a wave each
    `wave_cycles`, if enough waves are in flight to cover the way (`waves` * `wave_cycles` at least
    the way from request to read-out).
    """
    if data_bytes <= 0 or data_bytes % config.wave_bytes:
        raise ValueError(
            f"bytes: must be whole waves of {config.wave_bytes} bytes, not {data_bytes}"
        )
    waves = data_bytes // config.wave_bytes
    first = sum(stage.cycles for stage in first_wave_stages(config, format=format))
    return first + (waves - 1) * wave_cycles(config, format)
