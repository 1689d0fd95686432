"""Ports and core together, a Python rank at each link: ordinary packets from rank to rank."""

import random
from dataclasses import dataclass

import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport import channels
from hdl.transport.core import Core
from hdl.transport.port import Port
from tests.lib.axi import DECERR
from tests.lib.packets import LinkPeer, Packet, random_header
from tests.lib.simulate import pattern, run

RANKS = 3
WINDOW = 4096
READ, WRITE = MessageClass.READ_REQUEST, MessageClass.WRITE_DATA
DATA, RESPONSE = MessageClass.READ_DATA, MessageClass.WRITE_RESPONSE


def configuration(flit_bytes=8):
    return SwitchConfig(
        ranks=RANKS, flit_bytes=flit_bytes, payload_bytes=4 * flit_bytes, wave_bytes=512,
        memory_bytes=WINDOW, link_latency=2, memory_latency=2, core="forward",
    )  # fmt: skip


@dataclass
class Forwarding:
    """The switch without its accelerator."""

    config: SwitchConfig

    def __post_init__(self):
        self.top = m = Module()
        m.submodules.core = core = Core(self.config)
        self.ports = []
        for rank in range(RANKS):
            m.submodules[f"port_{rank}"] = port = Port(self.config)
            self.ports.append(port)
            for name in Core.CLASSES:
                connect(m, getattr(port, f"to_core_{name}"), getattr(core, name)[rank])
                connect(m, getattr(core, f"core_{name}")[rank], getattr(port, f"core_{name}"))

    def peer(self, **more):
        return LinkPeer(
            self.config,
            to_dut=channels.credits_to_switch(self.config),
            from_dut=channels.credits_to_rank(self.config),
            **more,
        )

    def run(self, peers, *benches, packets, limit=8000):
        """Until each rank has received as many packets as are due."""

        async def wait(ctx):
            for port in self.ports:
                for name in ("read_data", "write_responses", "arrivals"):
                    ctx.set(getattr(port, name).ready, 1)
            while any(len(p.received) < due for p, due in zip(peers, packets, strict=True)):
                await ctx.tick()
            await ctx.tick().repeat(30)

        background = [p.bench(port.rx, port.tx) for p, port in zip(peers, self.ports, strict=True)]
        #: Of rank 0's requests: reads and writes that were refused, as its port counts them.
        self.refused = [0, 0]
        background.append(self._count)
        return run(self.top, *benches, wait, background=background, limit=limit)

    async def _count(self, ctx):
        async for _, _, refused in ctx.tick().sample(self.ports[0].refused):
            for kind in range(2):
                self.refused[kind] += refused >> kind & 1


def request(config, draw, kind, rank, *, to, local=None):
    size, most = config.flit_bytes, config.payload_bytes
    length = draw.randint(1, most)
    if local is None:
        local = size * draw.randrange((WINDOW - most) // size)
    header = random_header(draw, kind, inc=0, source=rank, destination=to,
                           address=to * WINDOW + local, length=length)  # fmt: skip
    flits = -(-length // size) if kind is WRITE else 0
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(flits)])


def answer(config, draw, kind, rank, *, to):
    header = random_header(draw, kind, inc=0, source=rank, destination=to)
    flits = draw.randint(0, 4) if kind is DATA else 0
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(flits)])


def received(packet):
    """A request as its destination sees it: the address is one in its own memory."""
    if packet.message_class in (READ.value, WRITE.value):
        return Packet(packet.header | {"address": packet.address % WINDOW}, packet.payload)
    return packet


@pytest.mark.parametrize(("flit_bytes", "shape"), [(8, "always"), (8, "bursts"), (16, "half")])
def test_all_pairs_and_all_classes(flit_bytes, shape):
    """Requests by address, answers by destination; whole, in order, none lost, credits back."""
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {shape}")
    switch = Forwarding(config)
    peers = [
        switch.peer(idle=pattern(shape, r), drain=pattern(shape, -r), gaps=pattern(shape, 9 + r))
        for r in range(RANKS)
    ]
    sent = {}
    for rank in range(RANKS):
        packets = [
            (request if kind in (READ, WRITE) else answer)(config, draw, kind, rank, to=to)
            for kind in (READ, WRITE, DATA, RESPONSE)
            for to in range(RANKS)
            for _ in range(3)
        ]
        draw.shuffle(packets)
        sent[rank] = packets
        peers[rank].send(*packets)
    due = [sum(p.destination == r for each in sent.values() for p in each) for r in range(RANKS)]
    switch.run(peers, packets=due)
    for to in range(RANKS):
        assert len(peers[to].received) == due[to]
        for rank in range(RANKS):
            for kind in range(4):
                wanted = [
                    received(p)
                    for p in sent[rank]
                    if p.destination == to and p.message_class == kind
                ]
                got = [p for p in peers[to].received if (p.source, p.message_class) == (rank, kind)]
                assert got == wanted
    assert switch.refused == [0, 0]
    assert all(peer.credits == peer.initial for peer in peers)


@pytest.mark.parametrize("shape", ["always", "quarter"])
def test_axi_crossbar_20_an_address_that_nobody_has_gets_decerr(shape):
    """A misrouted write never had its B. Each refused request is answered, once, to who asked;
    the answer waits for credits as long as it must, and good requests go on.
    """
    config = configuration()
    draw = random.Random(shape)
    switch = Forwarding(config)
    peers = [switch.peer(drain=pattern(shape, r)) for r in range(RANKS)]
    bad, good = [], []
    for _ in range(8):
        for kind in (READ, WRITE):
            bad.append(request(config, draw, kind, 0, to=draw.choice([3, 7, 15])))
            bad.append(request(config, draw, kind, 0, to=1, local=WINDOW - 8))
            bad[-1].header["length"] = 16 if kind is READ else bad[-1].header["length"]
            good.append(request(config, draw, kind, 0, to=1))
    over = [p for p in bad if p.destination == 1]
    fits = [p for p in over if p.length <= 8]
    bad = [p for p in bad if p not in fits]
    good += fits
    traffic = bad + good
    draw.shuffle(traffic)
    peers[0].send(*traffic)
    switch.run(peers, packets=[len(bad), len(good), 0])
    for kind, reply in ((READ, DATA), (WRITE, RESPONSE)):
        asked = [p for p in traffic if p in bad and p.message_class == kind.value]
        answers = peers[0].take(reply)
        assert [(p.tag, p.context, p.generation, p.destination) for p in answers] == [
            (p.tag, p.context, p.generation, 0) for p in asked
        ]
        assert all((p.status, p.payload) == (DECERR, []) for p in answers)
        assert switch.refused[kind is WRITE] == len(asked)
    assert all(peer.credits == peer.initial for peer in peers)


def test_idma_193_a_refusal_waits_until_it_is_taken():
    """A reject response was lost when its consumer was busy: here it has no credits for long."""
    config = configuration()
    draw = random.Random(0)
    switch = Forwarding(config)

    class Slow(LinkPeer):
        def _returns(self):
            return super()._returns() if self.now > 600 else 0

    peers = [switch.peer() for _ in range(RANKS)]
    peers[0] = Slow(
        config,
        to_dut=channels.credits_to_switch(config),
        from_dut=channels.credits_to_rank(config),
    )
    # More than there are credits for their answers.
    count = config.ordinary_credits // config.header_flits + 20
    refused = [request(config, draw, READ, 0, to=9) for _ in range(count)]
    peers[0].send(*refused)
    others = [request(config, draw, WRITE, 1, to=2) for _ in range(20)]
    peers[1].send(*others)
    switch.run(peers, packets=[count, 0, len(others)])
    assert [p.tag for p in peers[0].received] == [p.tag for p in refused]
    assert max(peers[2].received_at) < 600, "another rank's packets waited for the refusals"


def test_a_packet_that_comes_in_slowly_holds_up_nobody():
    """Rank 0's payload has long gaps; rank 1's packets to the same rank pass it (rule 5)."""
    config = configuration()
    draw = random.Random(0)
    switch = Forwarding(config)
    slow = switch.peer(gaps=iter([False] * 400 + [True] * 10000))
    peers = [slow, switch.peer(), switch.peer()]
    late = [request(config, draw, WRITE, 0, to=2) for _ in range(2)]
    late = [Packet(p.header | {"length": 32}, [1, 2, 3, 4]) for p in late]
    slow.send(*late)
    quick = [request(config, draw, WRITE, 1, to=2) for _ in range(20)]
    peers[1].send(*quick)
    switch.run(peers, packets=[0, 0, 22])
    at = dict(zip((p.tag for p in peers[2].received), peers[2].received_at, strict=True))
    assert max(at[p.tag] for p in quick) < 400 < min(at[p.tag] for p in late)


@pytest.mark.parametrize("kind", [READ, DATA])
def test_a_class_alone_fills_a_link(kind):
    """All ranks to rank 2, full packets: its link is never idle, and shares are equal."""
    config = configuration()
    draw = random.Random(0)
    switch = Forwarding(config)
    peers = [switch.peer() for _ in range(RANKS)]
    count = 16
    for rank in range(RANKS):
        for _ in range(count):
            packet = (request if kind in (READ, WRITE) else answer)(config, draw, kind, rank, to=2)
            if kind is WRITE:
                packet = Packet(packet.header | {"length": 32}, [draw.getrandbits(64)] * 4)
            elif kind is DATA:
                packet = Packet(packet.header, [draw.getrandbits(64)] * 4)
            peers[rank].send(packet)
    switch.run(peers, packets=[0, 0, count * RANKS])
    got, at = peers[2].received, peers[2].received_at
    flits = config.header_flits + (4 if kind in (WRITE, DATA) else 0)
    middle = range(count // 2, 2 * count)
    assert at[middle[-1]] - at[middle[0]] == (len(middle) - 1) * flits, "the link was idle"
    sources = [got[n].source for n in middle]
    longest = config.packet_flits
    assert all(abs(sources.count(r) - len(middle) / 3) * flits <= 3 * longest for r in range(RANKS))
