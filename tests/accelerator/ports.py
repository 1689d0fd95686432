"""What stands behind an `Accelerator` in unit tests: links and memories in Python, any order."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from amaranth import Elaboratable, Module

from hdl.accelerator.layouts import Status
from hdl.accelerator.read_out import ReadOut
from hdl.accelerator.read_out_turns import ReadOutTurns
from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass, Response
from tests.lib.packets import header_fields
from tests.lib.simulate import until

__all__ = ["Peer", "Peers", "ReadOutAlone", "beat", "post", "quantizing", "small"]


def small(**overrides) -> SwitchConfig:
    """Two ranks, four packets of two flits a wave, two entries: quick in pysim."""
    fields = dict(
        ranks=2, flit_bytes=8, payload_bytes=16, wave_bytes=64, waves=2, memory_bytes=4096,
        formats=("fp16",), link_latency=2, memory_latency=2, address_bits=48,
    )  # fmt: skip
    return SwitchConfig(**{**fields, **overrides})


def quantizing(**overrides) -> SwitchConfig:
    """`small` with codes: blocks of four flits, four blocks a wave, whose scales are a flit."""
    return small(**dict(formats=("fp16", "inq8"), block=32, wave_bytes=128) | overrides)


def beat(*, data=0, response=0, empty=0, first=1, last=1, **header) -> dict:
    """A `Beat` to set, its header by fields."""
    header = {"message_class": MessageClass.READ_DATA, "inc": 1} | header
    return dict(
        header=header, data=data, response=Response(response), empty=empty, first=first, last=last
    )


async def post(
    ctx, posting, *, length, sources, destinations, flags, scale_sources=(),
    scale_destinations=(), format=0, stage=True, **common,
):  # fmt: skip
    """Stage and post an instruction, with what other `common` fields it has; its code and rank."""
    kinds = dict(
        source=sources, destination=destinations, flag=flags, scale_source=scale_sources,
        scale_destination=scale_destinations,
    )  # fmt: skip
    for kind, addresses in kinds.items() if stage else ():
        for rank, address in enumerate(addresses):
            ctx.set(posting.address, address)
            ctx.set(getattr(posting, f"stage_{kind}"), 1 << rank)
            await ctx.tick()
        if addresses:
            ctx.set(getattr(posting, f"stage_{kind}"), 0)
    ctx.set(posting.length, length)
    ctx.set(posting.format, format)
    for name, value in common.items():
        ctx.set(getattr(posting, name), value)
    ctx.set(posting.post, 1)
    await ctx.tick()
    ctx.set(posting.post, 0)
    await until(ctx, ~posting.busy)
    return Status(ctx.get(posting.code)), ctx.get(posting.rank)


@dataclass
class Peer:
    """One rank: its memory, and what it is asked for."""

    memory: bytearray
    requests: list  # (cycle, header)
    writes: list  # (cycle, header, bytes)
    flags: list  # (cycle, header, bytes)
    answers: list  # (cycle, header)


class Peers:
    """Every rank of an `Accelerator`; a background bench.

    Parameters
    ----------
    read_delay, write_delay
        Cycles from a request or a write's end to its answer, called with the rank.
    shuffle
        Answers that are due go out in any order.
    takes
        By source name: whether a packet's head may be taken in this cycle, called with the rank.
    read_response, write_response
        The AXI response of an answer, called with rank and header (of the request or write).
    """

    def __init__(
        self,
        dut,
        config: SwitchConfig,
        *,
        seed=0,
        read_delay: Callable[[int], int] = lambda rank: 4,
        write_delay: Callable[[int], int] = lambda rank: 4,
        shuffle: bool = False,
        takes: dict[str, Callable[[int], bool]] | None = None,
        read_response: Callable = lambda rank, header: 0,
        write_response: Callable = lambda rank, header: 0,
    ):
        self.dut, self.config = dut, config
        self.draw = random.Random(seed)
        self.read_delay, self.write_delay, self.shuffle = read_delay, write_delay, shuffle
        self.takes = takes or {}
        self.read_response, self.write_response = read_response, write_response
        self.now = 0
        self.peers = [
            Peer(bytearray(config.memory_bytes), [], [], [], []) for _ in range(config.ranks)
        ]
        self._due_reads = [[] for _ in range(config.ranks)]
        self._due_writes = [[] for _ in range(config.ranks)]
        self._sending = [deque() for _ in range(config.ranks)]
        self._under_way = [dict.fromkeys(("writes", "flags")) for _ in range(config.ranks)]
        self._arrivals = [deque() for _ in range(config.ranks)]
        self._offered = [False] * config.ranks

    def arrive(self, rank: int, epoch: int, **header):
        """Ring rank `rank`'s doorbell."""
        header = {"message_class": MessageClass.WRITE_DATA, "address": 0} | header
        self._arrivals[rank].append(beat(data=epoch, **header))

    async def bench(self, ctx):
        signals = []
        for port in self.dut.ports:
            for name in ("requests", "writes", "flags", "answers"):
                source = getattr(port, name)
                signals += [source.head.valid, source.head.ready, source.head.payload]
                signals += [source.payload.valid, source.payload.ready, source.payload.payload]
            signals.append(port.arrivals.ready)
        each = len(signals) // self.config.ranks
        async for _, _, *values in ctx.tick().sample(*signals):
            for rank, port in enumerate(self.dut.ports):
                self._step(ctx, rank, port, values[rank * each : (rank + 1) * each])
            self.now += 1

    def _may(self, name, rank):
        return self.takes.get(name, lambda rank: True)(rank)

    def _step(self, ctx, rank, port, values):
        peer = self.peers[rank]
        for index, name in enumerate(("requests", "writes", "flags", "answers")):
            source = getattr(port, name)
            valid, ready, head, p_valid, p_ready, flit = values[6 * index : 6 * index + 6]
            if name in ("requests", "answers"):
                if valid and ready:
                    header = header_fields(head.header)
                    if name == "answers":
                        peer.answers.append((self.now, header))
                    else:
                        peer.requests.append((self.now, header))
                        self._owe(rank, header)
                ctx.set(source.head.ready, self._may(name, rank))
                continue
            packet = self._under_way[rank][name]
            if packet is None:
                if valid and ready:
                    packet = self._under_way[rank][name] = (header_fields(head.header), [])
                    assert head.flits > 0, f"{name}: a write without payload"
                    packet[0]["flits"] = head.flits
            elif p_valid and p_ready:
                packet[1].append(flit.data)
                if len(packet[1]) == packet[0]["flits"]:
                    self._write(rank, name, *packet)
                    packet = self._under_way[rank][name] = None
            ctx.set(source.head.ready, packet is None and self._may(name, rank))
            ctx.set(source.payload.ready, packet is not None)
        self._answer(ctx, rank, port)
        self._ring(ctx, rank, port, values[-1])

    def _owe(self, rank, header):
        due = self.now + self.read_delay(rank)
        for packet, start in enumerate(range(0, header["length"], self.config.payload_bytes)):
            size = min(self.config.payload_bytes, header["length"] - start)
            part = header | {
                "address": header["address"] + start,
                "length": size,
                "tag": header["tag"] + packet,
            }
            self._due_reads[rank].append((due, part))

    def _write(self, rank, name, header, flits):
        width = self.config.flit_bytes
        data = b"".join(flit.to_bytes(width, "little") for flit in flits)
        offset = header["address"] % width
        data = data[offset : offset + header["length"]]
        peer = self.peers[rank]
        status = self.write_response(rank, header)
        if status < 2:
            peer.memory[header["address"] : header["address"] + len(data)] = data
        getattr(peer, name).append((self.now, header, data))
        self._due_writes[rank].append((self.now + self.write_delay(rank), header, status))

    def _pick(self, queue):
        ready = [item for item in queue if item[0] <= self.now]
        if not ready or not (self.shuffle or queue[0][0] <= self.now):
            return None
        item = self.draw.choice(ready) if self.shuffle else queue[0]
        queue.remove(item)
        return item

    def _answer(self, ctx, rank, port):
        sending = self._sending[rank]
        if not sending and (item := self._pick(self._due_reads[rank])):
            header = item[1]
            width, low = self.config.flit_bytes, item[1]["address"]
            flits = -(-header["length"] // width)
            for index in range(flits):
                word = self.peers[rank].memory[low + index * width : low + (index + 1) * width]
                sending.append(
                    beat(
                        data=int.from_bytes(word, "little"),
                        response=self.read_response(rank, header | {"flit": index}),
                        first=int(index == 0),
                        last=int(index == flits - 1),
                        tag=header["tag"],
                        generation=header["generation"],
                    )
                )
        ctx.set(port.read_data.valid, bool(sending))
        if sending:
            ctx.set(port.read_data.payload, sending.popleft())
        answer = self._pick(self._due_writes[rank])
        ctx.set(port.write_responses.valid, answer is not None)
        if answer:
            _, header, status = answer
            ctx.set(
                port.write_responses.payload,
                beat(
                    empty=1,
                    message_class=MessageClass.WRITE_RESPONSE,
                    tag=header["tag"],
                    status=Response(status),
                ),
            )

    def _ring(self, ctx, rank, port, ready):
        if self._offered[rank] and ready:
            self._arrivals[rank].popleft()
        waiting = self._arrivals[rank]
        self._offered[rank] = bool(waiting)
        ctx.set(port.arrivals.valid, self._offered[rank])
        if waiting:
            ctx.set(port.arrivals.payload, waiting[0])

    def flag(self, rank: int, number: int) -> bytes | None:
        """The rank's flag number `number`, once written."""
        flags = self.peers[rank].flags
        return flags[number][2] if len(flags) > number else None


class ReadOutAlone(Elaboratable):
    """A `ReadOut` whose turn it is whenever results stay in order: members are the read-out's."""

    def __init__(self, config: SwitchConfig, *, inq_lead: int = 0):
        self._config = config
        self._read_out = ReadOut(config)
        self._turns = ReadOutTurns(config, inq_lead=inq_lead)

    def __getattr__(self, name):
        return getattr(self._read_out, name)

    def elaborate(self, platform):
        m = Module()
        m.submodules.read_out = read_out = self._read_out
        m.submodules.turns = turns = self._turns
        for name in ("asks", "holds", "quantized", "reads_codes"):
            m.d.comb += getattr(turns, name).eq(getattr(read_out, name))
        m.d.comb += [turns.starts.eq(read_out.start.valid), read_out.turn.eq(turns.turn)]
        if self._config.sliced:
            m.d.comb += read_out.settled.eq(turns.settled)
        return m
