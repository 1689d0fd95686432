"""The bridge's blocks against the codec, and the whole of it against its model, byte for byte."""

import itertools
import random
import struct

import pytest
from amaranth.sim import Simulator

from fpga.bridge.bridge import HostBridge
from fpga.bridge.deframer import Deframer
from fpga.bridge.enframer import Enframer
from fpga.bridge.executor import SelfTestLayout
from fpga.host.frames import (
    ACCESS_BYTES,
    ESCAPE,
    FLAG,
    HEADER_BYTES,
    NONCE_BYTES,
    Access,
    Damage,
    Decoder,
    Frame,
    Identity,
    Opcode,
    SelfTestState,
    Status,
    encode,
    opcode_byte,
)
from fpga.host_memory import READ_DELAY
from hdl.config import SwitchConfig
from hdl.interfaces import Response
from hdl.registers import (
    SWITCH_PAGE,
    SYSTEM_PAGE,
    addresses,
    switch_registers,
    system_registers,
)
from tests.fpga.bridge_model import Board, BridgeModel
from tests.lib.simulate import SHAPES, pattern, run, stream_get

CONFIG = SwitchConfig.preset("tiny", ranks=3, memory_bytes=1024)
BURST = 24
CLEAR = addresses(switch_registers(CONFIG), SWITCH_PAGE)["clear"]
GO = addresses(system_registers(CONFIG), SYSTEM_PAGE)["go"]
PAYLOAD = ACCESS_BYTES + BURST


def random_payload(draw: random.Random, most: int) -> bytes:
    """Often of bytes that must be escaped."""
    special = (FLAG, ESCAPE, FLAG ^ 0x20, ESCAPE ^ 0x20)
    return bytes(
        draw.choice(special) if draw.random() < 0.3 else draw.randrange(256)
        for _ in range(draw.randrange(most + 1))
    )


def spoiled(draw: random.Random, data: bytes) -> bytes:
    """Bytes of a frame after what may happen to them on a line."""
    data = bytearray(data)
    kind = draw.choice(("flip", "lose", "insert", "cut", "long", "abort"))
    at = draw.randrange(len(data))
    if kind == "flip":
        data[at] ^= 1 << draw.randrange(8)
    elif kind == "lose":
        del data[at]
    elif kind == "insert":
        data.insert(at, draw.randrange(256))
    elif kind == "cut":
        del data[at:]
        data.append(FLAG)
    elif kind == "long":
        data[1:1] = bytes(draw.randrange(1, FLAG - 1) for _ in range(3 * PAYLOAD))
    else:
        data[-1:] = [ESCAPE, FLAG]
    return bytes(data)


# -- deframer ------------------------------------------------------------------------------------


async def send(ctx, stream, data, willing):
    """Bytes into a stream that is always ready."""
    for byte in data:
        while not next(willing):
            await ctx.tick()
        ctx.set(stream.payload, byte)
        ctx.set(stream.valid, 1)
        await ctx.tick()
        ctx.set(stream.valid, 0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_deframer_gives_what_the_codec_does(shape, seed):
    draw = random.Random(f"deframer {seed}")
    pieces = []
    for _ in range(25):
        frame = encode(
            Frame(draw.randrange(256), draw.randrange(256), random_payload(draw, PAYLOAD))
        )
        pieces.append(spoiled(draw, frame) if draw.random() < 0.4 else frame)
        pieces.append(random_payload(draw, 3))
    data = b"".join(pieces)
    expected = list(Decoder(PAYLOAD).feed(data))
    dut, came = Deframer(PAYLOAD), []

    async def source(ctx):
        willing = pattern(shape, seed)
        for piece in frame_ends(data):
            await send(ctx, dut.i, piece, willing)
            await ctx.tick()  # in which a request is taken
        await ctx.tick().repeat(4)

    async def watch(ctx):
        async for _, _, damaged, overrun, valid in ctx.tick().sample(
            dut.damaged, dut.overrun, dut.request.valid
        ):
            assert not overrun
            if damaged:
                came.append(None)
            if valid:
                came.append(ctx.get(dut.request.payload))

    async def taker(ctx):
        ctx.set(dut.request.ready, 1)

    run(dut, taker, source, background=[watch], limit=20_000)
    assert len(came) == len(expected)
    for event, request in zip(expected, came, strict=True):
        if isinstance(event, Damage):
            assert request is None
            continue
        assert (request.head, request.sequence) == (event.head, event.sequence)
        assert request.length == len(event.payload)
        if len(event.payload) >= NONCE_BYTES:  # with the check, as many as an access has
            argument = request.argument.to_bytes(ACCESS_BYTES, "little")
            size = min(ACCESS_BYTES, len(event.payload))
            assert argument[:size] == event.payload[:size]
    assert any(isinstance(event, Frame) for event in expected)


@pytest.mark.parametrize("held", [0, 1, 7, 60])
def test_deframer_holds_a_request_with_its_data(held):
    """What comes meanwhile is dropped, and told; the frame behind it is taken."""
    draw = random.Random(held)
    frames = [
        Frame(opcode, 9, bytes(draw.randrange(256) for _ in range(PAYLOAD))) for opcode in range(6)
    ]
    dut, taken, overruns = Deframer(PAYLOAD), [], []
    dropped = held > HEADER_BYTES

    async def source(ctx):
        for frame in frames:
            await send(ctx, dut.i, encode(frame), itertools.repeat(True))

    async def taker(ctx):
        while len(taken) + len(overruns) < len(frames):
            await ctx.tick()
            if not ctx.get(dut.request.valid):
                continue
            request = ctx.get(dut.request.payload)
            for _ in range(held):
                await ctx.tick()
            assert ctx.get(dut.request.valid)
            assert ctx.get(dut.request.payload) == request
            data = bytearray()
            for at in range(BURST if held else 0):
                ctx.set(dut.address, at)
                await ctx.tick()
                data.append(ctx.get(dut.data))
            if held:
                assert data == frames[request.head].payload[ACCESS_BYTES:]
            ctx.set(dut.request.ready, 1)
            await ctx.tick()
            ctx.set(dut.request.ready, 0)
            taken.append(request.head)

    async def watch(ctx):
        async for _, _, damaged, overrun in ctx.tick().sample(dut.damaged, dut.overrun):
            assert not damaged
            overruns.extend([1] * overrun)

    run(dut, source, taker, background=[watch], limit=5000)
    assert len(taken) + len(overruns) == len(frames)
    assert bool(overruns) == bool(held)
    assert dropped <= bool(overruns)


# -- enframer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_enframer_sends_what_the_codec_does(shape, seed):
    draw = random.Random(f"enframer {seed}")
    answers = [
        (draw.randrange(256), draw.randrange(256), draw.randrange(256), random_payload(draw, BURST))
        for _ in range(8)
    ]
    answers += [(0x91, 0x7E, 0x7D, bytes([FLAG] * BURST)), (0x91, 1, 0, b"")]
    dut = Enframer(BURST)
    expected = b"".join(
        2 * encode(Frame(head, sequence, bytes([status]) + data))
        for head, sequence, status, data in answers
    )

    async def source(ctx):
        for head, sequence, status, data in answers:
            for at, byte in enumerate(data):
                ctx.set(dut.write, 1)
                ctx.set(dut.address, at)
                ctx.set(dut.data, byte)
                await ctx.tick()
            ctx.set(dut.write, 0)
            answer = dict(head=head, sequence=sequence, status=status, size=len(data))
            for _ in range(2):  # once more, of what is kept
                ctx.set(dut.answer.payload, answer)
                ctx.set(dut.answer.valid, 1)
                await ctx.tick().until(dut.answer.ready)
                ctx.set(dut.answer.valid, 0)

    async def sink(ctx):
        taken = await stream_get(ctx, dut.o, len(expected), pattern(shape, seed))
        assert bytes(taken) == expected

    run(dut, source, sink, limit=20_000)


@pytest.mark.parametrize(("size", "idle"), [(0, 2), (4, 1 + 2)])
def test_enframer_sends_a_byte_each_cycle_but_for_those_it_states(size, idle):
    """One in front of the data, two in front of the check sum."""
    dut, offered = Enframer(BURST), []
    answer = dict(head=1, sequence=2, status=3, size=size)
    frame = encode(Frame(1, 2, bytes([3]) + bytes(size)))

    async def sink(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.answer.payload, answer)
        ctx.set(dut.answer.valid, 1)
        await ctx.tick()
        while not ctx.get(dut.answer.ready):
            offered.append(ctx.get(dut.o.valid))
            await ctx.tick()

    run(dut, sink, limit=1000)
    assert (sum(offered), len(offered)) == (len(frame), len(frame) + idle)


# -- the whole -----------------------------------------------------------------------------------


class Surroundings:
    """Registers and memories around a bridge that answer when they like."""

    def __init__(self, dut: HostBridge, board: Board, seed: int):
        self._dut, self._board = dut, board
        self._random = random.Random(f"surroundings {seed}")

    async def registers(self, ctx):
        axil, board = self._dut.axil, self._board
        while True:
            await ctx.tick()
            if ctx.get(axil.arvalid):
                await self._wait(ctx)
                address = await self._take(ctx, "ar")
                ctx.set(axil.rdata, board.words.get(address, 0xBAD0BAD0))
                await self._answer(ctx, "r", address)
            elif ctx.get(axil.awvalid):
                beats = {}
                for channel in self._random.sample(["aw", "w"], 2):
                    await self._wait(ctx)
                    beats[channel] = await self._take(ctx, channel)
                assert ctx.get(axil.wstrb) == 0xF
                if board.has_word(beats["aw"]):
                    board.words[beats["aw"]] = beats["w"]
                    board.acts.append((beats["aw"], beats["w"]))
                await self._answer(ctx, "b", beats["aw"])

    async def _wait(self, ctx):
        for _ in range(self._random.choice((0, 0, 1, 4))):
            await ctx.tick()

    async def _take(self, ctx, channel):
        axil = self._dut.axil
        what = ctx.get(axil.wdata if channel == "w" else getattr(axil, f"{channel}addr"))
        ctx.set(getattr(axil, f"{channel}ready"), 1)
        await ctx.tick()
        ctx.set(getattr(axil, f"{channel}ready"), 0)
        assert not ctx.get(getattr(axil, f"{channel}valid"))
        return what

    async def _answer(self, ctx, channel, address):
        axil = self._dut.axil
        code = Response.OKAY if self._board.has_word(address) else Response.DECERR
        await self._wait(ctx)
        ctx.set(getattr(axil, f"{channel}resp"), code.value)
        ctx.set(getattr(axil, f"{channel}valid"), 1)
        while True:
            _, _, ready = await ctx.tick().sample(getattr(axil, f"{channel}ready"))
            if ready:
                break
        ctx.set(getattr(axil, f"{channel}valid"), 0)

    async def memories(self, ctx):
        """A read's data stands for one cycle, `READ_DELAY` behind it; else there is rubbish."""
        port, board = self._dut.memory, self._board
        due = []
        for cycle in itertools.count():
            read_ready, write_ready = (self._random.random() < 0.7 for _ in range(2))
            ctx.set(port.read_ready, read_ready)
            ctx.set(port.write_ready, write_ready)
            _, _, read, write, rank, address, data, strobe = await ctx.tick().sample(
                port.read_enable,
                port.write_enable,
                port.rank,
                port.address,
                port.write_data,
                port.write_strobe,
            )
            assert not (read and write)
            assert rank < CONFIG.ranks or not (read or write)
            memory, even = board.memories[rank % CONFIG.ranks], address & ~1
            if read and read_ready:
                due.append((cycle + READ_DELAY, memory[even] | memory[even + 1] << 8))
            if write and write_ready:
                for lane in range(2):
                    if strobe >> lane & 1:
                        memory[even + lane] = data >> 8 * lane & 0xFF
            shown = (
                due.pop(0)[1] if due and due[0][0] == cycle + 1 else self._random.getrandbits(16)
            )
            ctx.set(port.read_data, shown)

    async def strobes(self, ctx):
        dut = self._dut
        async for _, _, reset, test in ctx.tick().sample(dut.reset, dut.start_self_test):
            self._board.acts.extend([Opcode.RESET.name] * reset + [Opcode.SELF_TEST.name] * test)


def board(draw: random.Random) -> Board:
    words = {address: draw.getrandbits(32) for address in range(0x400, 0x440, 4)}
    words |= {0xFFF8: 1, 0xFFFC: 2, CLEAR: 3, GO: 4}
    memories = [bytearray(draw.randbytes(CONFIG.memory_bytes)) for _ in range(CONFIG.ranks)]
    refusing = {0x41C} | draw.choice((set(), set(), {CLEAR}, {GO}))
    return Board(words, memories, refusing)


def copy(original: Board) -> Board:
    return Board(
        dict(original.words), [bytearray(each) for each in original.memories], original.refusing
    )


def identity(damaged: int, framing: int, state: SelfTestState) -> bytes:
    """What follows the nonce."""
    values = {register.name: register.reset for register in switch_registers(CONFIG)}
    version = values["version"]
    return Identity(
        nonce=0,
        burst_bytes=BURST,
        ranks=CONFIG.ranks,
        flit_bytes=CONFIG.flit_bytes,
        memory_bytes=CONFIG.memory_bytes,
        config_digest=values["config_digest"],
        version=(version >> 16, version >> 8 & 0xFF, version & 0xFF),
        damaged_frames=damaged,
        framing_errors=framing,
        self_test=state,
    ).pack()[4:]


def random_access(draw: random.Random) -> tuple[Opcode, bytes]:
    """A request for registers or memories: most are sound, some leave what is there."""
    opcode = draw.choice(
        [Opcode.READ_WORDS, Opcode.WRITE_WORDS, Opcode.READ_MEMORY, Opcode.WRITE_MEMORY]
    )
    words = opcode in (Opcode.READ_WORDS, Opcode.WRITE_WORDS)
    most = BURST // 4 if words else BURST
    size = draw.choice((0, 1, 2, most, draw.randrange(most + 1)))
    if draw.random() < 0.05:
        size = draw.choice((most + 1, 0x4000, 0xFFFF))
    if words:
        address = draw.choice((0x400, 0x404, 0x418, 0x43C, 0xFFFC, 0x402, 0x1_0400))
    else:
        last = CONFIG.memory_bytes - 1
        address = draw.choice((0, 5, draw.randrange(last), last, last + 1, 1 << 31))
    rank = draw.choice((0, 1, 2, 2, 3, 255))
    access = Access(address, size, rank, fixed=draw.random() < 0.3)
    writes = opcode in (Opcode.WRITE_WORDS, Opcode.WRITE_MEMORY)
    data = draw.randbytes(min(size * (4 if words else 1), BURST)) if writes else b""
    if draw.random() < 0.05:
        data = draw.randbytes(draw.randrange(BURST + 1))
    return opcode, access.pack() + data


class Traffic:
    """Requests in sequence, and whatever else may come."""

    def __init__(self, draw: random.Random):
        self._draw = draw
        self._sequence = 0
        self._nonce = 1

    def _identify(self, sequence: int) -> bytes:
        payload = struct.pack("<I", self._nonce)
        return encode(Frame(opcode_byte(Opcode.IDENTIFY), sequence, payload))

    def next(self) -> bytes:
        draw = self._draw
        kind = draw.random()
        if kind < 0.08:
            self._nonce += 1
            self._sequence = draw.randrange(256)
            return self._identify(self._sequence)
        sequence = (self._sequence + 1) % 256
        if kind < 0.2:  # the last one again, or another's
            sequence = (sequence + draw.choice((-1, -1, -2, 1, 128))) % 256
        opcode, payload = random_access(draw)
        head = opcode_byte(opcode)
        if kind > 0.9:
            head = draw.choice(
                [
                    *map(opcode_byte, (Opcode.RESET, Opcode.SELF_TEST, Opcode.START)),
                    *(0x00, 0x22, 0x91, 0x1F),
                ]
            )
            payload = draw.choice((b"", b"", payload))
        frame = encode(Frame(head, sequence, payload))
        if 0.2 < kind < 0.3:
            return spoiled(draw, frame)
        self._sequence = sequence
        return draw.randbytes(draw.choice((0, 0, 0, 3))) + frame

    def first(self) -> bytes:
        return self._identify(self._sequence)


def corners() -> list[bytes]:
    """Frames at the edges of what is allowed, and every repetition that must do nothing."""
    sequence = 0

    def identify(nonce, number=0):
        return encode(Frame(opcode_byte(Opcode.IDENTIFY), number, struct.pack("<I", nonce)))

    def request(opcode, payload=b"", repeated=True):
        nonlocal sequence
        sequence += 1
        frame = encode(Frame(opcode_byte(opcode), sequence, payload))
        return [frame] * (1 + repeated)

    frames = [identify(5), identify(5)]
    memory, most_words, last = CONFIG.memory_bytes, BURST // 4, CONFIG.ranks - 1
    for size in (0, 1, BURST, BURST + 1):
        for address in (0, 1, memory - BURST, memory - 1, memory):
            access = Access(address, size, last).pack()
            frames += request(
                Opcode.WRITE_MEMORY, access + bytes(range(0x70, 0x70 + min(size, BURST)))
            )
            frames += request(Opcode.READ_MEMORY, access)
    for address, size in (
        *((0x400, most_words), (0x400, most_words + 1)),
        *((0x401, 1), (0x402, 1), (0x403, 1)),
        *((0xFFFC, 1), (0xFFFC, 2), (0x1_0000, 1), (0x418, 2)),
    ):
        for fixed in (False, True):
            access = Access(address, size, fixed=fixed).pack()
            data = bytes(range(4 * min(size, most_words)))
            frames += request(Opcode.WRITE_WORDS, access + data)
            frames += request(Opcode.READ_WORDS, access)
    frames += request(Opcode.READ_MEMORY, Access(0, 1, last + 1).pack())
    for opcode in (
        Opcode.IDENTIFY,
        Opcode.RESET,
        Opcode.SELF_TEST,
        Opcode.START,
        Opcode.READ_WORDS,
    ):
        for size in (0, 1, 5, 7, 9):
            frames += request(opcode, bytes(size))
    # The session's own IDENTIFY, late: refused, and what follows goes on; then another session.
    frames += [identify(5), *request(Opcode.READ_MEMORY, Access(3, 4, 0).pack())]
    frames += [identify(6, 200), identify(6, 200), identify(6, 201), identify(5, 200)]
    return frames


def test_bridge_at_the_edges():
    simulate(7, "always", pieces=corners())


def simulate(seed: int, shape: str, *, requests: int = 0, self_test: bool = True, pieces=None):
    """Send requests one by one, and compare each answer and every act with the model's.

    They are `pieces`, or so many random `requests` with self-tests and ends of the session.
    """
    draw = random.Random(f"bridge {seed}")
    state = SelfTestState(built=self_test, busy=False, passed=True, failed=False, fault=0)
    real = board(draw)
    model_board = copy(real)
    model = BridgeModel(model_board, BURST, b"", self_test=self_test, starting=(CLEAR, GO))
    dut = HostBridge(CONFIG, burst_bytes=BURST, self_test=self_test)
    around = Surroundings(dut, real, seed)
    traffic = Traffic(draw)
    idle, willing = pattern(shape, f"{seed} in"), pattern(shape, f"{seed} out")
    came = bytearray()

    async def sink(ctx):
        while True:
            ready = next(willing)
            ctx.set(dut.tx.ready, ready)
            _, _, valid, byte = await ctx.tick().sample(dut.tx.valid, dut.tx.payload)
            if valid and ready:
                came.append(byte)

    async def bench(ctx):
        ctx.set(dut.framing_errors, 0x1234)
        ctx.set(dut.self_test, SelfTestLayout.from_bits(state.pack()))
        random_pieces = (
            traffic.first() if number == 0 else traffic.next() for number in range(requests)
        )
        for number, data in enumerate(pieces or random_pieces):
            if pieces is None and draw.random() < 0.05:
                model_board.blocked = not model_board.blocked
                ctx.set(dut.blocked, model_board.blocked)
            if pieces is None and draw.random() < 0.03:
                model.close()
                ctx.set(dut.close, 1)
                await ctx.tick()
                ctx.set(dut.close, 0)
            # One frame at a time: the second of two that noise has made would be an overrun.
            for end in frame_ends(data):
                expected = model.feed(end)
                model._identity = identity(model.damaged, 0x1234, state)
                await send(ctx, dut.rx, end, idle)
                await quiet(ctx, dut)
                assert bytes(came) == expected, f"request {number}"
                came.clear()
        assert real.memories == model_board.memories
        assert real.words == model_board.words
        assert real.acts == model_board.acts

    model._identity = identity(0, 0x1234, state)
    background = [sink, around.registers, around.memories, around.strobes]
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for each in background:
        simulator.add_testbench(each, background=True)
    simulator.add_testbench(bench)
    simulator.run()
    return model_board


def frame_ends(data: bytes) -> list[bytes]:
    """`data` cut behind each flag."""
    pieces = data.split(bytes([FLAG]))
    return [piece + bytes([FLAG]) for piece in pieces[:-1]] + [pieces[-1]]


async def quiet(ctx, dut):
    """Until the answer has gone out."""
    for _ in range(5000):
        await ctx.tick()
        if not ctx.get(dut.active):
            return
    raise AssertionError("the bridge does not come to rest")


@pytest.mark.parametrize(("shape", "seed"), [("always", 0), ("half", 1), ("bursts", 2)])
def test_bridge_answers_and_acts_as_its_model(shape, seed):
    simulate(seed, shape, requests=80)


def test_bridge_without_a_self_test():
    acts = simulate(98, "always", requests=160, self_test=False).acts
    assert Opcode.SELF_TEST.name not in acts
    assert Opcode.RESET.name in acts
    begun = acts.index((CLEAR, 1))
    assert acts[begun + 1] == (GO, 1)  # START, of which nothing comes in between


def test_a_frame_before_the_last_is_done_is_told():
    """Back to back while an answer waits: one is held, the next is dropped and not acted upon."""
    dut = HostBridge(CONFIG, burst_bytes=BURST)
    real = board(random.Random(5))
    around = Surroundings(dut, real, 5)

    def write(sequence, value):
        payload = Access(0x410, 1).pack() + struct.pack("<I", value)
        return encode(Frame(opcode_byte(Opcode.WRITE_WORDS), sequence, payload))

    async def bench(ctx):
        traffic = Traffic(random.Random(0))
        always = itertools.repeat(True)
        await send(ctx, dut.rx, traffic.first(), always)
        await ctx.tick().repeat(200)  # its answer is stuck at the output
        await send(ctx, dut.rx, write(1, 0x11) + write(2, 0x22), always)
        ctx.set(dut.tx.ready, 1)
        out = bytearray()
        for _ in range(600):
            _, _, valid, byte = await ctx.tick().sample(dut.tx.valid, dut.tx.payload)
            if valid:
                out.append(byte)
        first, second, third = Decoder().feed(bytes(out))
        assert first.head == opcode_byte(Opcode.IDENTIFY, answer=True)
        assert second == Frame(opcode_byte(Opcode.WRITE_WORDS, answer=True), 1, b"\0")
        assert third.payload == bytes([Status.OVERRUN])
        assert third.head == opcode_byte(Opcode.NONE, answer=True)
        assert real.acts == [(0x410, 0x11)]

    run(dut, bench, background=[around.registers, around.memories], limit=2000)
