"""Every figure that a run reports, against a trace of the same run."""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES

from .systems import TINY, random_bits, system
from .test_timing import disturb

RANKS = range(TINY.ranks)


def traced(bed, operands, format="fp16", **how):
    """Run with every trace port recorded; the outcome and the rows."""
    events = [name for name in bed.engine.ports if name.startswith(("trace__", "rank_trace__"))]
    flags = [f"storage__{rank}__write_enable" for rank in RANKS]
    values = [
        *events,
        *(f"storage__{rank}__{name}" for rank in RANKS
          for name in ("write_enable", "write_address", "write_data")),
    ]  # fmt: skip
    bed.engine.record([*events, *flags], values)
    outcome = bed.all_reduce(operands, format, **how)
    assert outcome.status == "ok", outcome
    return outcome, list(bed.engine.recording().rows())


def cycles(rows, *names):
    """Cycles in which any of the ports was not 0, in order."""
    return [cycle for cycle, row in rows if any(row[name] for name in names)]


def of_ranks(event):
    return [f"rank_trace__{rank}__{event}" for rank in RANKS]


def check(bed, outcome, rows):
    figures = outcome.figures
    requests, responses = cycles(rows, *of_ranks("request")), cycles(rows, *of_ranks("response"))
    assert bed.host.read("switch", "first_request") == requests[0]
    assert figures.data == responses[-1] - requests[0]
    # Waves in either phase: entries are taken with an issue and given back with a release.
    for what, more, fewer in (
        ("reading", ("trace__issue", "trace__issue_empty"), ("trace__release", None)),
        ("writing", ("trace__read_out", None), ("trace__retire", None)),
    ):
        count = largest = total = 0
        last = None
        for cycle, row in rows:
            if last is not None:
                total += count * (cycle - last)
            last = cycle
            assert row[f"trace__{what}"] == count, f"{what} in cycle {cycle}"
            largest = max(largest, count)
            begins = row[more[0]] and not (more[1] and row[more[1]])
            count += begins - row[fewer[0]]
        assert count == 0
        assert getattr(figures, f"{what}_max") == largest
        assert getattr(figures, f"{what}_mean") == pytest.approx(total / figures.data)
    # Flags reach memory: the last write of the flag's word at the last rank.
    place = bed.placement(outcome.bytes)
    epoch = bed.host.epoch - 1
    committed = []
    for rank in RANKS:
        port = f"storage__{rank}__"
        committed += [
            cycle for cycle, row in rows
            if row[port + "write_enable"] and row[port + "write_data"] == epoch
            and row[port + "write_address"] == place.flags[rank] // TINY.flit_bytes
        ]  # fmt: skip
    assert len(committed) == TINY.ranks
    stamps = [bed.host.read(f"rank{rank}", "flag_time") for rank in RANKS]
    assert max(stamps) == max(committed)
    arrived = max(bed.host.read(f"rank{rank}", "arrive_time") for rank in RANKS)
    assert figures.arrive_to_flag == max(committed) - arrived
    return cycles(rows, *of_ranks("arrival"))[-1] - arrived


@pytest.mark.parametrize("elements", [1, 128, 129, 500])
def test_figures_of_a_quiet_run(elements):
    bed = system()
    outcome, rows = traced(bed, random_bits(np.random.default_rng(elements), 3, elements))
    check(bed, outcome, rows)
    for rank in RANKS:
        sent = cycles(rows, f"rank_trace__{rank}__write")
        answered = cycles(rows, f"rank_trace__{rank}__response")
        packets = TINY.packets(elements * ELEMENT_BYTES)
        assert len(sent) == len(answered) == packets
        assert len(cycles(rows, f"rank_trace__{rank}__request")) == packets
        assert len(cycles(rows, f"rank_trace__{rank}__data")) == packets
        for once in ("arrival", "flag"):
            assert len(cycles(rows, f"rank_trace__{rank}__{once}")) == 1


def numbers(rows, event, number):
    """What goes with each of an event's strobes, in order."""
    return [row[number] for _, row in rows if row[event]]


@pytest.mark.parametrize("elements", [1, 129, 1400])
def test_each_event_names_its_entry_or_slot(elements):
    """Both are rings: a wave has the next of each, its packets and answers the same."""
    bed = system()
    _, rows = traced(bed, random_bits(np.random.default_rng(elements), 3, elements))
    length = elements * ELEMENT_BYTES
    waves = -(-length // TINY.wave_bytes)
    packets = TINY.wave_bytes // TINY.payload_bytes
    whole = [wave for wave in range(waves) for _ in range(packets)][: TINY.packets(length)]
    first = {"entry": None, "slot": None}
    for event, ring, size, of in (
        ("trace__issue", "entry", TINY.waves, range(waves)),
        ("trace__read_out", "entry", TINY.waves, range(waves)),
        ("trace__read_out", "slot", TINY.write_waves, range(waves)),
        *((f"rank_trace__{rank}__{name}", ring, size, whole)
          for rank in RANKS
          for name, ring, size in (
              ("request", "entry", TINY.waves), ("data", "entry", TINY.waves),
              ("write", "slot", TINY.write_waves), ("response", "slot", TINY.write_waves))),
    ):  # fmt: skip
        seen = numbers(rows, event, f"{event}_{ring}")
        first[ring] = seen[0] if first[ring] is None else first[ring]
        assert seen == [(first[ring] + wave) % size for wave in of], (event, ring)


@pytest.mark.parametrize("seed", range(4))
def test_figures_of_disturbed_runs(seed):
    print("seed", seed)
    bed = system()
    rng = np.random.default_rng(seed)
    delays = disturb(bed, rng)
    outcome, rows = traced(bed, random_bits(rng, 3, 300), delays=delays)
    check(bed, outcome, rows)


def test_an_arrival_takes_the_same_way_whatever_the_skew():
    """From its issue at the rank to the accelerator: the link's latency and a constant."""
    bed = system()
    constants = set()
    for latency in (2, 5, 17):
        for delays in ([0, 0, 0], [40, 0, 7]):
            bed.set_links(latency)
            operands = random_bits(np.random.default_rng(latency), 3, 20)
            outcome, rows = traced(bed, operands, delays=delays)
            constants.add(check(bed, outcome, rows) - latency)
    assert len(constants) == 1


def test_stalls_of_a_slow_rank_are_counted_at_that_rank():
    """Each count is of its own cause: barrier, entries, data, write-back room."""
    bed = system()
    operands = random_bits(np.random.default_rng(1), 3, 1000)
    quiet = bed.all_reduce(operands, "fp16").figures.stalls
    late = bed.all_reduce(operands, "fp16", delays=[0, 500, 0]).figures.stalls
    assert late["barrier"] == quiet["barrier"] + 500
    assert late["data"] == quiet["data"]

    bed.set_memory(1, latency=400)
    slow = bed.all_reduce(operands, "fp16").figures.stalls
    assert slow["data"][1] > slow["data"][0] + 300
    assert slow["data"][1] > slow["data"][2] + 300
    assert slow["entries"] > quiet["entries"]

    bed.set_memory(1, latency=TINY.memory_latency, stalls={"w": 240})
    congested = bed.all_reduce(operands, "fp16").figures.stalls
    assert congested["write_room"][1] > 100
    assert congested["write_room"][0] < congested["write_room"][1] / 10


def test_an_empty_operation_has_no_data_cycles():
    bed = system()
    outcome = bed.all_reduce(np.zeros((3, 0), np.uint16), "fp16")
    assert outcome.status == "ok"
    assert outcome.figures.data == 0
    assert outcome.figures.waves == 0
    assert outcome.figures.reading_max == 0
