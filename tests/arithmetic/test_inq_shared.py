# amaranth: UnusedElaboratable=no
"""The reducer that adds fp16 and quantizes on one set of multipliers, against golden."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from hdl.arithmetic.shared_reducer import SharedReducer
from hdl.config import SwitchConfig
from tests.arithmetic.test_inq_reducer import Build, Message, random_message
from tests.arithmetic.test_reducer import as_int, bits, random_flit

SEED = 7


def plain(random, ranks, flit_bytes):
    """A flit of fp16 numbers: input, and what must come of it."""
    config = SwitchConfig(ranks=ranks, flit_bytes=flit_bytes, payload_bytes=64, formats=("fp16",))
    flit = random_flit(random, config)
    given = {
        "operands": as_int(flit.operands),
        "scales": int.from_bytes(random.bytes(2 * ranks)),
        "keep": bits(flit.keep) | int(random.integers(1 << flit_bytes // 2)) << flit_bytes // 2,
        "sources": bits(flit.sources),
        "quantized": 0,
        "last": 0,
    }
    return given, flit.output


def coded(random, message):
    """A message's flits: inputs, and what must come of them."""
    for given, want in message.cycles(random):
        if given is None:
            yield None, None
        else:
            codes = given.pop("codes")
            yield {**given, "operands": codes, "quantized": 1}, want


def run(dut, flits):
    """Offers flits, or none for a cycle; checks both outputs in every cycle."""
    sums, codes, failures = {}, {}, []

    def check(name, got, want, now):
        if got != want:
            failures.append((name, now, got, want))

    async def bench(ctx):
        queue = iter(flits)
        given, want = next(queue)
        idle = now = 0
        while idle < dut.inq_delay + 2:
            ctx.set(dut.i.valid, given is not None)
            if given is not None:
                ctx.set(dut.i.payload, given)
                if ctx.get(dut.i.ready):
                    later = dut.inq_delay if given["quantized"] else dut.delay
                    (codes if given["quantized"] else sums)[now + later] = want
            check("o.valid", ctx.get(dut.o.valid), now in sums, now)
            check("q.valid", ctx.get(dut.q.valid), now in codes, now)
            if now in sums:
                got = ctx.get(dut.o.payload)
                check("sums", (got.data, got.nan, got.overflow), sums[now], now)
            if now in codes:
                got = ctx.get(dut.q.payload)
                for name in ("data", "blocks", "nan", "overflow"):
                    check(name, got[name], codes[now][name], now)
                if codes[now]["blocks"]:
                    check("scales", got.scales, codes[now]["scales"], now)
            if given is None or ctx.get(dut.i.ready):
                given, want = next(queue, (None, None))
            idle = 0 if given is not None else idle + 1
            now += 1
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert sums
    assert codes
    assert not failures, f"{len(failures)} differ; the first: {failures[0]}"


@pytest.mark.parametrize(("ranks", "block"), [(2, 32), (3, 32), (4, 64), (8, 32)])
def test_sums_and_codes_in_any_order(ranks, block):
    random = np.random.default_rng([SEED, ranks, block])
    build = Build(ranks=ranks, flit_bytes=8, block=block)
    flits = []
    for _ in range(6):
        message = random_message(random, build, 2, gaps=True, absent=True)
        flits += coded(random, message)
        flits += [plain(random, ranks, 8) for _ in range(int(random.choice([0, 1, 30])))]
        flits += [(None, None)] * int(random.choice([0, 0, 3]))
    run(SharedReducer(ranks, 8, block), flits)


def test_short_messages_between_numbers():
    random = np.random.default_rng(SEED)
    build = Build(block=32)
    flits = []
    for length in (32, 1, 5, 8, 9, 64, 4, 1, 1, 3, 32):
        codes = random.integers(-128, 128, (2, length)).astype(np.int8)
        scales = random.integers(0, 0x7C00, (2, -(-length // 32))).astype(np.uint16)
        flits += coded(random, Message(build, codes, scales))
        flits += [plain(random, 2, 8)]
    run(SharedReducer(2, 8, 32), flits)


def test_a_block_is_no_less_than_a_flit():
    with pytest.raises(ValueError, match=r"^block: must be at least flit_bytes \(64\), not 32$"):
        SharedReducer(2, 64, 32)
    with pytest.raises(ValueError, match=r"^ranks: must be 2..16, not 1$"):
        SharedReducer(1, 8, 32)
