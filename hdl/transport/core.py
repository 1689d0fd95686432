"""The core: ordinary packets from any port to any port, each class on a way of its own."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketHead, PacketSource, PayloadFlit, carries_payload
from ..stream import Queue
from .arbiter import DeficitRoundRobin
from .route import RoutedBeat

__all__ = ["Core", "CoreOutput", "CorePlane"]

#: Longest packets that an output of the core has room for: one leaves while the next comes.
OUTPUT_PACKETS = 2
#: Heads that it has room for; packets may be shorter than the longest.
OUTPUT_HEADS = 4


class CoreOutput(wiring.Component):
    """One class of one port: takes packets from all inputs, a whole one at a time.

    Parameters
    ----------
    message_class
        Class of the packets.
    port
        The port's number.

    Members
    -------
    i : by input, the packets that leave here (`RoutedBeat`)
    o : those packets, for the port's transmitter; ``source`` says by which port they came in, and
        ``destination`` is this one, whatever they said

    Timing
    ------
    Input to head: one cycle. One beat a cycle, also from packet to packet and from input to input.

    Ordering and stalls
    -------------------
    Packets of an input keep their order. A packet is taken only with room for the longest, so once
    it has started it waits for its input alone, where all of it is. Inputs that keep offering have
    equally many flits: see `DeficitRoundRobin`.
    """

    def __init__(self, config: SwitchConfig, *, message_class: MessageClass, port: int):
        self._config = config
        self._class = message_class
        self._port = port
        super().__init__(
            {
                "i": In(stream.Signature(RoutedBeat(config))).array(config.ranks),
                "o": Out(PacketSource(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.heads = heads = Queue(PacketHead(config), depth=OUTPUT_HEADS)
        m.submodules.turn = turn = DeficitRoundRobin(config.ranks, longest=config.packet_flits)
        grant = Signal(config.ranks)  # one-hot, whose beat is taken
        taken = Signal(RoutedBeat(config))
        starts = Signal()
        for index, source in enumerate(self.i):
            m.d.comb += source.ready.eq(grant[index])
            with m.If(grant[index]):
                m.d.comb += taken.eq(source.payload)
                m.d.comb += heads.i.payload.header.source.eq(index)
        header, head = taken.beat.header, heads.i.payload
        m.d.comb += [
            turn.requests.eq(Cat(source.valid for source in self.i)),
            turn.used.eq(Mux(starts, grant, 0)),
            turn.charged.eq(turn.used),
            turn.flits.eq(head.flits + config.header_flits),
            heads.i.valid.eq(starts),
            head.header.message_class.eq(self._class),
            head.header.destination.eq(self._port),
        ]
        for name in ("context", "generation", "status", "tag", "address", "length"):
            m.d.comb += getattr(head.header, name).eq(getattr(header, name))
        connect(m, heads.o, flipped(self.o.head))
        if carries_payload(self._class.value):
            m.d.comb += head.flits.eq(taken.flits)
            self._store(m, heads, turn, grant, taken, starts)
        else:
            m.d.comb += [
                grant.eq(Mux(heads.i.ready, turn.grant, 0)),
                starts.eq(grant.any()),
            ]
        return m

    def _store(self, m, heads, turn, grant, taken, starts):
        """Take packets with payload: the turn is kept until the last beat."""
        config = self._config
        most = OUTPUT_PACKETS * config.payload_flits
        m.submodules.payload = payload = Queue(PayloadFlit(config), depth=most)
        room = Signal(range(most + 1), init=most)
        current = Signal(config.ranks)  # one-hot, whose packet is under way
        under_way = current.any()
        may = heads.i.ready & (room >= config.payload_flits)
        moves = Signal()
        m.d.comb += [
            grant.eq(Mux(under_way, current, Mux(may, turn.grant, 0))),
            moves.eq((grant & turn.requests).any()),
            starts.eq(moves & ~under_way),
            payload.i.valid.eq(moves & ~taken.beat.empty),
            payload.i.payload.data.eq(taken.beat.data),
            payload.i.payload.response.eq(taken.beat.response),
        ]
        left = payload.o.valid & payload.o.ready
        m.d.sync += room.eq(room - Mux(starts, taken.flits, 0) + left)
        with m.If(moves):
            m.d.sync += current.eq(Mux(taken.beat.last, 0, grant))
        connect(m, payload.o, flipped(self.o.payload))


class CorePlane(wiring.Component):
    """One class between all ports.

    Members
    -------
    i : by port, packets that came in there (`RoutedBeat`)
    o : by port, packets that leave there
    """

    def __init__(self, config: SwitchConfig, *, message_class: MessageClass):
        self._config = config
        self._class = message_class
        super().__init__(
            {
                "i": In(stream.Signature(RoutedBeat(config))).array(config.ranks),
                "o": Out(PacketSource(config)).array(config.ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        ranks = range(self._config.ranks)
        ready = [[] for _ in ranks]
        for port in ranks:
            output = CoreOutput(self._config, message_class=self._class, port=port)
            m.submodules[f"output_{port}"] = output
            connect(m, output.o, flipped(self.o[port]))
            for index in ranks:
                here = self.i[index].payload.target[port]
                m.d.comb += [
                    output.i[index].valid.eq(self.i[index].valid & here),
                    output.i[index].payload.eq(self.i[index].payload),
                ]
                ready[index].append(here & output.i[index].ready)
        for index in ranks:
            m.d.comb += self.i[index].ready.eq(Cat(ready[index]).any())
        return m


class Core(wiring.Component):
    """A plane a class: no packet waits behind one of another class.

    Members
    -------
    requests, read_data, writes, write_responses : by port, packets that came in (`RoutedBeat`)
    core_requests, core_read_data, core_writes, core_write_responses : by port, packets that leave
    """

    #: Planes by name.
    CLASSES = {
        "requests": MessageClass.READ_REQUEST,
        "read_data": MessageClass.READ_DATA,
        "writes": MessageClass.WRITE_DATA,
        "write_responses": MessageClass.WRITE_RESPONSE,
    }

    def __init__(self, config: SwitchConfig):
        self._config = config
        beats = stream.Signature(RoutedBeat(config))
        super().__init__(
            {name: In(beats).array(config.ranks) for name in self.CLASSES}
            | {
                f"core_{name}": Out(PacketSource(config)).array(config.ranks)
                for name in self.CLASSES
            }
        )

    def elaborate(self, platform):
        m = Module()
        for name, message_class in self.CLASSES.items():
            plane = CorePlane(self._config, message_class=message_class)
            m.submodules[name] = plane
            for port in range(self._config.ranks):
                connect(m, flipped(getattr(self, name)[port]), plane.i[port])
                connect(m, plane.o[port], flipped(getattr(self, f"core_{name}")[port]))
        return m
