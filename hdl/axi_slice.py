"""Registers in all channels of an AXI4 bus."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .interfaces import Axi4Signature
from .stream import Slice

__all__ = ["AxiSlice"]

#: Channels, and whether the manager sends in them.
CHANNELS = {"aw": True, "w": True, "b": False, "ar": True, "r": False}


class AxiSlice(wiring.Component):
    """A `Slice` in each channel between a manager and a subordinate.

    Parameters
    ----------
    signature
        Of the bus.

    Members
    -------
    manager : the manager's side
    subordinate : the subordinate's side

    Timing
    ------
    Each transfer one cycle later; one a cycle in each channel. No signal passes through in the
    same cycle.
    """

    def __init__(self, signature: Axi4Signature):
        super().__init__({"manager": In(signature), "subordinate": Out(signature)})

    def elaborate(self, platform):
        m = Module()
        for channel, sent in CHANNELS.items():
            source, sink = self.manager, self.subordinate
            if not sent:
                source, sink = sink, source
            fields = self._fields(channel)
            layout = data.StructLayout({name: getattr(source, name).shape() for name in fields})
            m.submodules[channel] = slice = Slice(layout)
            for name in fields:
                m.d.comb += [
                    slice.i.payload[name].eq(getattr(source, name)),
                    getattr(sink, name).eq(slice.o.payload[name]),
                ]
            valid, ready = f"{channel}valid", f"{channel}ready"
            m.d.comb += [
                slice.i.valid.eq(getattr(source, valid)),
                getattr(source, ready).eq(slice.i.ready),
                getattr(sink, valid).eq(slice.o.valid),
                slice.o.ready.eq(getattr(sink, ready)),
            ]
        return m

    def _fields(self, channel):
        """The channel's signals apart from its handshake."""
        handshake = (f"{channel}valid", f"{channel}ready")
        names = self.manager.signature.members
        return [name for name in names if name.startswith(channel) and name not in handshake]
