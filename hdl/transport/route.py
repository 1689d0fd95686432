"""Where an ordinary packet goes: the address map of requests, and the way back of answers."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Beat, MessageClass, carries_payload

__all__ = ["Route", "RoutedBeat", "everyone"]


def everyone(config: SwitchConfig) -> int:
    """The mask of all ranks."""
    return (1 << config.ranks) - 1


class RoutedBeat(data.StructLayout):
    """A beat that knows its way.

    Members
    -------
    beat : of a request with the address inside the memory that it goes to
    flits : payload flits of the packet
    target : one-hot, the port that it leaves by
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "beat": Beat(config),
                "flits": unsigned(config.payload_flits.bit_length()),
                "target": unsigned(config.ranks),
            }
        )


class Route(wiring.Component):
    """Finds the port that each packet of one class leaves by, and turns away those without one.

    A request goes where its address lies in the map: rank r's memory begins at r times the window.
    It is refused unless all of its bytes lie in one rank's memory, its flits fit one packet, and
    its payload is what its header says. So each request has one packet as its answer. An answer
    goes to the rank that its header names; without such a rank it is dropped. Where links may go
    down, a rank whose link is not UP as its first flit comes is as none.

    Parameters
    ----------
    message_class
        Class of the packets.

    Members
    -------
    i : packets (`Beat`), whole ones where they have payload
    flits : payload flits of the packet at ``i``
    o : those that go on (`RoutedBeat`)
    refused : requests that do not (`Beat`)
    dropped : an answer ends here in this cycle
    reachable : ports that packets may go to, where contexts outlive failures

    Timing
    ------
    One cycle, one beat a cycle. A packet waits while its taker does, and so do those behind it.
    """

    def __init__(self, config: SwitchConfig, *, message_class: MessageClass):
        self._config = config
        self._class = message_class
        super().__init__(
            {
                "i": In(stream.Signature(Beat(config))),
                "flits": In(range(config.payload_flits + 2)),
                "o": Out(stream.Signature(RoutedBeat(config))),
                "refused": Out(stream.Signature(Beat(config))),
                "dropped": Out(1),
            }
            | ({"reachable": In(config.ranks, init=everyone(config))} if config.recovers else {})
        )

    @property
    def _is_request(self) -> bool:
        return self._class in (MessageClass.READ_REQUEST, MessageClass.WRITE_DATA)

    def elaborate(self, platform):
        m = Module()
        target, address, valid = self._find(m)
        if self._config.recovers:
            valid = self._reach(m, target, valid)
        held, goes, full = Signal(RoutedBeat(self._config)), Signal(), Signal()
        leaves = Signal()
        m.d.comb += self.i.ready.eq(~full | leaves)
        with m.If(self.i.ready):
            m.d.sync += [
                full.eq(self.i.valid),
                held.beat.eq(self.i.payload),
                held.beat.header.address.eq(address),
                held.flits.eq(self.flits),
                held.target.eq(target),
                goes.eq(valid),
            ]
        m.d.comb += [
            self.o.valid.eq(full & goes),
            self.o.payload.eq(held),
            self.refused.payload.eq(held.beat),
        ]
        if self._is_request:
            m.d.comb += [
                self.refused.valid.eq(full & ~goes),
                leaves.eq(Mux(goes, self.o.ready, self.refused.ready)),
            ]
        else:
            m.d.comb += [
                self.dropped.eq(full & ~goes & held.beat.last),
                leaves.eq(~goes | self.o.ready),
            ]
        return m

    def _reach(self, m, target, valid):
        """Whether the packet may go on, decided at its first beat."""
        decided = Signal()
        now = Signal()
        m.d.comb += now.eq(valid & (target & self.reachable).any())
        with m.If(self.i.valid & self.i.ready & self.i.payload.first):
            m.d.sync += decided.eq(now)
        return Mux(self.i.payload.first, now, decided)

    def _find(self, m):
        """Of the packet at the input: its target, the address there, and whether it may go on."""
        header = self.i.payload.header
        ranks = self._config.ranks
        fits = self.flits <= self._config.payload_flits
        if self._is_request:
            rank, address, mapped = self._look_up(m, header)
            fits = fits & self._agrees(m, header)
        else:
            rank, address, mapped = header.destination, header.address, 1
        target = Signal(ranks)
        m.d.comb += [target[index].eq(rank == index) for index in range(ranks)]
        return target, address, target.any() & fits & mapped

    def _look_up(self, m, header):
        """Rank and address in its memory, and whether the last byte lies there too."""
        window_bits = (self._config.map_window_bytes - 1).bit_length()
        local = header.address[:window_bits]
        inside = Signal()
        m.d.comb += inside.eq(local + header.length <= self._config.memory_bytes)
        return header.address[window_bits:], local, inside & (local < self._config.memory_bytes)

    def _agrees(self, m, header):
        """Whether the flits that the header speaks of fit a packet, and are those that came."""
        config = self._config
        shift = config.flit_address_bits
        spoken_of = Signal(range((1 << len(header.length)) // config.flit_bytes + 2))
        end = header.address[:shift] + header.length + (config.flit_bytes - 1)
        m.d.comb += spoken_of.eq(Mux(header.length == 0, 0, end >> shift))
        if carries_payload(self._class.value):
            return spoken_of == self.flits
        return spoken_of <= config.payload_flits
