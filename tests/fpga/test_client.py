"""The client against a port that is a script: what it sends, takes, retries, and says."""

import struct
import time

import pytest

from fpga.host import client as client_module
from fpga.host.client import Client
from fpga.host.errors import (
    BoardError,
    BusError,
    BusyError,
    NoAnswer,
    RefusedError,
    SessionLost,
)
from fpga.host.frames import (
    Access,
    Decoder,
    Frame,
    Identity,
    Opcode,
    SelfTestState,
    Status,
    encode,
    opcode_byte,
)

NONCE = 0x0BADCAFE
STATE = SelfTestState(built=True, busy=False, passed=True, failed=False, fault=0)
IDENTITY = Identity(NONCE, 16, 3, 8, 1024, 0x12345678, (0, 1, 0), 0, 0, STATE)
CORRUPT = encode(Frame(opcode_byte(Opcode.NONE, answer=True), 0, bytes([Status.CORRUPT])))


def answer(request: Frame, data: bytes = b"", status: Status = Status.OK) -> bytes:
    return encode(Frame(request.head | 0x80, request.sequence, bytes([status]) + data))


class Script:
    """A port: each frame that is written meets the next of `answers`, bytes or a function of it.

    Where there is none left, a request is answered as a sound board would.
    """

    def __init__(self, *answers):
        self.timeout = None
        self.closed = False
        self.requests: list[Frame] = []
        self._answers = list(answers)
        self._came = b""
        self._decoder = Decoder()

    def write(self, data):
        for request in self._decoder.feed(data):
            self.requests.append(request)
            reply = self._answers.pop(0) if self._answers else self.sound
            self._came += reply(request) if callable(reply) else reply

    def sound(self, request: Frame) -> bytes:
        opcode = Opcode(request.head & 0xF)
        if opcode is Opcode.IDENTIFY:
            return answer(request, IDENTITY.pack())
        if opcode is Opcode.READ_WORDS:
            access = Access.unpack(request.payload)
            step = 0 if access.fixed else 4
            words = (access.address + index * step for index in range(access.size))
            return answer(request, b"".join(struct.pack("<I", word) for word in words))
        if opcode is Opcode.READ_MEMORY:
            access = Access.unpack(request.payload)
            return answer(request, bytes((access.address + i) % 256 for i in range(access.size)))
        return answer(request)

    def read(self, size):
        data, self._came = self._came[:size], self._came[size:]
        return data

    def close(self):
        self.closed = True


def opened(*answers, **options) -> tuple[Client, Script]:
    """A client that has identified, and its port, whose next answers are `answers`."""
    port = Script()
    client = Client(port, nonce=NONCE, **options)
    assert client.identify() == IDENTITY
    port.requests.clear()
    port._answers = list(answers)
    return client, port


def test_the_timeout_is_the_ports():
    port = Script()
    Client(port, timeout=0.125)
    assert port.timeout == 0.125


def test_requests_have_numbers_one_after_the_other():
    client, port = opened()
    for _ in range(300):
        client.read_words(0)
    numbers = [request.sequence for request in port.requests]
    assert all((after - before) % 256 == 1 for before, after in zip(numbers, numbers[1:]))  # noqa: B905


def test_words_are_cut_into_bursts():
    client, port = opened()
    assert client.read_words(0x400, 10) == list(range(0x400, 0x428, 4))
    assert client.read_words(0x404, 5, increment=False) == [0x404] * 5
    client.write_words(0x500, range(6))
    accesses = [Access.unpack(request.payload) for request in port.requests]
    assert [(access.address, access.size, access.fixed) for access in accesses] == [
        (0x400, 4, False), (0x410, 4, False), (0x420, 2, False),
        (0x404, 4, True), (0x404, 1, True),
        (0x500, 4, False), (0x510, 2, False),
    ]  # fmt: skip
    written = b"".join(request.payload[8:] for request in port.requests[-2:])
    assert written == struct.pack("<6I", *range(6))


def test_memory_is_cut_into_bursts():
    client, port = opened()
    assert client.read_memory(2, 7, 40) == bytes(range(7, 47))
    client.write_memory(1, 3, bytes(range(33)))
    accesses = [Access.unpack(request.payload) for request in port.requests]
    assert [(access.rank, access.address, access.size) for access in accesses] == [
        (2, 7, 16), (2, 23, 16), (2, 39, 8), (1, 3, 16), (1, 19, 16), (1, 35, 1),
    ]  # fmt: skip
    assert b"".join(request.payload[8:] for request in port.requests) == bytes(range(33))


def test_nothing_asked_is_nothing_sent():
    client, port = opened()
    assert client.read_memory(0, 0, 0) == b""
    client.write_words(0, [])
    assert port.requests == []


def test_a_session_is_opened_by_itself():
    port = Script()
    Client(port, nonce=NONCE).read_words(0)
    assert [request.head & 0xF for request in port.requests] == [1, 2]


@pytest.mark.parametrize(
    ("trouble", "counted"),
    [
        (b"", "timeouts"),
        (CORRUPT, "refused"),
        (lambda request: answer(request)[:-3] + b"~", "damaged"),
        (lambda request: answer(Frame(request.head, request.sequence - 1)), "stale"),
        (lambda request: answer(Frame(request.head ^ 1, request.sequence)), "stale"),
        (lambda request: encode(Frame(request.head | 0x80, request.sequence)), "stale"),
    ],
    ids=["silence", "refused", "damaged", "another number", "another request", "no status"],
)
def test_a_request_is_sent_again_as_it_was(trouble, counted):
    client, port = opened(trouble, trouble)
    client.write_words(0x400, [5])
    first, second, third = port.requests
    assert first == second == third
    assert getattr(client.statistics, counted) == 2
    assert client.statistics.retries == 2


def test_an_answer_between_others_is_found():
    def crowd(request):
        other = Frame(request.head, request.sequence - 1)
        return b"noise" + answer(other) + answer(request, b"\x07\0\0\0") + answer(other) + b"~xx"

    client, port = opened(crowd)
    assert client.read_words(0) == [7]
    assert len(port.requests) == 1
    assert client.read_words(8) == [8]  # what came behind the answer does no harm


def test_an_answer_to_another_session_opens_none():
    """Of a tool that was here before: the same number, another nonce."""
    other = Identity(NONCE + 1, *list(vars(IDENTITY).values())[1:])
    port = Script(lambda request: answer(request, other.pack()))
    client = Client(port, nonce=NONCE)
    assert client.identify() == IDENTITY
    assert client.statistics.stale == 1


def test_silence_is_told_after_all_retries():
    client, port = opened(*[b""] * 4, retries=3)
    rule = r"^board: no answer to read words, asked 4 times with 0.25 s each$"
    with pytest.raises(NoAnswer, match=rule):
        client.read_words(0)
    assert len(port.requests) == 4


class Disturbed(Script):
    """A line on which nothing arrives whole for some seconds."""

    def __init__(self, seconds: float):
        super().__init__()
        self._end = time.monotonic() + seconds

    def sound(self, request):
        return CORRUPT if time.monotonic() < self._end else super().sound(request)


def test_a_disturbance_is_outlasted():
    """By what the tool does unless told: what counts is all attempts' time, not their number."""
    client = Client(Disturbed(0.5), nonce=NONCE)
    assert client.identify() == IDENTITY
    statistics = client.statistics
    assert statistics.refused == statistics.retries > 8
    assert statistics.timeouts == 0


def test_a_disturbance_without_end_is_told():
    port = Disturbed(60)
    client = Client(port, timeout=0.02, retries=3, nonce=NONCE)
    began = time.monotonic()
    rule = r"^board: no answer to identify, asked \d+ times with 0.02 s each, \d+ times told that"
    with pytest.raises(NoAnswer, match=rule):
        client.identify()
    assert time.monotonic() - began >= 4 * 0.02
    assert len(port.requests) > 4
    port = Disturbed(60)
    with pytest.raises(NoAnswer, match="asked 1 times"):
        Client(port, retries=0, nonce=NONCE).identify()
    assert len(port.requests) == 1


def test_an_address_that_is_not_there_is_told():
    client, _port = opened(lambda request: answer(request, b"\4\3\2\1", Status.BUS_ERROR))
    with pytest.raises(BusError, match="^read words: nothing is at address 0x1020304$") as caught:
        client.read_words(0x1020300, 2)
    assert caught.value.address == 0x01020304
    client, _port = opened(lambda request: answer(request, b"\0\4\0\0", Status.BUS_ERROR))
    with pytest.raises(BusError, match="^write memory: nothing is at address 0x400 of rank 2$"):
        client.write_memory(2, 0x3F0, bytes(16))


@pytest.mark.parametrize(
    "access",
    [
        lambda client: client.read_words(-4),
        lambda client: client.read_memory(0, (1 << 32) - 1, 2),
        lambda client: client.write_memory(0, 1 << 32, b"x"),
        lambda client: client.read_memory(256, 0, 1),
        lambda client: client.read_memory(-1, 0, 1),
    ],
)
def test_an_address_that_no_frame_can_hold_is_not_sent(access):
    client, port = opened()
    with pytest.raises(BusError, match="nothing is at address"):
        access(client)
    assert port.requests == []


@pytest.mark.parametrize("status", [Status.NO_SESSION, Status.OUT_OF_SEQUENCE])
def test_a_lost_session_is_told(status):
    client, _port = opened(lambda request: answer(request, status=status))
    with pytest.raises(SessionLost, match="^reset: the session is over"):
        client.reset()


@pytest.mark.parametrize("status", [Status.BAD_OPCODE, Status.BAD_LENGTH, 99])
def test_another_bridge_is_told(status):
    client, _port = opened(lambda request: answer(request, status=status))
    with pytest.raises(RefusedError, match=f"^self test: refused with status {int(status)};"):
        client.start_self_test()


def test_an_answer_of_the_wrong_size_is_another_bridge():
    client, _port = opened(lambda request: answer(request, b"abc"))
    with pytest.raises(RefusedError, match="read words: answered with 3 bytes, not 4"):
        client.read_words(0)
    client, _port = opened(lambda request: answer(request, IDENTITY.pack() + b"more"))
    with pytest.raises(RefusedError, match="identify: answered with 33 bytes"):
        client.identify()


def test_a_busy_board_is_asked_again(monkeypatch):
    monkeypatch.setattr(client_module, "BUSY_PAUSE", 0)

    def busy(request):
        return answer(request, status=Status.BUSY)

    client, port = opened(busy, busy)
    assert client.read_words(0x10) == [0x10]
    assert client.statistics.busy == 2
    assert len({request.sequence for request in port.requests}) == 3
    monkeypatch.setattr(client_module, "BUSY_SECONDS", -1)
    client, port = opened(busy)
    with pytest.raises(BusyError, match="the board's self-test does not end"):
        client.read_words(0)


@pytest.mark.parametrize("method", ["write", "read"])
def test_a_line_that_breaks_is_one_line(method):
    client, port = opened()

    def broken(*_):
        raise OSError(5, "Input/output error")

    setattr(port, method, broken)
    with pytest.raises(BoardError, match="^port: cannot be (written|read): .*Input/output error"):
        client.read_words(0)


def test_the_port_is_closed():
    client, port = opened()
    with client:
        pass
    assert port.closed


class Waiting(Script):
    """A port that waits for as many bytes as it is asked for, as pyserial's does."""

    in_waiting = property(lambda self: len(self._came))

    def read(self, size):
        assert size <= max(1, len(self._came)), "this would wait until the time-out"
        return super().read(size)


def test_a_serial_port_is_asked_for_what_has_come():
    client = Client(Waiting(), nonce=NONCE)
    assert client.identify() == IDENTITY
    assert client.read_words(0, 3) == [0, 4, 8]
