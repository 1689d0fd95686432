"""`Port`: what a rank sends is sorted by class and INC, what the accelerator sends goes out."""

from __future__ import annotations

import random

from .lib import coverage, credits
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import (
    DECERR,
    OKAY,
    READ_DATA,
    READ_REQUEST,
    WRITE_DATA,
    WRITE_RESPONSE,
    LinkPeer,
    Packet,
    from_beats,
    header_bits,
    random_identity,
)
from .lib.patterns import pairs, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import PacketSource, Sink

LIMIT = 10_000
HEADER_BITS = 102
#: What the accelerator sends, by the port's names: class, and whether there is payload.
SOURCES = {
    "requests": (READ_REQUEST, False),
    "writes": (WRITE_DATA, True),
    "flags": (WRITE_DATA, True),
    "answers": (WRITE_RESPONSE, False),
}
#: What the accelerator takes: class of the INC packets.
SINKS = {"read_data": READ_DATA, "write_responses": WRITE_RESPONSE, "arrivals": WRITE_DATA}
#: Tag bit by which flags are told from results here, as in the switch.
FLAG_TAG = 1 << 15


class PortBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.peer = self.add(
            LinkPeer(
                self.ports,
                config,
                into="rx",
                out="tx",
                to_dut=credits.to_switch(config),
                from_dut=credits.to_rank(config),
            )
        )
        self.sources = {name: self.add(PacketSource(self.ports, name)) for name in SOURCES}
        self.sinks = {name: self.add(Sink(self.ports, name)) for name in SINKS}

    def packet(self, draw: random.Random, message_class: int, flits: int, **fields) -> Packet:
        header = random_identity(draw) | dict(
            message_class=message_class, inc=1, length=flits * self.config.flit_bytes,
            address=draw.getrandbits(48),
        )  # fmt: skip
        payload = [draw.getrandbits(self.config.flit_bits) for _ in range(flits)]
        responses = [draw.randrange(4) if message_class == READ_DATA else OKAY for _ in payload]
        return Packet(header | fields, payload, responses)


def numbers(packet: Packet) -> list[int]:
    """A packet as numbers, header first."""
    return [header_bits(packet.header), *packet.payload, *packet.responses]


def check(what: str, got: list[Packet], sent: list[Packet]):
    """Packets came unchanged and in order."""
    compare(f"{what}: packets", [len(p.payload) for p in got], [len(p.payload) for p in sent])
    flat = [number for packet in sent for number in numbers(packet)]
    compare(what, [n for packet in got for n in numbers(packet)], golden(flat, 2))


@scenario(PortBench, cases=16)
async def everything_at_once(bench: PortBench, case: Case):
    """All kinds of packets both ways, under every pair of stalls; ordinary ones are refused."""
    draw, config, peer = case.draw, bench.config, bench.peer
    idle, drain = case.choose(pairs())
    peer.forget()
    bench.sinks["arrivals"].held = 0
    peer.idle, peer.drain = pattern(idle, draw), pattern(drain, draw)
    bench.sinks["arrivals"].drain = pattern(drain, draw)
    out: dict[str, list[Packet]] = {}
    for name, (message_class, has_payload) in SOURCES.items():
        source = bench.sources[name]
        source.set_idle(pattern(idle, draw), pattern(draw.choice(("always", idle)), draw))
        out[name] = []
        for _ in range(draw.randint(0, 8)):
            flits = 0
            if has_payload:
                flits = 1 if name == "flags" else draw.randint(1, config.payload_flits)
                coverage.hit("port.payload", "full" if flits == config.payload_flits else "short")
            tag = draw.getrandbits(15) | (FLAG_TAG if name == "flags" else 0)
            out[name].append(bench.packet(draw, message_class, flits, tag=tag))
        source.send(*out[name])
    into: dict[str, list[Packet]] = {name: [] for name in SINKS}
    ordinary: list[Packet] = []
    for _ in range(draw.randint(4, 20)):
        name = draw.choice([*SINKS, "ordinary"])
        flits = draw.randint(1, config.payload_flits)
        if name == "ordinary":
            message_class = draw.choice((READ_REQUEST, WRITE_DATA))
            flits = 0 if message_class == READ_REQUEST else flits
            ordinary.append(bench.packet(draw, message_class, flits, inc=0))
            peer.send(ordinary[-1])
            coverage.hit("port.into", "ordinary read" if not flits else "ordinary write")
            continue
        if name == "write_responses" or draw.random() < 0.1:
            flits = 0
        flits = min(flits, 1) if name == "arrivals" else flits
        into[name].append(bench.packet(draw, SINKS[name], flits))
        peer.send(into[name][-1])
        coverage.hit("port.into", name)
    for name, sink in bench.sinks.items():
        sink.expected = sum(max(1, len(packet.payload)) for packet in into[name])
    peer.expected = sum(map(len, out.values())) + len(ordinary)
    await bench.finish(limit=LIMIT)
    for name, sink in bench.sinks.items():
        check(name, _packets(sink.take()), into[name])
    _check_sent(peer, out)
    _check_refusals(peer, ordinary)
    held = peer.held + sum(source.held for source in bench.sources.values())
    withheld = peer.withheld + bench.sinks["arrivals"].held
    coverage.hit_stalls("port.stalls", (idle, held), (drain, withheld))
    peer.expected = 0


def _packets(beats: list[dict[str, int]]) -> list[Packet]:
    packets, current_beats = [], []
    for beat in beats:
        current_beats.append(beat)
        if beat["last"]:
            packets.append(from_beats(current_beats))
            current_beats = []
    compare("beats of a packet that has not ended", current_beats, [])
    return packets


def _check_sent(peer: LinkPeer, out: dict[str, list[Packet]]):
    writes = peer.take(WRITE_DATA)
    check("requests", peer.take(READ_REQUEST), out["requests"])
    check("answers", peer.take(WRITE_RESPONSE), out["answers"])
    check("flags", [p for p in writes if p["tag"] & FLAG_TAG], out["flags"])
    check("writes", [p for p in writes if not p["tag"] & FLAG_TAG], out["writes"])


def _check_refusals(peer: LinkPeer, ordinary: list[Packet]):
    for answer_class, asked_class in ((READ_DATA, READ_REQUEST), (WRITE_RESPONSE, WRITE_DATA)):
        asked = [p for p in ordinary if p["message_class"] == asked_class]
        got = peer.take(answer_class, inc=0)
        compare(
            "answers to ordinary packets",
            [(a.identity, a["source"], a["destination"], a["status"], a.payload) for a in got],
            [(p.identity, p["destination"], p["source"], DECERR, []) for p in asked],
        )
