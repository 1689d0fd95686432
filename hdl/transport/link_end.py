"""One end of a link that may go down and come back: when what arrives counts."""

from amaranth import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import LinkState

__all__ = ["LinkEnd", "join_end"]


class LinkEnd(wiring.Component):
    """Agrees with the far end on when both begin anew, each with empty queues and all credits.

    Members
    -------
    heard : what the far end says, or SILENT
    clean : at this end nothing is left of what was under way when the link went down
    state : what this end says
    takes : flits and credits that arrive in this cycle count
    lost : the link goes down (one cycle)

    An end is

    - UP: it sends, and takes what arrives. It goes DOWN when it hears DOWN or SILENT.
    - DOWN: it sends what it still has, to nobody, as if credits were endless, and drops what
      arrives. It becomes CLEAN when it is clean and hears the far end DOWN or CLEAN.
    - CLEAN: it sends nothing, and its credits are those of reset. It goes UP when it hears CLEAN,
      and DOWN again when it hears SILENT, or UP: that is an UP from before.

    Whoever hears SILENT says so by being DOWN, so an outage of one direction alone is known at
    both ends before either is CLEAN.

    Timing
    ------
    Once the line carries and both ends are clean, as a rule two latencies and a few cycles; nine
    latencies and two cycles at most, where what the lines hold is left of several outages.

    What holds
    ----------
    What an end takes while it is UP was sent by the far end in one UP of its own, from the first
    flit on and without a gap. A credit is taken only for a flit that was sent in the same UP. See
    the proof ``link_end``.
    """

    def __init__(self):
        super().__init__(
            {
                "heard": In(LinkState),
                "clean": In(1),
                "state": Out(LinkState),
                "takes": Out(1),
                "lost": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.takes.eq((self.state == LinkState.UP) & (self.heard == LinkState.UP))
        with m.Switch(self.state):
            with m.Case(LinkState.UP), m.Switch(self.heard):
                with m.Case(LinkState.DOWN, LinkState.SILENT):
                    m.d.comb += self.lost.eq(1)
                    m.d.sync += self.state.eq(LinkState.DOWN)
            with m.Case(LinkState.DOWN), m.Switch(self.heard):
                with m.Case(LinkState.DOWN, LinkState.CLEAN), m.If(self.clean):
                    m.d.sync += self.state.eq(LinkState.CLEAN)
            with m.Case(LinkState.CLEAN), m.Switch(self.heard):
                with m.Case(LinkState.CLEAN):
                    m.d.sync += self.state.eq(LinkState.UP)
                with m.Case(LinkState.UP, LinkState.SILENT):
                    m.d.sync += self.state.eq(LinkState.DOWN)
        return m


def join_end(m: Module, end: LinkEnd, rx, receiver, transmitter):
    """Lead the state of `end`, where `rx` arrives, to its receiver and its transmitter.

    Gives the credits that come back.
    """
    m.d.comb += [
        end.heard.eq(rx.state),
        receiver.takes.eq(end.takes),
        receiver.open.eq(end.state == LinkState.UP),
        transmitter.state.eq(end.state),
    ]
    return Mux(end.takes, rx.credit, 0)
