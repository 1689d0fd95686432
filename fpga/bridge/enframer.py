"""Answers as the bytes that go out."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

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
    Two flags and a byte of the frame each cycle, one that must be escaped in two.
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
        answer, o = self.answer.payload, self.o
        m.submodules.check = check = catalog.CRC32_ISO_HDLC(data_width=8).create()
        index = Signal(range(max(self._data_bytes, HEADER_BYTES + STATUS_BYTES, CHECK_BYTES)))
        byte = Signal(8)  # at hand, as it is without stuffing
        last = Signal()  # of its part of the frame
        sent = Signal()  # the byte goes with this cycle, its escape went before
        escaping = Signal()
        data_byte = self._memory(m, index, sent & ~last)
        length = Signal(16)
        m.d.comb += length.eq(answer.size + STATUS_BYTES)
        special = (byte == FLAG) | (byte == ESCAPE)

        def flag(then):
            """A bare flag."""
            m.d.comb += o.payload.eq(FLAG)
            with m.If(o.ready):
                m.next = then

        def part(value, size, then):
            """`size` bytes; `value` is the one that `index` counts."""
            m.d.comb += [
                byte.eq(value),
                last.eq(index == size - 1),
                o.payload.eq(
                    Mux(escaping, byte ^ ESCAPE_XOR, Mux(special, ESCAPE, byte)),
                ),
                sent.eq(o.ready & (escaping | ~special)),
            ]
            with m.If(o.ready):
                m.d.sync += escaping.eq(special & ~escaping)
            with m.If(sent):
                m.d.sync += index.eq(Mux(last, 0, index + 1))
                with m.If(last):
                    m.next = then

        m.d.comb += [check.data.eq(byte), o.valid.eq(self.answer.valid)]
        with m.FSM(name="enframer"):
            with m.State("OPEN"):
                m.d.comb += check.start.eq(1)
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
                m.d.comb += check.valid.eq(sent)
            with m.State("HEADED"):  # whether there is data
                m.d.comb += o.valid.eq(0)
                with m.If(answer.size == 0):
                    m.next = "CHECK"
                with m.Else():
                    m.next = "DATA"
            with m.State("DATA"):
                part(data_byte, answer.size, "CHECK")
                m.d.comb += check.valid.eq(sent)
            with m.State("CHECK"):
                part(check.crc.word_select(index[:2], 8), CHECK_BYTES, "CLOSE")
            with m.State("CLOSE"):
                flag("OPEN")
                m.d.comb += self.answer.ready.eq(o.ready)
        return m

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
