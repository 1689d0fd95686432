"""`Endpoint`: a link peer on one side, an AXI4 memory on the other, arrivals beside them."""

from __future__ import annotations

import random
from collections import deque

import numpy as np

from .lib import coverage, credits
from .lib.axi import PAGE_BYTES, AxiMemory
from .lib.axi_partner import axi_ram
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import (
    DECERR,
    OKAY,
    READ_DATA,
    READ_REQUEST,
    RESPONSE_NAMES,
    SLVERR,
    WRITE_DATA,
    WRITE_RESPONSE,
    LinkPeer,
    Packet,
    random_identity,
)
from .lib.patterns import SHAPES, pairs, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden

#: The endpoint that is built by name is rank 0's.
RANK = 0
#: Distance of two contexts' doorbells (docs/memory-contract.md).
DOORBELL_SPACING = 4096
#: Reads see the lower half of the memory, writes the upper, so that neither waits for the other.
MEMORY_PAGES = 4
LIMIT = 20_000


class Arrivals:
    """Offers arrivals at the endpoint, and keeps how they were answered."""

    def __init__(self, ports):
        self._ports = ports
        self._waiting: deque[tuple[int, int]] = deque()  # epoch, context
        self._offered = False
        self.answers: list[int] = []
        self.idle = iter(lambda: True, None)

    def send(self, *arrivals: tuple[int, int]):
        self._waiting += arrivals

    def cycle(self):
        ports = self._ports
        if ports.get("acknowledged"):
            self.answers.append(ports.get("acknowledgement"))
        if self._offered and ports.get("arrival__ready"):
            self._waiting.popleft()
            self._offered = False
        if self._waiting and not self._offered and next(self.idle):
            epoch, context = self._waiting[0]
            ports.set_fields("arrival__payload", epoch=epoch, context=context)
            self._offered = True
        ports.set("arrival__valid", self._offered)

    def left(self) -> str:
        return f"{len(self._waiting)} arrivals to send" if self._waiting else ""


class EndpointBench(Bench):
    """An endpoint with its peer and, unless told otherwise, its memory."""

    def __init__(self, dut, *, memory: bool = True):
        super().__init__(dut)
        self.config = config = current()
        self.data = np.zeros(MEMORY_PAGES * PAGE_BYTES, np.uint8)
        self.peer = self.add(
            LinkPeer(
                self.ports,
                config,
                into="rx",
                out="tx",
                to_dut=credits.to_rank(config),
                from_dut=credits.to_switch(config),
            )
        )
        self.arrivals = self.add(Arrivals(self.ports))
        self.memory = None
        if memory:
            self.memory = self.add(
                AxiMemory(
                    self.ports, "axi", self.data, random.Random(0), config.flit_bytes,
                    config.address_bits,
                )
            )  # fmt: skip

    def settle(self, case: Case):
        """How everything goes in this case: stalls, latencies, one port or two."""
        idle, drain = self.stalls = case.choose(pairs())
        draw = case.draw
        self.peer.idle, self.peer.drain = pattern(idle, draw), pattern(drain, draw)
        self.arrivals.idle = pattern(idle, draw)
        memory = self.memory
        memory.draw = draw
        memory.willing = {name: pattern(drain, draw) for name in ("ar", "r", "aw", "w", "b")}
        memory.read_latency = draw.choice((1, draw.randint(2, 4), draw.randint(5, 30)))
        memory.write_latency = draw.choice((1, draw.randint(2, 20)))
        memory.single_ported = draw.random() < 0.3
        # With one ID neither lets anything change places; with several it would.
        memory.out_of_order = draw.random() < 0.5
        memory.interleaved = draw.random() < 0.5
        memory.read_error = lambda burst, beat: OKAY
        memory.write_error = lambda burst: OKAY
        memory.last_beat = lambda last: last
        memory.forget()
        self.peer.forget()

    def observe(self):
        """Coverage of what happened since `settle`."""
        memory, (idle, drain) = self.memory, self.stalls
        coverage.hit_stalls("endpoint.stalls", (idle, self.peer.held), (drain, memory.held))
        if memory.shut_out:
            coverage.hit("endpoint.memory", "single-ported")
        if memory.beside:
            coverage.hit("endpoint.memory", "two ports")
        if memory.deep:
            coverage.hit("endpoint.latency", coverage.range_bin(memory.read_latency, 0, 1, 4, 16))
        if memory.deep > 1:
            order = "any" if memory.out_of_order else "as asked"
            beats = "mixed" if memory.interleaved else "whole"
            coverage.hit("endpoint.liberty", f"{order}x{beats}")

    def fill(self, draw: random.Random):
        """Other contents than before."""
        self.data[:] = np.frombuffer(draw.randbytes(len(self.data)), np.uint8)

    # -- packets --------------------------------------------------------------------------------

    def read(self, draw: random.Random, address: int, length: int) -> Packet:
        _cover_place(self.config, "read", address, length)
        return Packet(
            random_identity(draw)
            | dict(message_class=READ_REQUEST, inc=1, address=address, length=length)
        )

    def write(self, draw: random.Random, address: int, length: int) -> Packet:
        _cover_place(self.config, "write", address, length)
        size = self.config.flit_bytes
        flits = -(-(address % size + length) // size) if length else 0
        return Packet(
            random_identity(draw)
            | dict(message_class=WRITE_DATA, inc=1, address=address, length=length),
            [draw.getrandbits(8 * size) for _ in range(flits)],
        )

    # -- what must come -------------------------------------------------------------------------

    def packets_of(self, request: Packet) -> int:
        """Packets of read data that answer a request."""
        size = self.config.flit_bytes
        flits = -(-(request["address"] % size + request["length"]) // size)
        return max(1, -(-flits // self.config.payload_flits)) if request["length"] else 1

    def read_flits(self, request: Packet, contents: np.ndarray) -> list[int]:
        """The flits that hold the bytes asked for."""
        size = self.config.flit_bytes
        first = request["address"] // size
        last = -(-(request["address"] + request["length"]) // size) if request["length"] else first
        return [
            int.from_bytes(contents[n * size : (n + 1) * size].tobytes(), "little")
            for n in range(first, last)
        ]

    def check_reads(self, requests: list[Packet], contents: np.ndarray):
        """Every request answered, in order, with the bytes that `contents` holds."""
        answers = deque(self.peer.take(READ_DATA))
        for request in requests:
            flits = []
            for number in range(self.packets_of(request)):
                answer = answers.popleft()
                context, generation, tag = request.identity
                compare(
                    "read data's header",
                    [*answer.identity, answer["inc"], answer["source"], answer["destination"]],
                    [context, generation, tag + number & 0xFFFF, 1, RANK, request["source"]],
                )
                size = len(answer.payload) * self.config.flit_bytes
                compare("read data's length", [answer["length"]], [size])
                compare("read data's status", [answer["status"]], [OKAY])
                flits += answer.payload
            expected = golden(self.read_flits(request, contents), self.config.flit_bits)
            what = f"data of {request['length']} bytes at {request['address']:#x}"
            compare(what, flits, expected)
        compare("read data", list(answers), [])

    def check_writes(self, writes: list[Packet], statuses: list[int]):
        """Every write answered, in order."""
        answers = self.peer.take(WRITE_RESPONSE)
        compare(
            "write responses",
            [(a.identity, a["inc"], a["source"], a["destination"], a["status"]) for a in answers],
            [
                (w.identity, 1, RANK, w["source"], status)
                for w, status in zip(writes, statuses, strict=True)
            ],
        )

    def apply(self, contents: np.ndarray, write: Packet):
        """Golden of a write: bytes in the lanes of their address."""
        size = self.config.flit_bytes
        lanes = b"".join(flit.to_bytes(size, "little") for flit in write.payload)
        start = write["address"] % size
        new = np.frombuffer(lanes[start : start + write["length"]], np.uint8)
        contents[write["address"] : write["address"] + write["length"]] = new

    def check_arrivals(self, arrivals: list[tuple[int, int]]):
        packets = self.peer.take(WRITE_DATA)
        compare(
            "arrivals",
            [(p["address"], p["length"], p["context"], p["source"], p.payload) for p in packets],
            [
                (context * DOORBELL_SPACING, 8, context, RANK, golden([epoch], 32))
                for epoch, context in arrivals
            ],
        )


def _cover_place(config, kind: str, address: int, length: int):
    size, most = config.flit_bytes, config.payload_bytes
    if length == 0:
        name = "zero"
    elif length <= size:
        name = "a flit" if length == size else "under a flit"
    elif length <= most:
        name = "a payload" if length == most else "under a payload"
    else:
        name = "several payloads"
    coverage.hit(f"endpoint.{kind}_length", name)
    offset = address % size
    where = {0: "aligned", size - 1: "last byte of a flit"}.get(offset, "first byte in the middle")
    coverage.hit("endpoint.alignment", where)
    first, last = address // PAGE_BYTES, (address + max(length, 1) - 1) // PAGE_BYTES
    if first != last:
        name = "crosses"
    elif (address + length) % PAGE_BYTES == 0 and length:
        name = "ends at the boundary"
    elif address % PAGE_BYTES == 0:
        name = "begins at the boundary"
    else:
        name = "inside"
    coverage.hit("endpoint.page", name)


def _place(draw: random.Random, page: int, length: int, step: int) -> int:
    """An address in `page`, often at or over its end."""
    end = (page + 1) * PAGE_BYTES
    kind = draw.choice(("anywhere", "over", "up to", "from"))
    address = {
        "anywhere": page * PAGE_BYTES + draw.randrange(PAGE_BYTES // 2),
        "over": end - draw.randint(1, max(1, length - 1)),
        "up to": end - length,
        "from": end,
    }[kind]
    return address // step * step


def _length(draw: random.Random, size: int, most: int) -> int:
    return draw.choice((0, 1, draw.randint(1, size), size, draw.randint(1, most), most))


@scenario(EndpointBench, cases=len(SHAPES) ** 2)
async def reads_writes_and_arrivals(bench: EndpointBench, case: Case):
    """Each has its answers, in order, whatever else goes on and however everything stalls."""
    bench.settle(case)
    await _traffic(bench, case)
    bench.observe()


async def _traffic(bench: EndpointBench, case: Case):
    """Some of everything at once, and all of it compared."""
    draw, config = case.draw, bench.config
    bench.fill(draw)
    contents = bench.data.copy()
    size, most = config.flit_bytes, config.payload_bytes
    reads, writes, expected = [], [], 0
    for _ in range(draw.randint(4, 12)):
        length = draw.choice((_length(draw, size, most), draw.randint(1, config.wave_bytes)))
        # A request asks for at most a wave's bytes, from a flit on.
        reads.append(bench.read(draw, _place(draw, 0, length, size), length))
        expected += bench.packets_of(reads[-1])
    for _ in range(draw.randint(4, 12)):
        length = _length(draw, size, most)
        address = _place(draw, 2, length, 1)
        length = min(length, most - address % size)  # so that it fits a payload's flits
        writes.append(bench.write(draw, address, length))
    arrivals = [(draw.getrandbits(32), draw.randrange(16)) for _ in range(draw.randint(1, 3))]
    traffic = reads + writes
    order = list(range(len(traffic)))
    draw.shuffle(order)
    reads = [traffic[n] for n in order if n < len(reads)]
    writes = [traffic[n] for n in order if traffic[n]["message_class"] == WRITE_DATA]
    bench.peer.expected = expected + len(writes) + len(arrivals)
    bench.peer.send(*(traffic[n] for n in order))
    bench.arrivals.send(*arrivals)
    await bench.finish(limit=LIMIT)
    bench.check_reads(reads, contents)
    bench.check_writes(writes, [OKAY] * len(writes))
    bench.check_arrivals(arrivals)
    bench.peer.expected = 0
    for write in writes:
        bench.apply(contents, write)
    compare("memory", bench.data, golden(contents))


@scenario(EndpointBench, cases=6)
async def last_beats_are_counted(bench: EndpointBench, case: Case):
    """The endpoint counts beats: a memory whose RLAST is wrong changes nothing."""
    draw = case.draw
    bench.settle(case)
    kind = case.choose(("never", "always", "by chance"))
    bench.memory.last_beat = {
        "never": lambda last: False,
        "always": lambda last: True,
        "by chance": lambda last: draw.random() < 0.5,
    }[kind]
    before = len(bench.memory.read_responses)
    await _traffic(bench, case)
    if len(bench.memory.read_responses) > before:
        coverage.hit("endpoint.last_beat", kind)


@scenario(EndpointBench, cases=8)
async def responses_of_the_memory(bench: EndpointBench, case: Case):
    """Each flit carries the response of its own beat; a write's is the worse of its two bursts'."""
    draw, config = case.draw, bench.config
    bench.settle(case)
    bench.fill(draw)
    contents = bench.data.copy()
    memory, size, most = bench.memory, config.flit_bytes, config.payload_bytes
    memory.read_error = lambda burst, beat: draw.choice((OKAY, OKAY, SLVERR, DECERR))
    codes: dict[int, int] = {}  # by write burst
    memory.write_error = lambda burst: codes.setdefault(
        burst.number, draw.choice((OKAY, SLVERR, DECERR))
    )
    reads, writes = [], []
    for _ in range(10):
        length = draw.randint(1, most)
        reads.append(bench.read(draw, _place(draw, 0, length, size), length))
        length = draw.choice((most, draw.randint(size + 1, most)))
        address = _place(draw, 2, length, size)
        writes.append(bench.write(draw, address, length))
    first_read, first_write = len(memory.read_responses), len(memory.writes)
    bench.peer.expected = sum(map(bench.packets_of, reads)) + len(writes)
    for read, write in zip(reads, writes, strict=True):
        bench.peer.send(read, write)
    await bench.finish(limit=LIMIT)
    bench.peer.expected = 0
    beats = memory.read_responses[first_read:]
    flits = [r for packet in bench.peer.received if packet.payload for r in packet.responses]
    compare("responses of the beats", flits, golden([code for _, _, code in beats], 2))
    for burst, beat, code in beats:
        position = {0: "first", burst.beats - 1: "last"}.get(beat, "middle")
        position = "only" if burst.beats == 1 else position
        coverage.hit("endpoint.read_response", f"{RESPONSE_NAMES[code]}x{position}")
    bench.check_reads(reads, contents)
    statuses, number = [], first_write
    for write in writes:
        last = write["address"] + write["length"] - 1
        bursts = 1 + (write["address"] // PAGE_BYTES != last // PAGE_BYTES)
        statuses.append(max(codes[n] for n in range(number, number + bursts)))
        names = [RESPONSE_NAMES[codes[n]] for n in range(number, number + bursts)]
        coverage.hit("endpoint.write_response", "x".join(names))
        number += bursts
    bench.check_writes(writes, statuses)
    bench.observe()


@scenario(EndpointBench, cases=4, moves_data=False)
async def answers_to_arrivals(bench: EndpointBench, case: Case):
    """An arrival's answer is told as it came; ordinary answers, never asked for, are dropped."""
    draw = case.draw
    bench.settle(case)
    codes = [draw.choice((OKAY, SLVERR, DECERR)) for _ in range(6)]
    for code in codes:
        header = random_identity(draw) | dict(message_class=WRITE_RESPONSE, status=code)
        bench.peer.send(Packet(header | dict(inc=1)))
        bench.peer.send(Packet(header | dict(inc=0)))
    await bench.finish(limit=LIMIT)
    compare("answers", bench.arrivals.answers, codes)
    for code in bench.arrivals.answers:
        coverage.hit("endpoint.arrival", RESPONSE_NAMES[code])
    bench.arrivals.answers.clear()


class RamBench(EndpointBench):
    """The endpoint at a memory model by others."""

    def __init__(self, dut):
        super().__init__(dut, memory=False)
        self.ram = axi_ram(dut, "axi", self.data)


@scenario(RamBench, cases=4)
async def with_a_memory_by_others(bench: RamBench, case: Case):
    """Write, then read the same place back, at cocotbext-axi's memory."""
    draw, config, peer = case.draw, bench.config, bench.peer
    idle, drain = case.choose(pairs())
    peer.idle, peer.drain = pattern(idle, draw), pattern(drain, draw)
    size, most = config.flit_bytes, config.payload_bytes
    pages = MEMORY_PAGES - 1
    contents = np.frombuffer(bench.ram.read(0, len(bench.data)), np.uint8).copy()
    writes, reads = [], []
    for _ in range(8):
        length = draw.randint(1, most)
        address = _place(draw, draw.randrange(pages), length, size)
        writes.append(bench.write(draw, address, length))
        bench.apply(contents, writes[-1])
        reads.append(bench.read(draw, address, length))
    peer.expected = len(writes)
    peer.send(*writes)
    await bench.finish(limit=LIMIT)
    bench.check_writes(writes, [OKAY] * len(writes))
    peer.expected = sum(map(bench.packets_of, reads))
    peer.send(*reads)
    await bench.finish(limit=LIMIT)
    bench.check_reads(reads, contents)
    compare("memory", bench.ram.read(0, len(contents)), golden(contents.tobytes(), 8))
    coverage.hit("endpoint.memory", "cocotbext-axi")
    peer.expected = 0
