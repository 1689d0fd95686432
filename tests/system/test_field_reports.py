"""What has gone wrong for others, here: one test a public report, named after it.

Each is the report's trigger in small; the sweeps of this folder cover its kind.
"""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES, Status
from hdl.interfaces import Response
from sim.host import Instruction
from sim.testbed import Placement

from .systems import (
    AWKWARD,
    CYCLES,
    TINY,
    Operation,
    finite,
    flag_word,
    random_bits,
    run_queue,
    system,
    tiny,
    variant,
)
from .variant import BAD_READ, BAD_WRITE

FLAGS = [0x3FC0] * 3
RANKS = range(3)


def ok(bed, elements, format="fp16", seed=1, **how):
    outcome = bed.all_reduce(
        random_bits(np.random.default_rng(seed), bed.config.ranks, elements), format, **how
    )
    assert outcome.status == "ok", outcome
    return outcome


def test_nccl_257_a_short_last_wave_never_underflows():
    """A last chunk with a negative element count looped for ever."""
    for elements in (1, 127, 129, 255, 257):
        outcome = ok(system(), elements)
        assert outcome.figures.waves == -(-elements * ELEMENT_BYTES // TINY.wave_bytes)


def test_accl_73_fewer_elements_than_ranks():
    for elements in (1, 2):
        ok(system(), elements)


def test_mscclpp_682_a_count_that_nothing_divides():
    ok(system(), 1009)


def test_idma_194_195_length_zero_moves_nothing():
    """A burst length underflowed to 256 beats; 1,024 bytes were overwritten."""
    bed = system()
    bed.engine.record(
        [f"rank_trace__{rank}__{event}" for rank in RANKS for event in ("request", "write")], []
    )
    outcome = ok(bed, 0, guard=np.array([0xA5], np.uint8))
    assert len(bed.engine.recording()) == 0
    assert outcome.figures.waves == 0


def test_nccl_698_waves_that_do_not_divide_the_message():
    for elements in (95, 96, 97, 200):
        ok(system(AWKWARD), elements)


@pytest.mark.parametrize("length", [(1 << 31) - 8, 1 << 31, 1 << 32, (1 << 32) + 64, 1 << 40])
def test_flashinfer_1223_lengths_that_would_wrap(length):
    bed = system()
    where = Placement([0x100] * 3, [0x800] * 3, FLAGS)
    code, _ = bed.host.post(Instruction(length, where.sources, where.destinations, where.flags))
    assert code in (Status.OUT_OF_RANGE, Status.BAD_LENGTH)
    bed.engine.step(500)
    assert not bed.differences()


def test_sglang_24548_a_message_larger_than_all_buffers_together():
    """Tables, write-back and link hold a fraction of it."""
    assert TINY.waves * TINY.wave_bytes < 15000
    ok(system(), 7500)


def test_fastllm_724_an_odd_address_is_refused_for_its_rank():
    bed = system()
    for rank in RANKS:
        for offset in (1, 2, 4, 7):
            sources = [0x100 + offset * (each == rank) for each in RANKS]
            code = bed.host.post(Instruction(64, sources, [0x800] * 3, FLAGS))
            assert code == (Status.UNALIGNED, rank)


@pytest.mark.parametrize("ranks", [3, 5])
def test_vllm_6385_a_number_of_ranks_that_is_no_power_of_two(ranks):
    """The others are in `test_lengths`."""
    bed = system(tiny(ranks=ranks), "cxxrtl" if ranks == TINY.ranks else "pysim")
    ok(bed, 33)


def test_tt_mlir_2675_a_length_that_the_ranks_do_not_divide():
    for elements in (31, 64, 128, 256):
        assert elements % TINY.ranks
        ok(system(), elements)


def test_ark_253_in_place_and_partial_overlap():
    """In place with three ranks; a result that overlaps its operand in part is refused."""
    bed = system()
    ok(bed, 300)
    for shift in (8, 256, 592):
        for sources, destinations in (([0x800] * 3, [0x800 + shift] * 3),
                                      ([0x800 + shift] * 3, [0x800] * 3)):  # fmt: skip
            posted = Instruction(600, sources, destinations, FLAGS)
            assert bed.host.post(posted) == (Status.OVERLAP, 0)
    bed.engine.step(500)
    assert not bed.differences()


def test_pypto_2156_a_flag_of_before_satisfies_no_later_wait():
    """Three calls with different data into the same places, each awaited by its own epoch."""
    bed = system()
    where = Placement([0x100] * 3, [0x100] * 3, FLAGS)
    for seed in range(3):
        ok(bed, 100, seed=seed, where=where)


def test_deepspeed_4048_a_fast_rank_enters_the_next_operation_before_a_slow_one_leaves():
    """One rank's memory is slow to write, so its flag is late; the others arrive again."""
    bed = variant()
    bed.set_memory(2, write_latency=300, stalls={"w": 200, "b": 200}, seed=5)
    rng = np.random.default_rng(4)
    places = [Placement([0x400 * n] * 3, [0x1000 + 0x400 * n] * 3, FLAGS) for n in range(4)]
    run_queue(bed, [Operation(random_bits(rng, 3, 300), "fp16", place) for place in places])


def test_vllm_25892_sizes_and_addresses_that_change_from_call_to_call():
    """The flag of one call lies where the data of the next will be."""
    bed = system()
    rng = np.random.default_rng(5)
    for turn in range(12):
        elements = int(rng.choice([1, 60, 128, 400]))
        low = 0x400 + 0x200 * (turn % 3)
        flag = 0x400 + 0x200 * ((turn + 1) % 3) - 8
        where = Placement([low] * 3, [0x2000 + low] * 3, [flag if flag < low else 0x100] * 3)
        ok(bed, elements, seed=turn, where=where)


def test_vllm_2760_ranks_that_arrive_in_the_same_cycle():
    """All of them, and every pair with the third one first or last."""
    bed = system()
    for late in ([0, 0, 0], [9, 9, 0], [9, 0, 9], [0, 9, 9], [0, 0, 9], [0, 9, 0], [9, 0, 0]):
        ok(bed, 5, delays=late)


def test_verilog_axi_80_a_flag_only_after_every_acknowledgement():
    """One rank answers writes late: no rank has its flag before."""
    bed = system()
    bed.set_memory(1, write_latency=700)
    names = [f"rank_trace__{rank}__{event}" for rank in RANKS for event in ("response", "flag")]
    bed.engine.record(names, names)
    ok(bed, 200)
    rows = list(bed.engine.recording().rows())
    last = max(c for c, row in rows if any(row[f"rank_trace__{r}__response"] for r in RANKS))
    first = min(c for c, row in rows if any(row[f"rank_trace__{r}__flag"] for r in RANKS))
    assert first > last


@pytest.mark.parametrize("bits", [0x8000, 0x8001, 0x83FF, 0xFFFF, 0xFE00, 0x7C01, 0x0000])
def test_flashinfer_3053_no_value_marks_data_that_has_not_come(bits):
    """Payloads of nothing but -0, a negative subnormal, or NaN."""
    bed = system()
    for format in ("fp16", "bf16"):
        operands = np.full((3, 300), bits, np.uint16)
        assert bed.all_reduce(operands, format).status == "ok"


def test_uccl_1052_a_second_arrival_is_an_error_and_releases_nobody():
    """For an epoch that is over, through a whole system; for this one, see the accelerator's."""
    bed = system()
    ok(bed, 10, where=Placement([0x100] * 3, [0x800] * 3, FLAGS))
    before = bed.host.read("switch", "refused_arrivals")
    bed.host.program(flags=FLAGS)
    bed.host.epoch -= 1
    for rank in RANKS:
        bed.host.write(f"rank{rank}", "epoch", bed.host.epoch - 1)
    bed.host.write("system", "go", 1)
    bed.engine.step(200)
    assert bed.host.read("switch", "refused_arrivals") == before + 3
    assert bed.host.read("switch", "arrived") == 0
    ok(bed, 10)


@pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
def test_axi_423_memories_that_favour_one_direction_do_not_stop_the_other(channel):
    """Reads and writes of one memory at once, one channel almost closed, at one rank or all."""
    bed = system()
    for slow in ([0], [0, 1, 2]):
        for rank in RANKS:
            bed.set_memory(rank, stalls={channel: 250 if rank in slow else 0}, seed=rank)
        ok(bed, 500)


@pytest.mark.parametrize("kind", [BAD_READ, BAD_WRITE], ids=["read", "write"])
@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR])
def test_wishboneaxi_4_an_error_response_is_no_hang(kind, response):
    bed = variant()
    bad = [0x40, kind[response] - 8, 0x40]
    good = [0x1000] * 3
    where = Placement(bad, good, FLAGS) if kind is BAD_READ else Placement(good, bad, FLAGS)
    rng = np.random.default_rng(9)
    operation = Operation(random_bits(rng, 3, 64), "fp16", where)
    for rank in RANKS:
        bed.fill(rank, where.sources[rank], operation.operands[rank])
    assert bed.host.post(operation.instruction)[0] is Status.OK
    epoch = bed.host.epoch
    bed.host.program(flags=FLAGS)
    assert bed.host.run(CYCLES)
    name = f"{'READ' if kind is BAD_READ else 'WRITE'}_{response.name}"
    for rank in RANKS:
        flag = int.from_bytes(bed.engine.read(rank, FLAGS[rank], 8), "little")
        assert flag == flag_word(epoch, Status[name], 1)
        held = np.frombuffer(bed.engine.read(rank, 0, TINY.memory_bytes), np.uint8)
        bed.expected[rank][:] = held
    ok(bed, 64, where=Placement([0x40] * 3, [0x800] * 3, FLAGS))


def test_nccl_1497_the_same_data_gives_the_same_bits():
    """With finite values whose sum depends on the order, where an order is left to chance."""
    bed = system()
    operands = finite(np.random.default_rng(55), 3, 300, "bf16")
    seen = set()
    for seed in range(30):
        for rank in RANKS:
            bed.set_memory(rank, jitter=300, stalls={"r": 128}, seed=31 * seed + rank)
        assert bed.all_reduce(operands, "bf16").status == "ok"
        seen |= {bed.engine.read(rank, 0, 600) for rank in RANKS}
    assert len(seen) == 1
