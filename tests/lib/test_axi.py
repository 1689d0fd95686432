"""The AXI4 model itself: legal traffic passes, and each broken rule is found."""

import random

import pytest

from tests.lib.axi import DECERR, MANAGER, OKAY, SUBORDINATE, AxiChecker, AxiMemory, AxiViolation

IDLE = dict.fromkeys(MANAGER + SUBORDINATE, 0)


def address(channel, start, beats, *, data_bytes=8, ready=1, burst=1, size=None):
    """A cycle with a burst's address."""
    return IDLE | {
        f"{channel}valid": 1,
        f"{channel}ready": ready,
        f"{channel}addr": start,
        f"{channel}len": beats - 1,
        f"{channel}burst": burst,
        f"{channel}size": (data_bytes.bit_length() - 1) if size is None else size,
    }


def data(last, ready=1, word=0):
    return IDLE | {"wvalid": 1, "wready": ready, "wlast": int(last), "wdata": word}


def check(*cycles, data_bytes=8):
    checker = AxiChecker(data_bytes=data_bytes)
    for cycle in cycles:
        checker.cycle(cycle)


@pytest.mark.parametrize("channel", ["aw", "ar"])
@pytest.mark.parametrize(
    ("start", "beats", "data_bytes"),
    [
        (3841, 64, 4),  # unaligned, and ends exactly at the page: counted from the aligned address
        (3840, 64, 4),
        (4096 - 8, 1, 8),
        (0, 256, 16),
        (4095, 1, 8),
        ((1 << 48) - 64, 1, 64),
    ],
)
def test_a_burst_that_ends_at_the_page_is_legal(channel, start, beats, data_bytes):
    check(address(channel, start, beats, data_bytes=data_bytes), data_bytes=data_bytes)


@pytest.mark.parametrize("channel", ["aw", "ar"])
@pytest.mark.parametrize(
    ("start", "beats", "data_bytes"),
    [(3844, 64, 4), (4096 - 8, 2, 8), (0x0FC0, 256, 8), (16, 256, 16), (4095, 2, 8)],
)
def test_a_burst_over_a_page_is_flagged(channel, start, beats, data_bytes):
    with pytest.raises(AxiViolation, match="cross a 4 KiB page"):
        check(address(channel, start, beats, data_bytes=data_bytes), data_bytes=data_bytes)


@pytest.mark.parametrize("channel", ["aw", "ar"])
def test_the_memory_flags_it_too(channel):
    memory = AxiMemory(8)
    memory.cycle(dict.fromkeys(MANAGER, 0))
    burst = address(channel, 4096 - 8, 2)
    with pytest.raises(AxiViolation, match="cross a 4 KiB page"):
        memory.cycle({name: burst[name] for name in MANAGER})


def test_wrong_burst_type_and_size_are_flagged():
    with pytest.raises(AxiViolation, match="arburst: must be INCR, not 2"):
        check(address("ar", 0, 1, burst=2))
    with pytest.raises(AxiViolation, match="awsize: must be 8 bytes"):
        check(address("aw", 0, 1, size=2))


@pytest.mark.parametrize("lasts", [[0, 0, 1], [1]])
@pytest.mark.parametrize("early", [False, True])
def test_wlast_in_the_wrong_place_is_flagged(lasts, early):
    """Of a burst of two beats, data behind its address or before it."""
    cycles = [address("aw", 0, 2), *[data(last) for last in lasts]]
    with pytest.raises(AxiViolation, match="wlast: wrong"):
        check(*(cycles[1:] + cycles[:1] if early else cycles))


def test_wlast_in_the_right_place_passes():
    check(address("aw", 0, 2), data(0), data(1), address("aw", 8, 1), data(1))
    check(data(0), data(1), data(1), address("aw", 0, 2), address("aw", 8, 1))


@pytest.mark.parametrize("channel", ["aw", "ar"])
def test_an_offer_must_stay(channel):
    with pytest.raises(AxiViolation, match=f"{channel}valid: fell"):
        check(address(channel, 0, 1, ready=0), IDLE)
    with pytest.raises(AxiViolation, match=f"{channel}: payload changed"):
        check(address(channel, 0, 1, ready=0), address(channel, 8, 1, ready=0))
    check(address(channel, 0, 1, ready=0), address(channel, 0, 1), address(channel, 8, 1))


def test_subordinate_offers_must_stay_too():
    with pytest.raises(AxiViolation, match="rvalid: fell"):
        check(IDLE | {"rvalid": 1}, IDLE)
    with pytest.raises(AxiViolation, match="b: payload changed"):
        check(IDLE | {"bvalid": 1}, IDLE | {"bvalid": 1, "bresp": 2})
    with pytest.raises(AxiViolation, match="w: payload changed"):
        check(data(0, ready=0), data(0, ready=0, word=1))


def drive(memory, cycles, bursts):
    """Read `bursts` of (id, address, beats) at once; beats of data as (id, data, response)."""
    got, waiting = [], list(bursts)
    idle = dict.fromkeys(MANAGER, 0) | {"rready": 1}
    for _ in range(cycles):
        manager = dict(idle)
        if waiting:
            id, start, beats = waiting[0]
            offer = address("ar", start, beats)
            manager |= {name: offer[name] for name in MANAGER if name.startswith("ar")}
            manager["arid"] = id
            if memory.drive["arready"]:
                waiting.pop(0)
        if memory.drive["rvalid"]:
            got.append(tuple(memory.drive[name] for name in ("rid", "rdata", "rresp", "rlast")))
        memory.cycle(manager)
    return got


def test_reads_of_two_ids_are_mixed_and_those_of_one_are_not():
    memory = AxiMemory(8, interleave=1, contents=lambda n: n)
    got = drive(memory, 60, [(0, 0, 8), (1, 64, 8), (0, 128, 8)])
    ids = [id for id, *_ in got]
    assert [word for id, word, *_ in got if id == 0] == [*range(8), *range(16, 24)]
    assert [word for id, word, *_ in got if id == 1] == list(range(8, 16))
    assert sum(a != b for a, b in zip(ids, ids[1:], strict=False)) > 3


def test_errors_stand_on_their_beat():
    memory = AxiMemory(8, read_error=lambda where, beat: DECERR if beat == 2 else OKAY)
    got = drive(memory, 20, [(0, 32, 4)])
    assert [(code, last) for _, _, code, last in got] == [
        (OKAY, False), (OKAY, False), (DECERR, False), (OKAY, True),
    ]  # fmt: skip


@pytest.mark.parametrize("latency", [1, 2, 9])
def test_the_first_beat_comes_after_the_latency(latency):
    memory = AxiMemory(8, read_latency=latency)
    idle = dict.fromkeys(MANAGER, 0) | {"rready": 1}
    memory.cycle(idle)
    offer = address("ar", 0, 1)
    memory.cycle(idle | {name: offer[name] for name in MANAGER if name.startswith("ar")})
    waited = 1
    while not memory.drive["rvalid"]:
        memory.cycle(idle)
        waited += 1
    assert waited == latency


def test_strobes_select_bytes():
    memory = AxiMemory(8, contents=lambda n: 0)
    draw = random.Random(0)
    expected = bytearray(8)
    for _ in range(20):
        word, strobe = draw.getrandbits(64), draw.getrandbits(8)
        memory._write(0, word, strobe)
        for i in range(8):
            if strobe >> i & 1:
                expected[i] = word >> 8 * i & 0xFF
    assert memory.read(0, 8) == expected


@pytest.mark.parametrize("channel", ["aw", "ar"])
def test_an_id_that_is_not_the_managers_is_flagged(channel):
    checker = AxiChecker(data_bytes=8, ids=(0, 2))
    for number in (0, 2):
        checker.cycle(address(channel, 0, 1) | {f"{channel}id": number})
    with pytest.raises(AxiViolation, match=f"{channel}id: must be one of 0, 2, not 1"):
        checker.cycle(address(channel, 0, 1) | {f"{channel}id": 1})
