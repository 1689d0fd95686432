"""Registers between a source of packets and who sends them."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import PacketSource
from ..stream import Slice

__all__ = ["PacketSlice"]


class PacketSlice(wiring.Component):
    """A `Slice` each in heads and payload.

    Parameters
    ----------
    has_payload
        Whether any packet has payload; where none has there is no register for it.

    Members
    -------
    i, o : the source's side, the sender's side

    Timing
    ------
    Heads and payload come a cycle later, one a cycle each.

    A head that has been taken here cannot be withdrawn, although it may still wait for credits: who
    wants to drop a packet until it goes does so behind the slice.
    """

    def __init__(self, config: SwitchConfig, *, has_payload: bool = True):
        self._streams = ("head", "payload") if has_payload else ("head",)
        source = PacketSource(config)
        super().__init__({"i": In(source), "o": Out(source)})

    def elaborate(self, platform):
        m = Module()
        for name in self._streams:
            i, o = getattr(self.i, name), getattr(self.o, name)
            m.submodules[name] = slice = Slice(i.payload.shape())
            connect(m, flipped(i), slice.i)
            connect(m, slice.o, flipped(o))
        return m
