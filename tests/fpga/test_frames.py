"""Frames: what is sent is what comes, and nothing else ever does."""

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpga.host.frames import (
    ESCAPE,
    FLAG,
    Access,
    Damage,
    Decoder,
    Frame,
    Identity,
    Opcode,
    SelfTestState,
    encode,
    frame_bytes,
    opcode_byte,
)

#: Bytes that mean something to the stuffing come often.
payloads = st.lists(
    st.one_of(st.integers(0, 255), st.sampled_from([FLAG, ESCAPE, 0x5E, 0x5D])), max_size=60
).map(bytes)
frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 255), payloads)
#: What stands between frames: no flag, since one would begin another frame.
noise = st.binary(max_size=20).map(lambda data: data.replace(bytes([FLAG]), b""))


@given(st.lists(frames, max_size=5))
def test_frames_come_as_they_were_sent(sent):
    stream = b"".join(map(encode, sent))
    assert list(Decoder().feed(stream)) == sent


@given(st.lists(frames, max_size=3), st.data())
def test_where_the_stream_is_cut_does_not_matter(sent, data):
    stream, decoder, came = b"".join(map(encode, sent)), Decoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        came += decoder.feed(stream[:size])
        stream = stream[size:]
    assert came == sent


@given(frames)
def test_flags_stand_at_the_ends_alone(frame):
    stream = encode(frame)
    assert stream[0] == stream[-1] == FLAG
    assert FLAG not in stream[1:-1]


@given(frames, noise, frames)
def test_noise_between_frames_is_no_frame(first, between, second):
    came = list(Decoder().feed(encode(first) + between + encode(second)))
    assert [event for event in came if isinstance(event, Frame)] == [first, second]
    assert len(came) == 2 + bool(between)


@given(frames, st.data())
def test_a_wrong_byte_is_noticed(frame, data):
    stream = bytearray(encode(frame))
    at = data.draw(st.integers(1, len(stream) - 2))
    stream[at] ^= data.draw(st.integers(1, 255))
    came = [event for event in Decoder().feed(bytes(stream)) if isinstance(event, Frame)]
    assert came == []


@given(frames, st.data())
def test_a_lost_byte_is_noticed(frame, data):
    stream = encode(frame)
    at = data.draw(st.integers(1, len(stream) - 2))
    came = Decoder().feed(stream[:at] + stream[at + 1 :])
    assert all(isinstance(event, Damage) for event in came)


def body(content: bytes) -> bytes:
    """A frame with a right check around `content`, which needs no stuffing."""
    whole = content + struct.pack("<I", zlib.crc32(content))
    assert not {FLAG, ESCAPE} & set(whole)
    return bytes([FLAG]) + whole + bytes([FLAG])


@pytest.mark.parametrize(
    ("stream", "damage"),
    [
        (b"~abcdefg~", Damage.SHORT),
        (body(b"\x11\x00\x00"), Damage.SHORT),
        (b"~abcdefgh~", Damage.CHECKSUM),
        (body(b"\x11\x00\x05\x00abcd"), Damage.LENGTH),
        (body(b"\x11\x00\x04\x01abcd"), Damage.LENGTH),
        (body(b"\x11\x00\x05\x00abcde")[:-1] + b"}~", Damage.ABORTED),
        (b"~}~", Damage.ABORTED),
        (body(b"\x11\x00\x09\x00abcdefghi"), Damage.LONG),
    ],
)
def test_every_damage_has_its_name(stream, damage):
    assert list(Decoder(payload_bytes=8).feed(stream)) == [damage]


def test_the_longest_frame_has_room():
    frame = Frame(0x11, 0, b"abcdefgh")
    assert list(Decoder(payload_bytes=8).feed(encode(frame))) == [frame]


def test_a_long_frame_leaves_nothing_behind():
    """However long: it takes no memory, and the next frame is whole."""
    frame = Frame(0x11, 3, b"xyz")
    came = Decoder(payload_bytes=8).feed(b"~" + bytes(100_000) + encode(frame))
    assert list(came) == [Damage.LONG, frame]


def test_empty_frames_are_none():
    assert list(Decoder().feed(b"~~~~")) == []


def test_the_format_on_the_line():
    """Byte by byte, so that codec and hardware cannot change together unnoticed."""
    frame = Frame(opcode_byte(Opcode.READ_WORDS), 0x7E, Access(0x4404, 3, fixed=True).pack())
    check = zlib.crc32(bytes.fromhex("127e0800044400000300 0001"))
    assert encode(frame)[:-1].startswith(bytes.fromhex("7e127d5e0800044400000300 0001"))
    decoded = next(Decoder().feed(encode(frame)))
    assert decoded == frame
    assert struct.pack("<I", check) in encode(frame)
    assert frame_bytes(0) == 8


def test_the_identity_packs_and_unpacks():
    draw = random.Random(0)
    identity = Identity(
        nonce=draw.getrandbits(32),
        burst_bytes=1024,
        ranks=16,
        flit_bytes=64,
        memory_bytes=1 << 40,
        config_digest=draw.getrandbits(32),
        version=(1, 2, 3),
        damaged_frames=7,
        framing_errors=65535,
        self_test=SelfTestState(built=True, busy=False, passed=False, failed=True, fault=3),
    )
    assert Identity.unpack(identity.pack()) == identity
    assert len(identity.pack()) == Identity.layout().size
