# amaranth: UnusedElaboratable=no
"""The adder tree alone: exact for any number of operands and any width."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from hdl.arithmetic.adder_tree import AdderTree

SEED = 4


def run(ranks, width, sums):
    dut = AdderTree(ranks, width)

    async def bench(ctx):
        for now in range(len(sums) + dut.delay):
            if now < len(sums):
                for rank, number in enumerate(sums[now]):
                    ctx.set(dut.magnitudes[rank], abs(number))
                    ctx.set(dut.signs[rank], number < 0)
            ctx.set(dut.valid, now < len(sums))
            if now >= dut.delay:
                total = ctx.get(dut.sum)
                total = -total if ctx.get(dut.sign) else total
                assert total == sum(sums[now - dut.delay]), f"operands {sums[now - dut.delay]}"
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("width", [8, 40, 51])  # 51: sums of products of codes and scales
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 8, 9, 13, 16])
def test_sums_are_exact(ranks, width):
    random = np.random.default_rng([SEED, ranks, width])
    largest = (1 << width) - 1
    sums = [[largest] * ranks, [-largest] * ranks, [largest, -largest] * (ranks // 2)]
    sums[2] += [0] * (ranks % 2)
    for _ in range(100):
        magnitudes = random.integers(0, largest, ranks, endpoint=True)
        sums.append([int(m) * int(random.choice([-1, 1])) for m in magnitudes])
    run(ranks, width, sums)


@pytest.mark.parametrize(("ranks", "delay"), [(2, 1), (4, 1), (5, 2), (16, 2)])
def test_delay(ranks, delay):
    assert AdderTree(ranks, 40).delay == delay
