"""`WriteBack`: results that come a fixed time after their packets begin leave as write packets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hdl.accelerator.accelerator import Accelerator

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import WRITE_DATA, header_bits
from .lib.patterns import pairs, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import PacketSink, always

LIMIT = 5_000
#: The write-back that is built by name is port 0's.
PORT = 0


@dataclass
class Result:
    """A packet of results that is to begin."""

    address: int
    opens: bool
    size: int
    slot: int
    flits: list[int]


class WriteBackBench(Bench):
    """Read-out and reducer on one side, a transmitter on the other."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.delay = Accelerator(config).data_delay
        self.sink = self.add(PacketSink(self.ports, "o"))
        self.waiting: deque[Result] = deque()
        self.idle = always()
        self._streaming: deque[int] = deque()  # flits that are being read out
        self._pipeline: deque[int | None] = deque([None] * self.delay)
        self.refused = 0  # cycles in which a packet waited for room
        self.held = 0  # cycles in which one waited for `idle`
        self.add(self)

    def cycle(self):
        ports = self.ports
        room = ports.get("room")
        start = None
        if self.waiting and not self._streaming:
            if not room:
                self.refused += 1
            elif next(self.idle):
                start = self.waiting.popleft()
            else:
                self.held += 1
        ports.set("start__valid", start is not None)
        if start is not None:
            self._streaming.extend(start.flits)
            ports.set("start__flits", len(start.flits))
            ports.set("start__size", start.size)
            ports.set("start__opens", start.opens)
            ports.set("start__write_slot", start.slot)
            # The address is only looked at where an operation opens.
            ports.set("destination", start.address if start.opens else 0)
        self._pipeline.append(self._streaming.popleft() if self._streaming else None)
        result = self._pipeline.popleft()
        ports.set("result_valid", result is not None)
        if result is not None:
            ports.set("result", result)

    def left(self) -> str:
        if self.waiting or self._streaming or any(r is not None for r in self._pipeline):
            return f"{len(self.waiting)} packets to begin, {len(self._streaming)} flits to come"
        return ""


@scenario(WriteBackBench, cases=16)
async def results_become_packets(bench: WriteBackBench, case: Case):
    """Header, address and payload of every packet, whatever stalls; room is never overdrawn."""
    draw, config = case.draw, bench.config
    idle, drain = case.choose(pairs())
    bench.idle = pattern(idle, draw)
    bench.sink.set_drain(pattern(drain, draw), pattern(drain, draw))
    bench.refused = bench.held = 0
    sent = []
    for _ in range(draw.randint(1, 3)):
        address = draw.randrange(config.memory_bytes // 2) // config.flit_bytes * config.flit_bytes
        count = draw.randint(1, 8)
        slot = draw.randrange(config.write_waves)
        for number in range(count):
            size = config.payload_bytes
            if number == count - 1 and draw.random() < 0.5:
                size = draw.randint(1, size)
            coverage.hit("write_back.size", "full" if size == config.payload_bytes else "short")
            flits = [
                draw.getrandbits(config.flit_bits) for _ in range(-(-size // config.flit_bytes))
            ]
            sent.append(Result(address, number == 0, size, slot, flits))
            address += size
    bench.waiting.extend(sent)
    bench.sink.expected = len(sent)
    await bench.finish(limit=LIMIT)
    coverage.hit_stalls("write_back.stalls", (idle, bench.held), (drain, bench.sink.held))
    coverage.hit("write_back.room", "short" if bench.refused else "always")
    wanted = []
    for result in sent:
        header = dict(
            message_class=WRITE_DATA, inc=1, source=PORT, destination=PORT, tag=result.slot,
            address=result.address, length=result.size,
        )  # fmt: skip
        wanted += [header_bits(header), *result.flits]
    got = [n for packet in bench.sink.take() for n in (header_bits(packet.header), *packet.payload)]
    compare("packets", got, golden(wanted, 8))
