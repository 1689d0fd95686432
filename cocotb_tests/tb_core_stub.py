"""`CoreStub`: every ordinary request is answered once, in order, with DECERR."""

from __future__ import annotations

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import (
    DECERR,
    READ_DATA,
    READ_REQUEST,
    WRITE_DATA,
    WRITE_RESPONSE,
    Packet,
    header_bits,
    random_identity,
    to_beats,
)
from .lib.patterns import pairs, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import PacketSink, Source

LIMIT = 5_000
HEADER_BITS = 102
KINDS = {
    "requests": (READ_REQUEST, "read_data", READ_DATA),
    "writes": (WRITE_DATA, "write_responses", WRITE_RESPONSE),
}


class CoreBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.config = current()
        self.sources = {name: self.add(Source(self.ports, name)) for name in KINDS}
        self.sinks = {
            name: self.add(PacketSink(self.ports, answers))
            for name, (_, answers, _) in KINDS.items()
        }


@scenario(CoreBench, cases=16)
async def requests_and_writes(bench: CoreBench, case: Case):
    """Both kinds beside each other, under every pair of stalls."""
    draw, config = case.draw, bench.config
    idle, drain = case.choose(pairs())
    asked: dict[str, list[Packet]] = {}
    for name, (message_class, _, _) in KINDS.items():
        bench.sources[name].idle, bench.sources[name].held = pattern(idle, draw), 0
        bench.sinks[name].set_drain(pattern(drain, draw), pattern(drain, draw))
        asked[name] = []
        for _ in range(draw.randint(3, 10)):
            flits = draw.randint(1, config.payload_flits) if message_class == WRITE_DATA else 0
            header = random_identity(draw) | dict(message_class=message_class)
            asked[name].append(Packet(header, [draw.getrandbits(8) for _ in range(flits)]))
            bench.sources[name].send(*to_beats(asked[name][-1]))
            coverage.hit("core_stub.request", "read" if not flits else "write")
        bench.sinks[name].expected = len(asked[name])
    await bench.finish(limit=LIMIT)
    held = sum(source.held for source in bench.sources.values())
    withheld = sum(sink.held for sink in bench.sinks.values())
    coverage.hit_stalls("core_stub.stalls", (idle, held), (drain, withheld))
    for name, (_, _, answer_class) in KINDS.items():
        answers = bench.sinks[name].take()
        wanted = [
            header_bits(
                dict(
                    message_class=answer_class, source=packet["destination"],
                    destination=packet["source"], context=packet["context"],
                    generation=packet["generation"], tag=packet["tag"], status=DECERR,
                )
            )
            for packet in asked[name]
        ]  # fmt: skip
        got = [header_bits(answer.header) for answer in answers]
        compare(name, got, golden(wanted, HEADER_BITS))
        compare(f"{name}: payload", [a.payload for a in answers if a.payload], [])
