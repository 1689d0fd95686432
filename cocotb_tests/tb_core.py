"""`Core`: whole packets from every port to every port, each class on a way of its own."""

from __future__ import annotations

import random

from hdl.interfaces import Beat

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import (
    OKAY,
    READ_DATA,
    READ_REQUEST,
    RESPONSE_NAMES,
    WRITE_DATA,
    WRITE_RESPONSE,
    Packet,
    header_bits,
    random_identity,
    to_beats,
)
from .lib.patterns import pairs, pattern
from .lib.ports import Layout
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import PacketSink, Source

LIMIT = 10_000
#: Classes by the names of their ports, and whether their packets have payload.
CLASSES = {
    "requests": (READ_REQUEST, False),
    "read_data": (READ_DATA, True),
    "writes": (WRITE_DATA, True),
    "write_responses": (WRITE_RESPONSE, False),
}
LONGEST = 8


class CoreBench(Bench):
    """A source at every input, a sink at every output."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.ranks = range(config.ranks)
        fields = {name: (field.offset, field.width) for name, field in Beat(config)}
        self._beat = Layout(fields)
        ways = [(name, port) for name in CLASSES for port in self.ranks]
        self.sources = {
            (name, port): self.add(Source(self.ports, f"{name}__{port}")) for name, port in ways
        }
        self.sinks = {
            (name, port): self.add(PacketSink(self.ports, f"core_{name}__{port}"))
            for name, port in ways
        }

    def packet(self, draw: random.Random, name: str) -> Packet:
        """Any header: what it says of class, sender and target is not believed."""
        _message_class, has_payload = CLASSES[name]
        least = 0 if name == "read_data" else 1  # an answer with an error has no payload
        flits = draw.randint(least, self.config.payload_flits) if has_payload else 0
        full = "full" if flits == self.config.payload_flits else "short"
        coverage.hit("core.payload", full if flits else "none")
        payload = [draw.getrandbits(self.config.flit_bits) for _ in range(flits)]
        responses = [
            draw.randrange(len(RESPONSE_NAMES)) if name == "read_data" else OKAY for _ in payload
        ]
        header = random_identity(draw) | dict(
            message_class=draw.getrandbits(2), inc=draw.getrandbits(1), status=draw.getrandbits(2),
            address=draw.getrandbits(48), length=draw.getrandbits(17),
        )  # fmt: skip
        return Packet(header, payload, responses)

    def send(self, name: str, port: int, packet: Packet, target: int):
        """Let `packet` come in at `port` and leave at `target`."""
        way = dict(flits=len(packet.payload), target=1 << target)
        self.sources[name, port].send(
            *(way | {"beat": self._beat.pack(beat)} for beat in to_beats(packet))
        )
        self.sinks[name, target].expected += 1
        coverage.hit("core.way", f"{name}x{'its own' if port == target else 'another port'}")


def _numbers(packet: Packet) -> list[int]:
    return [header_bits(packet.header), *packet.payload, *packet.responses]


def _as_it_leaves(packet: Packet, name: str, port: int, target: int) -> Packet:
    """Sender, target, class and whose it is are written anew."""
    truth = dict(message_class=CLASSES[name][0], inc=0, source=port, destination=target)
    return Packet(packet.header | truth, packet.payload, packet.responses)


@scenario(CoreBench, cases=16)
async def every_way_at_once(bench: CoreBench, case: Case):
    """All classes from all ports to all, under every pair of stalls; something may stand still."""
    draw, config = case.draw, bench.config
    idle, drain = case.choose(pairs())
    sent: dict[tuple[str, int, int], list[Packet]] = {}
    for (name, port), source in bench.sources.items():
        source.idle, source.held = pattern(idle, draw), 0
        for _ in range(draw.randint(0, LONGEST)):
            target = draw.randrange(config.ranks)
            packet = bench.packet(draw, name)
            bench.send(name, port, packet, target)
            sent.setdefault((name, port, target), []).append(packet)
    for sink in bench.sinks.values():
        sink.set_drain(pattern(drain, draw), pattern(drain, draw))
    await bench.finish(limit=LIMIT)
    _check(bench, sent)
    held = sum(source.held for source in bench.sources.values())
    withheld = sum(sink.held for sink in bench.sinks.values())
    coverage.hit_stalls("core.stalls", (idle, held), (drain, withheld))
    coverage.hit("core.stuck", "nothing")


@scenario(CoreBench, cases=8)
async def others_go_on(bench: CoreBench, case: Case):
    """One output takes nothing, or one class nowhere: who does not need it comes through."""
    draw, config = case.draw, bench.config
    stuck_port = draw.randrange(config.ranks)
    stuck_class = draw.choice(list(CLASSES))
    by_class = case.choose((False, True))
    stuck = [
        way for way in bench.sinks if (way[0] == stuck_class if by_class else way[1] == stuck_port)
    ]
    sent: dict[tuple[str, int, int], list[Packet]] = {}
    for name, port in bench.sources:
        bench.sources[name, port].idle = pattern("always", draw)
        # Within a class an input is one queue: whoever sends to the stuck output sends only there.
        only_there = not by_class and port == stuck_port
        for _ in range(LONGEST):
            target = draw.choice([r for r in bench.ranks if (r == stuck_port) == only_there])
            packet = bench.packet(draw, name)
            bench.send(name, port, packet, target)
            sent.setdefault((name, port, target), []).append(packet)
    for way, sink in bench.sinks.items():
        drains = (iter(lambda: False, None),) * 2 if way in stuck else (_always(), _always())
        sink.set_drain(*drains)
    free = [sink for way, sink in bench.sinks.items() if way not in stuck]
    await bench.until(
        lambda: not any(sink.left() for sink in free), limit=LIMIT, what="what is not stuck"
    )
    if any(bench.sinks[way].left() for way in stuck):  # of these nothing has come through
        coverage.hit("core.stuck", "a class" if by_class else "an output")
    for way in stuck:
        bench.sinks[way].set_drain(_always(), _always())
    await bench.finish(limit=LIMIT)
    _check(bench, sent)


def _always():
    return iter(lambda: True, None)


def _check(bench: CoreBench, sent: dict[tuple[str, int, int], list[Packet]]):
    """Every packet left where it belongs, as it was, in the order of its sender."""
    for (name, target), sink in bench.sinks.items():
        got = sink.take()
        for port in bench.ranks:
            wanted = [
                _as_it_leaves(packet, name, port, target)
                for packet in sent.get((name, port, target), [])
            ]
            flat = [number for packet in wanted for number in _numbers(packet)]
            came = [packet for packet in got if packet["source"] == port]
            compare(
                f"{name} from {port} to {target}",
                [number for packet in came for number in _numbers(packet)],
                golden(flat, 2),
            )
        known = sum(packet["source"] in bench.ranks for packet in got)
        compare(f"{name} at {target}: senders that are known", [known], [len(got)])
