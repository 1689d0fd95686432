"""Operations posted ahead, with ranks that arrive ahead: no gap, no mix-up, nothing left over."""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES
from sim.testbed import Placement

from .systems import Operation, random_bits, run_queue, system, variant

FLAGS = [0x3FC0] * 3


def operations(rng, sizes, formats=("fp16", "bf16")):
    """Each in a place of its own, out of place."""
    result, low = [], 0
    for number, elements in enumerate(sizes):
        size = -(-elements * 2 // 8) * 8
        result.append(
            Operation(
                random_bits(rng, 3, elements),
                formats[number % len(formats)],
                Placement([low] * 3, [low + size] * 3, FLAGS),
            )
        )
        low += 2 * size
    return result


def test_the_next_operation_reads_while_this_one_still_writes():
    """Between the first request and the last read-out there is always a wave that reads."""
    bed = variant()
    bed.set_links(8)
    for rank in range(3):
        bed.set_memory(rank, write_latency=200)
    ports = ["trace__reading", "trace__writing", "trace__release", "rank_trace__0__request"]
    ports.append("rank_trace__0__flag")
    bed.engine.record(ports, ports)
    run_queue(bed, operations(np.random.default_rng(1), [512, 512]))
    rows = list(bed.engine.recording().rows())
    first = next(cycle for cycle, row in rows if row["rank_trace__0__request"])
    last = max(cycle for cycle, row in rows if row["trace__release"])
    reading = {cycle for cycle, row in rows if row["trace__reading"]}
    idle = [cycle for cycle in range(first, last) if cycle not in reading]
    assert not idle
    # Both are asked for in full before the first one's flag.
    requests = [cycle for cycle, row in rows if row["rank_trace__0__request"]]
    assert len(requests) == 2 * 512 * ELEMENT_BYTES // bed.config.read_request_bytes
    flags = [cycle for cycle, row in rows if row["rank_trace__0__flag"]]
    assert max(requests) < flags[0]


@pytest.mark.parametrize("seed", range(6))
def test_operations_that_overlap_do_not_mix(seed):
    """Short ones and empty ones, whose waves are complete when the one before is read out."""
    print("seed", seed)
    bed = variant()
    rng = np.random.default_rng(seed)
    for rank in range(3):
        bed.set_memory(
            rank, latency=int(rng.integers(2, 40)), write_latency=int(rng.integers(1, 200)),
            jitter=int(rng.choice([0, 40])), seed=seed + rank,
        )  # fmt: skip
    for _ in range(6):
        sizes = [int(rng.choice([0, 1, 3, 4, 16, 128, 129, 300])) for _ in range(4)]
        run_queue(bed, operations(rng, sizes))


def test_the_same_memory_in_operation_after_operation():
    """Each result is the next operand, with ranks that wait for their flags; 40 epochs."""
    bed = system()
    rng = np.random.default_rng(3)
    values = random_bits(rng, 3, 200)
    where = Placement([0x100] * 3, [0x100] * 3, FLAGS)
    for _ in range(10):
        queue = []
        for _ in range(4):
            queue.append(Operation(values, "bf16", where))
            values = np.stack([queue[-1].result] * 3)
        first = queue[0]
        # Only the first one's operand is loaded; the others find the results before them.
        for rank in range(3):
            bed.fill(rank, 0x100, first.operands[rank])
        chained(bed, queue)
        values = random_bits(rng, 3, 200)


def chained(bed, queue):
    for operation in queue:
        assert bed.host.post(operation.instruction)[1] == 0
    epoch = bed.host.epoch
    bed.host.program(flags=FLAGS, count=len(queue))
    assert bed.host.run(100_000)
    for rank in range(3):
        bed.expected[rank][0x100 : 0x100 + 400] = queue[-1].result.view("u1")
        bed.expected[rank][0x3FC0:0x3FC8] = np.array([epoch + len(queue) - 1], "<u8").view("u1")
    assert not bed.differences()
