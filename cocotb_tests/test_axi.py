"""The AXI4 memory and its checker themselves: what is legal passes, what is not is flagged."""

import random

import numpy as np
import pytest

from cocotb_tests.lib.axi import AxiChecker, AxiMemory, AxiViolation
from cocotb_tests.lib.packets import DECERR, OKAY, SLVERR

SIZE = 8
PAGE = 4096
INCR = 1


def checker() -> AxiChecker:
    return AxiChecker(data_bytes=SIZE, address_bits=32)


def address(first: int, beats: int, *, id=0, size=3, burst=INCR) -> tuple[int, ...]:
    return id, first, beats - 1, size, burst


@pytest.mark.parametrize("channel", ["aw", "ar"])
@pytest.mark.parametrize(
    ("first", "beats"),
    [
        (0, 1),
        (0, 256),  # the longest
        (PAGE - SIZE, 1),  # ends exactly at the boundary
        (PAGE - 16 * SIZE, 16),
        (PAGE - SIZE + 3, 1),  # unaligned: covers less of its one beat
        (PAGE, 2),  # begins at it
        ((1 << 32) - SIZE, 1),  # ends at the last address
    ],
)
def test_legal_bursts_pass(channel, first, beats):
    assert checker().address(channel, address(first, beats)).beats == beats


@pytest.mark.parametrize("channel", ["aw", "ar"])
@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        (address(PAGE - SIZE, 2), "cross 4 KiB"),
        (address(PAGE - 16 * SIZE, 17), "cross 4 KiB"),
        (address(PAGE - SIZE + 3, 2), "cross 4 KiB"),
        (address(3 * PAGE - SIZE, 256), "cross 4 KiB"),
        (address(0, 1, size=2), "size"),
        (address(0, 1, burst=0), "INCR"),
        (address(0, 1, burst=2), "INCR"),
        (address((1 << 32) + 0, 1), "last address"),
        (address(0, 1, id=1), "id: must be one of 0, not 1"),
    ],
)
def test_illegal_bursts_are_flagged(channel, payload, rule):
    with pytest.raises(AxiViolation, match=rule):
        checker().address(channel, payload)


def test_ids_are_those_that_the_manager_promises():
    watched = AxiChecker(data_bytes=SIZE, address_bits=32, ids={0, 2})
    assert [watched.address("ar", address(0, 1, id=id)).id for id in (2, 0, 2)] == [2, 0, 2]
    with pytest.raises(AxiViolation, match="arid: must be one of 0, 2, not 1"):
        watched.address("ar", address(0, 1, id=1))


def test_valid_and_payload_stay_until_ready():
    held = checker()
    held.stable("aw", True, False, (1,))
    held.stable("aw", True, False, (1,))
    held.stable("aw", True, True, (1,))
    held.stable("aw", True, False, (2,))
    with pytest.raises(AxiViolation, match="changed"):
        held.stable("aw", True, True, (3,))
    fell = checker()
    fell.stable("w", True, False, (1,))
    with pytest.raises(AxiViolation, match="fell"):
        fell.stable("w", False, False, ())


@pytest.mark.parametrize("early", [True, False])
def test_last_beat(early):
    """WLAST at the last beat of each burst; data may come before its address."""
    watched = checker()
    if not early:
        watched.address("aw", address(0, 2))
    watched.data(0xFF, 0)
    watched.data(0xFF, 1)
    if early:
        watched.address("aw", address(0, 2))
    assert watched.left() == ""
    watched.address("aw", address(0, 2))
    with pytest.raises(AxiViolation, match="wlast"):
        watched.data(0xFF, 1)
    missing = checker()
    missing.address("aw", address(0, 1))
    with pytest.raises(AxiViolation, match="wlast"):
        missing.data(0xFF, 0)


def test_strobes_before_an_unaligned_address_are_flagged():
    watched = checker()
    watched.address("aw", address(3, 1))
    watched.data(0xF8, 1)
    watched.address("aw", address(3, 1))
    with pytest.raises(AxiViolation, match="wstrb"):
        watched.data(0xFC, 1)


class Wires:
    """Signals by name, as a bench's ports have them."""

    def __init__(self):
        self.values: dict[str, int] = {}

    def get(self, name: str) -> int:
        return self.values.get(name, 0)

    def set(self, name: str, value: int):
        self.values[name] = int(value)

    def drive(self, **values: int):
        for name, value in values.items():
            self.set(f"axi__{name}", value)


class Reader:
    """Reads of several IDs at a memory; keeps the beats as they come."""

    def __init__(self, **options):
        self.wires = Wires()
        self.data = np.arange(PAGE, dtype=np.uint8)
        self.memory = AxiMemory(
            self.wires, "axi", self.data, random.Random(1), SIZE, address_bits=32, ids=range(3)
        )
        for name, value in options.items():
            setattr(self.memory, name, value)
        self.beats: list[tuple[int, int, int, int]] = []  # id, data, response, last
        self.wires.drive(rready=1, bready=1, arsize=3, awsize=3, arburst=1, awburst=1)

    def run(self, requests, cycles=400):
        """Each request is (id, address, beats)."""
        waiting = list(requests)
        for _ in range(cycles):
            get = self.wires.get
            if get("axi__arvalid") and get("axi__arready"):
                waiting.pop(0)
            if get("axi__rvalid"):
                self.beats.append(tuple(get(f"axi__r{n}") for n in ("id", "data", "resp", "last")))
            before = dict(self.wires.values)
            self.memory.cycle()
            assert before["axi__rready"]
            self.wires.drive(arvalid=bool(waiting))
            if waiting:
                id, first, beats = waiting[0]
                self.wires.drive(arid=id, araddr=first, arlen=beats - 1)
        assert not waiting
        assert self.memory.left() == ""


def _ids(reader):
    return [beat[0] for beat in reader.beats]


REQUESTS = [(n % 3, 64 * n, 4) for n in range(12)]


def test_reads_in_order():
    reader = Reader(read_latency=3)
    reader.run(REQUESTS)
    assert _ids(reader) == [id for id, _, beats in REQUESTS for _ in range(beats)]
    words = [int.from_bytes(reader.data[a + 8 * n :][:8].tobytes(), "little")
             for _, a, beats in REQUESTS for n in range(beats)]  # fmt: skip
    assert [beat[1] for beat in reader.beats] == words


def test_reads_out_of_order_and_interleaved():
    """IDs change places, and with interleaving inside bursts; each ID's beats stay in order."""
    whole = Reader(read_latency=20, out_of_order=True)
    whole.run(REQUESTS)
    assert _ids(whole) != [id for id, _, beats in REQUESTS for _ in range(beats)]
    ends = [n for n, beat in enumerate(whole.beats) if beat[3]]
    assert [n % 4 for n in ends] == [3] * len(ends)  # bursts are whole
    mixed = Reader(read_latency=20, out_of_order=True, interleaved=True)
    mixed.run(REQUESTS)
    assert [n % 4 for n, beat in enumerate(mixed.beats) if beat[3]] != [3] * len(ends)
    for reader in (whole, mixed):
        for id in range(3):
            words = [int.from_bytes(reader.data[a + 8 * n :][:8].tobytes(), "little")
                     for i, a, beats in REQUESTS if i == id for n in range(beats)]  # fmt: skip
            assert [beat[1] for beat in reader.beats if beat[0] == id] == words


def test_errors_on_a_chosen_beat_and_beyond_the_memory():
    reader = Reader(read_error=lambda burst, beat: SLVERR if beat == 2 else OKAY)
    reader.run([(0, 0, 4), (0, PAGE - 8, 1), (0, PAGE, 1)])
    assert [beat[2] for beat in reader.beats] == [OKAY, OKAY, SLVERR, OKAY, OKAY, DECERR]


def test_reads_shut_out_writes():
    """Of a single-ported memory: no write beat is taken while a read waits."""
    reader = Reader(read_latency=10, single_ported=True)
    wires, seen = reader.wires, []
    wires.drive(awvalid=0, wvalid=0)
    for cycle in range(40):
        seen.append((bool(reader.memory._readings), wires.get("axi__wready")))
        reader.memory.cycle()
        wires.drive(arvalid=cycle == 5, arid=0, araddr=0, arlen=3)
    assert any(ready for _, ready in seen)
    assert all(not ready for reading, ready in seen if reading)


def test_what_happened_is_counted():
    """Write beats that wait for reads, those that go beside them, and offers that wait."""
    for single_ported in (True, False):
        reader = Reader(read_latency=10, single_ported=single_ported)
        wires, memory = reader.wires, reader.memory
        for cycle in range(40):
            taken = wires.get("axi__wvalid") and wires.get("axi__wready")
            memory.cycle()
            wires.drive(arvalid=cycle == 2, arid=0, araddr=0, arlen=0)
            wires.drive(wvalid=cycle >= 5 and not taken and memory.beside == 0, wlast=1)
            wires.drive(awvalid=cycle == 20, awid=0, awaddr=0, awlen=0)
            if memory.shut_out and not memory._readings:
                break
        assert (memory.shut_out > 0, memory.beside > 0) == (single_ported, not single_ported)
        assert (memory.held > 0, memory.deep) == (single_ported, 1)
        memory.forget()
        assert memory.held == memory.shut_out == memory.beside == memory.deep == 0


def test_a_wrong_last_beat():
    reader = Reader(last_beat=lambda last: not last)
    reader.run([(0, 0, 3)])
    assert [beat[3] for beat in reader.beats] == [1, 1, 0]
