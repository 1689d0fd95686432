"""Who sends next on a shared link."""

from collections.abc import Sequence

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["DeficitRoundRobin", "LinkArbiter", "RoundRobin"]


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


class DeficitRoundRobin(wiring.Component):
    """Grants one of several requests so that those who keep asking send equally many flits.

    Each turn gives a requester a quantum of flits. It keeps its turn while it asks and has flits
    left; what it sends beyond them, less than a packet, it lacks in its next turn. Flits that it
    does not use are lost when its turn ends: who was idle has no claim.

    Parameters
    ----------
    count
        Requesters.
    longest
        Flits of the longest packet, which is also the quantum: so a turn is never without a packet.

    Members
    -------
    requests : one bit a requester
    grant : one-hot, combinational; zero without a request
    used : one-hot, the requester that is granted now, if it is
    charged : one-hot, who sends ``flits``; in the cycle of ``used`` or later, but before the grant
        after the next is used

    Two requesters that both keep asking differ by less than three packets' flits, ever. One that
    asks waits at most for two packets of each other one.
    """

    def __init__(self, count: int, *, longest: int):
        self._count = count
        self._longest = longest
        super().__init__(
            {
                "requests": In(count),
                "grant": Out(count),
                "used": In(count),
                "charged": In(count),
                "flits": In(range(longest + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = RoundRobin(self._count)
        quantum = self._longest
        last = Signal(self._count)  # one-hot, whose turn it is
        stays = Signal(self._count)  # its turn goes on
        m.d.comb += [
            order.requests.eq(self.requests),
            order.used.eq(self.used),
            self.grant.eq(Mux(stays.any(), stays, order.grant)),
        ]
        with m.If(self.used.any()):
            m.d.sync += last.eq(self.used)
        # Down to less than two packets below zero: of the second the charge was not known yet.
        bits = (2 * quantum).bit_length() + 1
        for index in range(self._count):
            credit = Signal(signed(bits), name=f"credit_{index}")
            debt, begun = Signal.like(credit), Signal.like(credit)
            m.d.comb += [
                stays[index].eq(last[index] & self.requests[index] & (credit > 0)),
                debt.eq(Mux(credit > 0, 0, credit)),
                begun.eq(Mux(self.used[index] & ~stays[index], debt + quantum, credit)),
            ]
            m.d.sync += credit.eq(begun - Mux(self.charged[index], self.flits, 0))
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
    core_by_flits
        Ordinary sources share their side by flits. False: they take turns by packets, as the
        accelerator's do.

    Members
    -------
    requests : sources that wait and may go
    grant : one-hot, combinational
    taken : the grant is used
    started : the packet granted last is on its way, not sooner than one cycle after ``taken``
    flits : its flits, then
    """

    def __init__(
        self,
        inc: Sequence[bool],
        *,
        longest: int,
        by_flits: bool,
        core_by_flits: bool = False,
    ):
        self._inc = tuple(inc)
        self._longest = longest
        self._by_flits = by_flits
        self._core_by_flits = core_by_flits
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
            if name == "core" and self._core_by_flits:
                turn = DeficitRoundRobin(len(members), longest=self._longest)
                self._charge(m, turn)
            else:
                turn = RoundRobin(len(members))
            m.submodules[name] = turn
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

    def _charge(self, m, turn):
        """A packet's flits are known when it starts, a cycle or more behind its grant."""
        granted = Signal.like(turn.used)
        with m.If(self.taken):
            m.d.sync += granted.eq(turn.used)
        m.d.comb += [turn.charged.eq(Mux(self.started, granted, 0)), turn.flits.eq(self.flits)]

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
