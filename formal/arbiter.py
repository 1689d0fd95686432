"""`RoundRobin` and `LinkArbiter`: who keeps asking is served within a bound."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.transport.arbiter import LinkArbiter, RoundRobin

from .proof import Fault, Proof
from .specification import Specification

__all__ = ["PROOFS"]


class RoundRobinContract(Specification):
    """Turns against one requester, whichever it is, that keeps asking."""

    def __init__(self, count: int):
        self._count = count
        super().__init__(RoundRobin(count))

    def specify(self, m):
        turns, count = self.component, self._count
        self.assume("used_is_granted", (turns.used == turns.grant) | (turns.used == 0))
        self.always(
            "grants_one_who_asks",
            ((turns.grant & (turns.grant - 1)) == 0) & ((turns.grant & ~turns.requests) == 0),
            "At most one is granted, and only who asks.",
            trace=turns.grant.any(),
        )
        self.always(
            "grants_while_somebody_asks",
            turns.grant.any(),
            "Somebody is granted in every cycle in which somebody asks.",
            when=turns.requests.any(),
        )
        self.always(
            "stays_while_unused",
            turns.grant == self.past(turns.grant, name="grant"),
            "Without new requests, a grant that was not used stays.",
            when=(self.past(turns.requests, name="requests") == turns.requests)
            & (self.past(turns.used, name="used") == 0)
            & self.past(turns.grant.any(), name="granted"),
        )
        who = self.any_constant(range(count), "who")
        asks, served = turns.requests.bit_select(who, 1), turns.used.bit_select(who, 1)
        others = Signal(range(count + 1))  # served since it asks
        with m.If(~asks | served):
            m.d.sync += others.eq(0)
        with m.Elif(turns.used.any()):
            m.d.sync += others.eq(others + 1)
        self.always(
            "waits_for_each_other_once",
            others < count,
            "Who keeps asking is granted after at most one grant of each other requester.",
            trace=others == count - 1,
        )
        last = self.inside.signal("last")
        in_front = Signal(range(count))  # requesters with an earlier turn
        m.d.comb += in_front.eq(Mux(last < who, who - last - 1, who + (count - 1) - last))
        self.lemma("last_is_one", last < count)
        self.lemma("who_is_one", who < count)
        self.lemma("each_grant_is_a_step", others + in_front < count)


class LinkArbiterContract(Specification):
    """Both sides of a link, each against what the other one sends while it waits."""

    def __init__(self, inc, longest: int):
        self._inc = inc
        self._longest = longest
        super().__init__(LinkArbiter(inc, longest=longest, by_flits=True))

    def specify(self, m):
        arbiter, longest = self.component, self._longest
        grants = arbiter.taken & arbiter.grant.any()
        started = self.past(grants, name="granted")
        self.assume("starts_a_cycle_later", arbiter.started == started)
        self.assume(
            "flits_are_a_packets", ~started | ((arbiter.flits != 0) & (arbiter.flits <= longest))
        )
        # The next one is chosen as a packet's last flit leaves.
        self.assume("one_packet_at_a_time", ~(started & arbiter.taken) | (arbiter.flits == 1))
        self.always(
            "grants_one_who_asks",
            ((arbiter.grant & (arbiter.grant - 1)) == 0)
            & ((arbiter.grant & ~arbiter.requests) == 0),
            "At most one source is granted, and only one that asks.",
            trace=arbiter.grant.any(),
        )
        self.always(
            "grants_while_somebody_asks",
            arbiter.grant.any(),
            "Some source is granted in every cycle in which one asks.",
            when=arbiter.requests.any(),
        )
        members = {
            "accelerator": Cat(arbiter.requests[i] for i, inc in enumerate(self._inc) if inc),
            "core": Cat(arbiter.requests[i] for i, inc in enumerate(self._inc) if not inc),
        }
        of_accelerator = Cat(Const(int(inc), 1) for inc in self._inc)
        granted_accelerator = (arbiter.grant & of_accelerator).any()
        ahead = self.inside.signal("ahead")
        # A packet is counted one cycle after its grant; so many flits may be under way.
        self.lemma("ahead_is_bounded", (ahead <= longest + 1) & (ahead >= -(longest + 1)))
        # Amaranth names only the last of signals that one statement makes.
        contended, core = self.inside.signal("$signal"), self.inside.signal("core")
        # Who goes next is behind; a packet of one flit before it may count only now.
        behind = Mux(core, ahead >= 0, ahead <= 1)
        self.lemma("granted_is_behind", ~(started & contended) | behind)
        for side, mine in (("accelerator", True), ("core", False)):
            self._turns(m, side, [i for i, inc in enumerate(self._inc) if inc == mine], grants)
        bound = 2 * longest + 2
        for side, sign in (("accelerator", 1), ("core", -1)):
            waits = members[side].any()
            mine = granted_accelerator if side == "accelerator" else ~granted_accelerator
            flits = Signal(range(4 * longest + 4), name=f"flits_while_{side}_waits")
            others = Signal(name=f"others_packet_while_{side}_waits")
            m.d.sync += others.eq(waits & grants & ~mine)
            with m.If(~waits | (grants & mine)):
                m.d.sync += flits.eq(0)
            with m.Elif(others):
                m.d.sync += flits.eq(flits + arbiter.flits)
            self.always(
                f"{side}_waits_for_a_bounded_share",
                flits <= bound,
                "While a side waits, the other one sends at most two of the longest packets and "
                "two flits before it has its turn.",
                trace=flits >= longest,
            )
            # What the other side sent is counted in `ahead`, from where it was at worst.
            from_worst = sign * -ahead + (longest + 1)
            self.lemma(f"{side}_counts", (flits == 0) | (flits <= from_worst))
            pending = (flits == 0) | ~started | others
            self.lemma(f"{side}_waits_for_what_is_counted", pending)
            others_is_core = core if side == "accelerator" else ~core
            self.lemma(f"{side}_contends", ~others | (started & contended & others_is_core))

    def _turns(self, m, side, members, grants):
        """Sources of one side, each against the others of it."""
        arbiter, count = self.component, len(members)
        last = self.inside.signal(f"{side}.last")
        self.lemma(f"{side}_last_is_one", last < count)
        for place, index in enumerate(members):
            served = grants & arbiter.grant[index]
            neighbour = grants & Cat(arbiter.grant[i] for i in members if i != index).any()
            others = Signal(range(count + 1), name=f"others_while_{index}_waits")
            with m.If(~arbiter.requests[index] | served):
                m.d.sync += others.eq(0)
            with m.Elif(neighbour):
                m.d.sync += others.eq(others + 1)
            self.always(
                f"source_{index}_waits_for_each_neighbour_once",
                others < count,
                "A source that keeps asking is granted after at most one grant of each other "
                "source of its side, however often the other side has its turn between them.",
                trace=others == count - 1,
            )
            in_front = Signal(range(count), name=f"in_front_of_{index}")
            m.d.comb += in_front.eq(Mux(last < place, place - last - 1, place + (count - 1) - last))
            self.lemma(f"each_grant_is_a_step_to_{index}", others + in_front < count)


def _proof(count: int) -> Proof:
    return Proof(
        name=f"round-robin-{count}",
        component="RoundRobin",
        size=f"{count} requesters",
        specify=lambda: RoundRobinContract(count),
        quick=count == 4,
        fault_depth=count + 4,
        faults=(
            Fault("starts from the same requester again", "last", lambda last: last & 0),
            Fault("grants without a request", "grant", lambda grant: grant | 1),
        ),
    )


PROOFS = [
    _proof(4),
    _proof(16),
    Proof(
        name="link-arbiter",
        component="LinkArbiter",
        size="2 sources of the accelerator, 2 of the core, 4 flits",
        specify=lambda: LinkArbiterContract((True, True, False, False), longest=4),
        faults=(
            Fault("the core waits for the accelerator", "core_wins", lambda wins: wins & 0),
            Fault("flits are not counted", "ahead", lambda ahead: ahead & 0),
        ),
    ),
]
