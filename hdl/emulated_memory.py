"""A rank's memory as its endpoint meets it: AXI4, with latency, jitter and refused beats."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .config import SwitchConfig
from .due_queue import DueQueue
from .interfaces import Axi4Signature, Response, StorageSignature
from .stream import Queue

__all__ = ["EmulatedMemory", "Jitter", "RandomBits"]

#: Bits of time stamps. Below half of their range, and so told apart from each other, stay the
#: longest latency with jitter (2^15 + 2^10 cycles), and how long a burst that is due may wait
#: behind others (2^19: seven of 256 beats, each stalled with probability 255/256).
DUE_BITS = 20
#: The same where a channel may stand still for as long as a host likes.
LONG_DUE_BITS = 32
#: Burst addresses that the memory holds, beyond those that the endpoint may have outstanding.
SPARE_BURSTS = 4
#: Channels that can refuse beats, in the order of their bytes in the ``stalls`` registers.
STALL_CHANNELS = ("ar", "r", "aw", "w", "b")


class RandomBits(wiring.Component):
    """64 pseudo-random bits a cycle (Marsaglia's xorshift, shifts 13, 7, 17).

    Members
    -------
    seed : starting value, taken while ``load`` is set; the upper half of the state is fixed, so
        every seed, 0 too, gives a full period
    """

    def __init__(self):
        super().__init__({"seed": In(32), "load": In(1), "bits": Out(64)})

    def elaborate(self, platform):
        m = Module()
        upper = 0x9E3779B9  # any odd constant: keeps the state from being zero
        state = Signal(64, init=upper << 32)
        first = Signal(64)
        second = Signal(64)
        third = Signal(64)
        m.d.comb += [
            first.eq(state ^ (state << 13)),
            second.eq(first ^ (first >> 7)),
            third.eq(second ^ (second << 17)),
            self.bits.eq(state),
        ]
        m.d.sync += state.eq(Mux(self.load, Cat(self.seed, Const(upper, 32)), third))
        return m


class Jitter(wiring.Component):
    """A number of 0..``jitter`` at random, a new one each cycle.

    Members
    -------
    jitter : the largest
    random : 16 random bits, fresh each cycle
    extra : the number, one cycle behind ``random``
    """

    def __init__(self):
        super().__init__({"jitter": In(10), "random": In(16), "extra": Out(10)})

    def elaborate(self, platform):
        m = Module()
        product = Signal(27)
        m.d.comb += product.eq(self.random * (self.jitter + 1))
        m.d.sync += self.extra.eq(product >> 16)
        return m


class EmulatedMemory(wiring.Component):
    """AXI4 subordinate over a storage array.

    Members
    -------
    axi : the bus (`Axi4Signature`, subordinate)
    storage : the array
    latency : cycles from a read address taken to its first beat, at least 2
    write_latency : cycles from the last write beat taken to its response, at least 1
    jitter : up to so many cycles more, drawn for each burst
    stalls : five thresholds of 8 bits, for ar, r, aw, w and b: a beat is refused or held back in a
        cycle with probability threshold / 256
    seed, reseed : start the pseudo-random sequence
    hold : where ranks can fail: channels that stand still
    bad_read, read_error, bad_write, write_error : likewise: reads of this flit (a byte address) end
        with this response on its beat, writes on that of their burst; 0 is none
    read_first : where the core forwards: no write beat is taken while a read waits, as in a memory
        with one port that prefers reads

    Throughput
    ----------
    One read and one write beat a cycle, and a burst address a cycle each way, where not stalled.

    Ordering
    --------
    Each direction answers in order of its addresses. A write is in the array one cycle after its
    beat was taken.

    Errors
    ------
    A burst that leaves ``memory_bytes`` is answered with DECERR on every beat and touches nothing.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._due_bits = LONG_DUE_BITS if config.recovers else DUE_BITS
        axi = Axi4Signature(address_bits=config.address_bits, data_bytes=config.flit_bytes)
        super().__init__(
            {
                "axi": In(axi),
                "storage": Out(StorageSignature(config)),
                "latency": In(15),
                "write_latency": In(15),
                "jitter": In(10),
                "stalls": In(8 * len(STALL_CHANNELS)),
                "seed": In(32),
                "reseed": In(1),
            }
            | ({"read_first": In(1)} if config.forwards else {})
            | (self._faults() if config.recovers else {})
        )

    def _faults(self):
        flit = In(self._config.address_bits)
        return {
            "hold": In(len(STALL_CHANNELS)),
            "bad_read": flit,
            "read_error": In(Response),
            "bad_write": flit,
            "write_error": In(Response),
        }

    def elaborate(self, platform):
        m = Module()
        m.submodules.random = random = RandomBits()
        m.submodules.read_jitter = read_jitter = Jitter()
        m.submodules.write_jitter = write_jitter = Jitter()
        now = Signal(self._due_bits)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [
            random.seed.eq(self.seed),
            random.load.eq(self.reseed),
            read_jitter.jitter.eq(self.jitter),
            read_jitter.random.eq(random.bits[40:56]),
            write_jitter.jitter.eq(self.jitter),
            write_jitter.random.eq(random.bits[48:64]),
        ]
        stalled = {}
        for index, channel in enumerate(STALL_CHANNELS):
            byte = slice(8 * index, 8 * index + 8)
            stalled[channel] = Signal(name=f"stalled_{channel}")
            stands = self.hold[index] if self._config.recovers else 0
            m.d.sync += stalled[channel].eq((random.bits[byte] < self.stalls[byte]) | stands)
        self._read(m, now, read_jitter.extra, stalled)
        self._write(m, now, write_jitter.extra, stalled)
        return m

    def _error(self, kind, flit):
        """The response that reads or writes of a flit are told to have; None where none can be."""
        if not self._config.recovers:
            return None
        bad = getattr(self, f"bad_{kind}")[self._config.flit_address_bits :]
        return Mux(flit == bad, getattr(self, f"{kind}_error"), Response.OKAY)

    @staticmethod
    def _response(outside, error):
        inside = Response.OKAY if error is None else error
        return Mux(outside, Response.DECERR, inside)

    def _keep_error(self, m, error, take, flit):
        """Of the beats of a burst, the worst."""
        earlier, now = Signal(2), Signal(2)
        bad = self._error("write", flit)
        m.d.comb += [now.eq(Mux(bad > earlier, bad, earlier)), error.eq(now)]
        with m.If(take):
            m.d.sync += earlier.eq(Mux(self.axi.wlast, 0, now))

    def _burst_layout(self):
        return data.StructLayout(
            {
                "id": self.axi.arid.shape(),
                "flit": self.storage.read_address.shape(),
                "length": unsigned(8),
                "outside": unsigned(1),
            }
        )

    def _outside(self, address, length):
        """Whether a burst leaves the memory."""
        flit = address[self._config.flit_address_bits :]
        inside = len(self.storage.read_address)
        return flit[inside:].any() | (flit[:inside] + length >= self._config.memory_flits)

    def _read(self, m, now, jitter, stalled):
        axi = self.axi
        m.submodules.read_bursts = bursts = DueQueue(
            self._burst_layout(),
            depth=2 * self._config.endpoint_reads + SPARE_BURSTS,
            time_bits=self._due_bits,
        )
        taken = bursts.i.payload.item
        m.d.comb += [
            bursts.now.eq(now),
            axi.arready.eq(bursts.i.ready & ~stalled["ar"]),
            bursts.i.valid.eq(axi.arvalid & ~stalled["ar"]),
            taken.id.eq(axi.arid),
            taken.flit.eq(axi.araddr[self._config.flit_address_bits :]),
            taken.length.eq(axi.arlen),
            taken.outside.eq(self._outside(axi.araddr, axi.arlen)),
            # The beat is read from the array in the cycle before it stands on the bus.
            bursts.i.payload.wait.eq(self.latency + jitter - 1),
        ]
        self._read_waits = bursts.waits
        burst = bursts.o.payload
        beat = Signal(8)
        read = Signal()
        last = Signal()
        bad = self._error("read", burst.flit + beat)
        m.d.comb += [
            read.eq(bursts.o.valid & (~axi.rvalid | axi.rready) & ~stalled["r"]),
            last.eq(beat == burst.length),
            bursts.o.ready.eq(read & last),
            self.storage.read_enable.eq(read & ~burst.outside),
            self.storage.read_address.eq(burst.flit + beat),
            axi.rdata.eq(self.storage.read_data),
        ]
        with m.If(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        with m.If(read):
            m.d.sync += [
                axi.rvalid.eq(1),
                axi.rlast.eq(last),
                axi.rid.eq(burst.id),
                axi.rresp.eq(self._response(burst.outside, bad)),
                beat.eq(Mux(last, 0, beat + 1)),
            ]

    def _write(self, m, now, jitter, stalled):
        axi = self.axi
        m.submodules.write_bursts = bursts = Queue(self._burst_layout(), depth=SPARE_BURSTS)
        m.submodules.write_answers = answers = DueQueue(
            data.StructLayout(
                {"id": axi.bid.shape(), "outside": unsigned(1)}
                | ({"error": Response} if self._config.recovers else {})
            ),
            depth=2 * SPARE_BURSTS,
            time_bits=self._due_bits,
        )
        taken = bursts.i.payload
        m.d.comb += [
            axi.awready.eq(bursts.i.ready & ~stalled["aw"]),
            bursts.i.valid.eq(axi.awvalid & ~stalled["aw"]),
            taken.id.eq(axi.awid),
            taken.flit.eq(axi.awaddr[self._config.flit_address_bits :]),
            taken.length.eq(axi.awlen),
            taken.outside.eq(self._outside(axi.awaddr, axi.awlen)),
        ]
        # A beat may come with its address in the same cycle; the queue gives it one later, so the
        # first beat of a burst that found the memory idle waits one cycle.
        burst = bursts.o.payload
        beat = Signal(8)
        take = Signal()
        willing = ~stalled["w"]
        if self._config.forwards:
            willing = willing & ~(self.read_first & self._read_waits)
        m.d.comb += [
            axi.wready.eq(bursts.o.valid & answers.i.ready & willing),
            take.eq(axi.wvalid & axi.wready),
            bursts.o.ready.eq(take & axi.wlast),
            self.storage.write_enable.eq(take & ~burst.outside),
            self.storage.write_address.eq(burst.flit + beat),
            self.storage.write_data.eq(axi.wdata),
            self.storage.write_strobe.eq(axi.wstrb),
            answers.i.valid.eq(take & axi.wlast),
            answers.now.eq(now),
            answers.i.payload.item.id.eq(burst.id),
            answers.i.payload.item.outside.eq(burst.outside),
            answers.i.payload.wait.eq(self.write_latency + jitter),
        ]
        with m.If(take):
            m.d.sync += beat.eq(Mux(axi.wlast, 0, beat + 1))

        if self._config.recovers:
            self._keep_error(m, answers.i.payload.item.error, take, burst.flit + beat)
        answer = answers.o.payload
        shown = Signal()  # once valid, a response stays
        m.d.comb += [
            axi.bvalid.eq(answers.o.valid & (shown | ~stalled["b"])),
            answers.o.ready.eq(axi.bvalid & axi.bready),
            axi.bid.eq(answer.id),
            axi.bresp.eq(
                self._response(answer.outside, answer.error if self._config.recovers else None)
            ),
        ]
        m.d.sync += shown.eq(axi.bvalid & ~axi.bready)
