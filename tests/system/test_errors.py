"""Responses with an error end the operation with code and rank, and the next one works."""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES, Status
from hdl.interfaces import Response
from sim.testbed import Placement

from .systems import CYCLES, TINY, Operation, expect, flag_word, random_bits, variant
from .variant import BAD_READ, BAD_WRITE

FLAGS = [0x3FC0, 0x3FC8, 0x3FD0]
READ = {Response.SLVERR: Status.READ_SLVERR, Response.DECERR: Status.READ_DECERR}
WRITE = {Response.SLVERR: Status.WRITE_SLVERR, Response.DECERR: Status.WRITE_DECERR}
#: Four waves, and the first flit, a middle one, and the last of packets, waves and the operation.
ELEMENTS = 510
PLACES = {
    "first flit": 0,
    "last flit of a packet": 3,
    "first flit of a packet": 4,
    "middle of a wave": 17,
    "last flit of a wave": 31,
    "first flit of a wave": 32,
    "last wave": 100,
    "last flit": 127,
}


def ranks_at(bad_rank, bad, good):
    return [bad if rank == bad_rank else good for rank in range(TINY.ranks)]


def run_failing(bed, operation, code, bad_rank):
    """Run one operation that fails; each of its waves must be old or new at each rank.

    Returns the waves that are new at every rank.
    """
    where, length = operation.where, operation.length
    for rank in range(TINY.ranks):
        bed.fill(rank, where.destinations[rank], np.full(length, 0x5A + rank, np.uint8))
        bed.fill(rank, where.sources[rank], operation.operands[rank])
    assert bed.host.post(operation.instruction) == (Status.OK, 0)
    epoch = bed.host.epoch
    bed.host.program(flags=where.flags)
    assert bed.host.run(CYCLES), bed.state()
    figures = bed.host.figures()
    assert (figures.code, figures.code_rank) == (code.name, bad_rank)
    assert figures.data >= 0
    result = operation.result.view(np.uint8)
    everywhere = []
    for start in range(0, length, TINY.wave_bytes):
        stop = min(start + TINY.wave_bytes, length)
        new = []
        for rank in range(TINY.ranks):
            low = where.destinations[rank] + start
            held = np.frombuffer(bed.engine.read(rank, low, stop - start), np.uint8)
            old = bed.expected[rank][low : low + stop - start]
            assert np.array_equal(held, result[start:stop]) or np.array_equal(held, old), (
                f"rank {rank} bytes {start}..{stop} are neither old nor new"
            )
            new.append(not np.array_equal(held, old))
            expect(bed, rank, low, held)
        everywhere.append(all(new))
    for rank in range(TINY.ranks):
        expect(bed, rank, where.flags[rank], flag_word(epoch, code, bad_rank))
    assert not bed.differences()
    assert bed.host.read("switch", "last_epoch") == epoch
    assert bed.host.read("switch", "stray_responses") == 0
    return figures, everywhere


def next_works(bed, seed):
    rng = np.random.default_rng(seed)
    where = Placement([0x40] * 3, [0x800] * 3, FLAGS)
    for format in ("fp16", "bf16"):
        outcome = bed.all_reduce(random_bits(rng, 3, 300), format, where=where)
        assert outcome.status == "ok", outcome


@pytest.mark.parametrize("response", READ)
@pytest.mark.parametrize("place", PLACES)
def test_a_read_error_on_any_beat(place, response):
    bed = variant()
    for bad_rank in range(TINY.ranks):
        source = BAD_READ[response] - PLACES[place] * TINY.flit_bytes
        sources = ranks_at(bad_rank, source, 0x40)
        rng = np.random.default_rng([PLACES[place], bad_rank])
        operation = Operation(
            random_bits(rng, 3, ELEMENTS), "fp16", Placement(sources, [0x1000] * 3, FLAGS)
        )
        figures, new = run_failing(bed, operation, READ[response], bad_rank)
        # Waves before the bad one are written, it and those behind it are not.
        bad_wave = PLACES[place] // TINY.wave_flits
        assert new == [wave < bad_wave for wave in range(len(new))]
        assert figures.waves == bad_wave
    next_works(bed, 1)


@pytest.mark.parametrize("response", WRITE)
@pytest.mark.parametrize("place", PLACES)
def test_a_write_error_on_any_packet(place, response):
    bed = variant()
    for bad_rank in range(TINY.ranks):
        destination = BAD_WRITE[response] - PLACES[place] * TINY.flit_bytes
        destinations = ranks_at(bad_rank, destination, 0x1000)
        rng = np.random.default_rng([PLACES[place], bad_rank])
        operation = Operation(
            random_bits(rng, 3, ELEMENTS), "bf16", Placement([0x40] * 3, destinations, FLAGS)
        )
        run_failing(bed, operation, WRITE[response], bad_rank)
    next_works(bed, 2)


@pytest.mark.parametrize("stalls", [{}, {"b": 200, "r": 150, "aw": 100, "w": 100, "ar": 100}])
def test_errors_at_every_rank_at_once(stalls):
    """The lowest rank is named; a bad flag address at one rank hides nothing."""
    bed = variant()
    for rank in range(3):
        bed.set_memory(rank, stalls=stalls, jitter=20 if stalls else 0, seed=rank)
    rng = np.random.default_rng(5)
    sources = [BAD_READ[Response.DECERR] - 8 * 40 * (rank % 2) for rank in range(3)]
    operation = Operation(
        random_bits(rng, 3, ELEMENTS), "fp16", Placement(sources, [0x1000] * 3, FLAGS)
    )
    run_failing(bed, operation, Status.READ_DECERR, 0)
    next_works(bed, 3)


def test_errors_in_place():
    bed = variant()
    address = BAD_READ[Response.SLVERR] - 8 * 50
    addresses = ranks_at(1, address, 0x40)
    rng = np.random.default_rng(6)
    operation = Operation(
        random_bits(rng, 3, ELEMENTS), "fp16", Placement(addresses, addresses, FLAGS)
    )
    for rank in range(3):
        bed.fill(rank, addresses[rank], operation.operands[rank])
    assert bed.host.post(operation.instruction)[0] is Status.OK
    epoch = bed.host.epoch
    bed.host.program(flags=FLAGS)
    assert bed.host.run(CYCLES)
    done = bed.host.figures().waves * TINY.wave_bytes
    assert done == TINY.wave_bytes
    for rank in range(3):
        expect(bed, rank, addresses[rank], operation.result.view("u1")[:done])
        expect(bed, rank, FLAGS[rank], flag_word(epoch, Status.READ_SLVERR, 1))
    assert not bed.differences()
    next_works(bed, 4)


def test_a_failed_operation_among_queued_ones_spoils_no_other():
    """Good, read error, good, write error; ranks arrive ahead, so they overlap."""
    bed = variant()
    rng = np.random.default_rng(8)
    places = [
        ([0x40] * 3, [0x1000] * 3, Status.OK, 0),
        ([0x440, 0x440, BAD_READ[Response.DECERR] - 8], [0x1400] * 3, Status.READ_DECERR, 2),
        ([0x840] * 3, [0x1800] * 3, Status.OK, 0),
        ([0xC40] * 3, [0x1C00, BAD_WRITE[Response.SLVERR], 0x1C00], Status.WRITE_SLVERR, 1),
    ]
    operations = []
    for sources, destinations, _, _ in places:
        operands = random_bits(rng, 3, 500)
        operations.append(Operation(operands, "fp16", Placement(sources, destinations, FLAGS)))
        for rank in range(3):
            bed.fill(rank, sources[rank], operands[rank])
    for operation in operations:
        assert bed.host.post(operation.instruction)[0] is Status.OK
    first = bed.host.epoch
    before = bed.host.read("switch", "operations")
    bed.host.program(flags=FLAGS, count=len(places))
    assert bed.host.run(CYCLES), bed.state()
    assert bed.host.read("switch", "operations") == before + len(places)
    for number, (operation, place) in enumerate(zip(operations, places, strict=True)):
        if place[2] is Status.OK:
            for rank in range(3):
                low = operation.where.destinations[rank]
                got = bed.engine.read(rank, low, operation.length)
                assert got == operation.result.tobytes(), f"operation {number} rank {rank}"
    for rank in range(3):
        got = int.from_bytes(bed.engine.read(rank, FLAGS[rank], 8), "little")
        assert got == flag_word(first + 3, Status.WRITE_SLVERR, 1)
        held = np.frombuffer(bed.engine.read(rank, 0, TINY.memory_bytes), np.uint8)
        bed.expected[rank][:] = held
    next_works(bed, 9)


def test_a_flag_whose_write_fails_is_counted_and_stops_nobody():
    bed = variant()
    rng = np.random.default_rng(10)
    flags = [FLAGS[0], BAD_WRITE[Response.SLVERR], FLAGS[2]]
    before = bed.host.read("switch", "flag_errors")
    outcome = bed.all_reduce(
        random_bits(rng, 3, 100), "fp16", where=Placement([0x40] * 3, [0x800] * 3, flags)
    )
    assert outcome.status == "ok", outcome
    bed.engine.step(200)
    assert bed.host.read("switch", "flag_errors") == before + 1
    next_works(bed, 11)


def test_a_length_that_a_wave_does_not_divide_fails_in_its_short_last_wave():
    bed = variant()
    elements = TINY.wave_bytes // ELEMENT_BYTES + 3
    sources = ranks_at(2, BAD_READ[Response.SLVERR] - TINY.wave_bytes, 0x40)
    rng = np.random.default_rng(12)
    operation = Operation(
        random_bits(rng, 3, elements), "fp16", Placement(sources, [0x1000] * 3, FLAGS)
    )
    _, new = run_failing(bed, operation, Status.READ_SLVERR, 2)
    assert new == [True, False]
    next_works(bed, 13)
