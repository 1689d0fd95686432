"""Answers as the bytes that go out."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.stream import Slice

from ..host.frames import CHECK_BYTES, ESCAPE, ESCAPE_XOR, FLAG, HEADER_BYTES, STATUS_BYTES

__all__ = ["AnswerLayout", "Enframer"]


class AnswerLayout(data.StructLayout):
    """An answer, without its data.

    Members
    -------
    head, sequence, status : see `fpga.host.frames`
    size : bytes of data behind the status
    """

    def __init__(self, data_bytes: int):
        super().__init__(
            {
                "head": unsigned(8),
                "sequence": unsigned(8),
                "status": unsigned(8),
                "size": unsigned(data_bytes.bit_length()),
            }
        )


class Kind(enum.Enum, shape=2):
    """Of a frame's byte."""

    FLAG = 0  # bare
    CHECKED = 1  # in the check sum
    UNCHECKED = 2  # the check sum itself


#: A byte of a frame as it is without stuffing.
PlainByte = data.StructLayout({"value": unsigned(8), "kind": Kind})


class Enframer(wiring.Component):
    """Sends frames whose data stands in its memory, and keeps it, so that it can be sent again.

    Parameters
    ----------
    data_bytes
        Room for data.

    Members
    -------
    answer : what to send; taken when its last flag is
    write, address, data : put a byte of data into the memory; not while an answer is being sent
    o : bytes

    Timing
    ------
    Two flags and a byte of the frame each cycle, one that must be escaped in two; one cycle more
    in front of the data, and two in front of the check sum.

    The memory's byte goes into a register (`Slice`), and from there through escapes and check sum.
    """

    def __init__(self, data_bytes: int):
        self._data_bytes = data_bytes
        super().__init__(
            {
                "answer": In(stream.Signature(AnswerLayout(data_bytes))),
                "write": In(1),
                "address": In(range(data_bytes)),
                "data": In(8),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = catalog.CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.plain = plain = Slice(PlainByte)
        self._gather(m, plain, check)
        self._stuff(m, plain.o, check)
        return m

    def _gather(self, m, plain, check):
        """The frame's bytes as they are without stuffing."""
        answer = self.answer.payload
        byte = plain.i.payload
        index = Signal(range(max(self._data_bytes, HEADER_BYTES + STATUS_BYTES, CHECK_BYTES)))
        last = Signal()  # of its part of the frame
        goes = Signal()
        m.d.comb += goes.eq(plain.i.valid & plain.i.ready)
        data_byte = self._memory(m, index, goes & ~last)
        length = Signal(16)
        m.d.comb += length.eq(answer.size + STATUS_BYTES)

        def flag(then):
            """A bare flag."""
            m.d.comb += [plain.i.valid.eq(1), byte.value.eq(FLAG), byte.kind.eq(Kind.FLAG)]
            with m.If(goes):
                m.next = then

        def part(value, size, then, kind=Kind.CHECKED):
            """`size` bytes; `value` is the one that `index` counts."""
            m.d.comb += [
                plain.i.valid.eq(1),
                byte.value.eq(value),
                byte.kind.eq(kind),
                last.eq(index == size - 1),
            ]
            with m.If(goes):
                m.d.sync += index.eq(Mux(last, 0, index + 1))
                with m.If(last):
                    m.next = then

        with m.FSM(name="enframer"):
            with m.State("OPEN"):
                with m.If(self.answer.valid):
                    flag("HEADER")
            with m.State("HEADER"):
                header = data.ArrayLayout(8, HEADER_BYTES + STATUS_BYTES)
                fields = Signal(header)
                m.d.comb += [
                    each.eq(value)
                    for each, value in zip(
                        fields,
                        (answer.head, answer.sequence, length[:8], length[8:], answer.status),
                        strict=True,
                    )
                ]
                part(fields[index], HEADER_BYTES + STATUS_BYTES, "HEADED")
            with m.State("HEADED"):  # whether there is data
                with m.If(answer.size == 0):
                    m.next = "SUM"
                with m.Else():
                    m.next = "DATA"
            with m.State("DATA"):
                part(data_byte, answer.size, "SUM")
            with m.State("SUM"):  # the check sum has all bytes once none is on its way
                with m.If(~plain.o.valid):
                    m.next = "CHECK"
            with m.State("CHECK"):
                part(check.crc.word_select(index[:2], 8), CHECK_BYTES, "CLOSE", Kind.UNCHECKED)
            with m.State("CLOSE"):
                flag("SENT")
            with m.State("SENT"):
                with m.If(~plain.o.valid):
                    m.d.comb += self.answer.ready.eq(1)
                    m.next = "OPEN"

    def _stuff(self, m, plain, check):
        """Bytes to the line, escaped where they must be, and to the check sum."""
        byte, kind = plain.payload.value, plain.payload.kind
        escaping = Signal()  # the escape of this byte is out
        special = (kind != Kind.FLAG) & ((byte == FLAG) | (byte == ESCAPE))
        m.d.comb += [
            self.o.valid.eq(plain.valid),
            self.o.payload.eq(Mux(escaping, byte ^ ESCAPE_XOR, Mux(special, ESCAPE, byte))),
            plain.ready.eq(self.o.ready & (escaping | ~special)),
            check.start.eq(plain.valid & (kind == Kind.FLAG)),
            check.data.eq(byte),
            check.valid.eq(plain.valid & plain.ready & (kind == Kind.CHECKED)),
        ]
        with m.If(plain.valid & self.o.ready):
            m.d.sync += escaping.eq(special & ~escaping)

    def _memory(self, m, index, advance):
        """The byte of data that `index` counts; `advance` says that the next one will follow."""
        # A power of two, so that every address is one of the memory's.
        depth = 1 << (self._data_bytes - 1).bit_length()
        m.submodules.memory = memory = Memory(shape=8, depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.address),
            write.data.eq(self.data),
            read.en.eq(1),
            read.addr.eq(Mux(advance, index + 1, index)),
        ]
        return read.data
