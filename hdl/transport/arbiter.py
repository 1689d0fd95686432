"""Who sends next on a shared link."""

from collections.abc import Sequence

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["RoundRobin", "LinkArbiter"]


class RoundRobin(wiring.Component):
    """Grants one of several requests, the one longest ungranted first in cyclic order.

    Members
    -------
    requests : one bit a requester
    grant : one-hot, combinational; zero without a request
    used : one-hot, the grant if it is used; the next one starts behind it

    A requester that keeps asking is granted after at most ``count - 1`` other grants.
    """

    def __init__(self, count: int):
        self._count = count
        super().__init__({"requests": In(count), "grant": Out(count), "used": In(count)})

    def elaborate(self, platform):
        m = Module()
        count = self._count
        last = Signal(range(count))
        with m.Switch(last):
            for start in range(count):
                with m.Case(start):
                    order = [(start + 1 + step) % count for step in range(count)]
                    with m.If(self.requests[order[0]]):
                        m.d.comb += self.grant.eq(1 << order[0])
                    for index in order[1:]:
                        with m.Elif(self.requests[index]):
                            m.d.comb += self.grant.eq(1 << index)
        for index in range(count):
            with m.If(self.used[index]):
                m.d.sync += last.eq(index)
        return m


class LinkArbiter(wiring.Component):
    """Shares a link between accelerator and ordinary packets, and each side among its sources.

    Parameters
    ----------
    inc
        By source: whether it is the accelerator's.
    longest
        Flits of the longest packet.
    by_flits
        While both sides wait, the one that has sent fewer flits since they first contended goes
        next, so each gets half of the flits to within one packet. False: they alternate.

    Members
    -------
    requests : sources that wait and may go
    grant : one-hot, combinational
    taken : the grant is used
    started : the packet granted last is on its way, not sooner than one cycle after ``taken``
    flits : its flits, then
    """

    def __init__(self, inc: Sequence[bool], *, longest: int, by_flits: bool):
        self._inc = tuple(inc)
        self._longest = longest
        self._by_flits = by_flits
        super().__init__(
            {
                "requests": In(len(self._inc)),
                "grant": Out(len(self._inc)),
                "taken": In(1),
                "started": In(1),
                "flits": In(range(longest + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sides = {
            "accelerator": [i for i, inc in enumerate(self._inc) if inc],
            "core": [i for i, inc in enumerate(self._inc) if not inc],
        }
        sides = {name: members for name, members in sides.items() if members}
        waiting, wins = {}, {name: Signal(name=f"{name}_wins") for name in sides}
        for name, members in sides.items():
            m.submodules[name] = turn = RoundRobin(len(members))
            m.d.comb += [
                turn.requests.eq(Cat(self.requests[i] for i in members)),
                turn.used.eq(Mux(self.taken & wins[name], turn.grant, 0)),
            ]
            for position, index in enumerate(members):
                m.d.comb += self.grant[index].eq(turn.grant[position] & wins[name])
            waiting[name] = turn.requests.any()
        if len(sides) == 1:
            (name,) = sides
            m.d.comb += wins[name].eq(1)
        else:
            self._share(m, waiting, wins)
        return m

    def _share(self, m, waiting, wins):
        # Flits that the accelerator has sent beyond the core's while both waited. It stays within
        # a packet either way, since the side that is ahead does not send, and one flit more: a
        # packet of one flit is counted one grant late.
        ahead = Signal(signed((2 * self._longest).bit_length() + 1))
        first = ahead <= 0
        m.d.comb += [
            wins["accelerator"].eq(waiting["accelerator"] & (first | ~waiting["core"])),
            wins["core"].eq(waiting["core"] & ~wins["accelerator"]),
        ]
        contended, core = Signal(), Signal()  # as the last grant was used
        with m.If(self.taken):
            m.d.sync += [
                contended.eq(waiting["accelerator"] & waiting["core"]),
                core.eq(wins["core"]),
            ]
        weight = self.flits if self._by_flits else 1
        with m.If(self.started):
            with m.If(~contended):
                # A side that was idle has no claim on what the other used meanwhile.
                m.d.sync += ahead.eq(0)
            with m.Else():
                m.d.sync += ahead.eq(Mux(core, ahead - weight, ahead + weight))
