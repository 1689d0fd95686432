"""`LinkEnd`: two ends agree on when a link begins anew, whatever the line loses and when."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hdl.interfaces import LinkState
from hdl.transport.link_end import LinkEnd

from .proof import BOUNDED, Fault, Proof
from .specification import Specification

__all__ = ["PROOFS", "LinkPair"]

#: Flits that each end has room for, and what a counter of them needs.
CREDITS = 2
CREDIT_BITS = CREDITS.bit_length()
#: Cycles of a line: the shortest of the design.
LATENCY = 2
#: UPs of an end, and flits in one of them, that are told apart.
PERIODS = 4
NUMBERS = 4
#: Cycles in which two clean ends are UP again: nine latencies and a few registers. From reachable
#: states, by exhaustion.
COMES_BACK = 9 * LATENCY + 2

#: What a line carries in a cycle; the flit is its UP and its number in that.
Carried = data.StructLayout(
    {
        "state": LinkState,
        "valid": unsigned(1),
        "period": range(PERIODS),
        "number": range(NUMBERS),
        "credit": unsigned(1),
    }
)


class Half(wiring.Component):
    """`LinkEnd` with one channel of a transmitter and of a receiver, and numbers to check it by.

    Members
    -------
    i, o : lines
    sends, pops, clean : a flit goes if it may; one leaves the queue; see `LinkEnd`
    up : it is UP
    credits, held : the transmitter's, and flits in the queue
    takes : a flit is taken, of ``due`` UP and number where the first one has been taken
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(Carried),
                "o": Out(Carried),
                "sends": In(1),
                "pops": In(1),
                "clean": In(1),
                "up": Out(1),
                "credits": Out(CREDIT_BITS, init=CREDITS),
                "held": Out(CREDIT_BITS),
                "takes": Out(1),
                "begun": Out(1),
                "due_period": Out(range(PERIODS)),
                "due_number": Out(range(NUMBERS)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.end = end = LinkEnd()
        down = end.state == LinkState.DOWN
        m.d.comb += [
            end.heard.eq(self.i.state),
            end.clean.eq(self.clean),
            self.up.eq(end.state == LinkState.UP),
            self.takes.eq(end.takes & self.i.valid),
        ]
        goes, leaves = Signal(), Signal()
        period, number = Signal(range(PERIODS)), Signal(range(NUMBERS))
        was_up = Signal(init=1)
        m.d.comb += [
            goes.eq(self.sends & ((self.up & (self.credits != 0)) | down)),
            leaves.eq(self.pops & (self.held != 0)),
            # A flit on its way to the line, or one that could be, is not clean.
            self.busy.eq(goes | (self.held != 0)),
        ]
        m.d.sync += [was_up.eq(self.up), self.held.eq(self.held + self.takes - leaves)]
        returned = end.takes & self.i.credit
        with m.If(self.up):
            m.d.sync += self.credits.eq(self.credits - goes + returned)
            m.d.sync += number.eq(number + goes)
        with m.Else():
            m.d.sync += [self.credits.eq(CREDITS), number.eq(0)]
            with m.If(was_up):
                m.d.sync += period.eq(period + 1)
        sent = Signal(Carried)  # the transmitter's register
        m.d.sync += [
            sent.valid.eq(goes),
            sent.period.eq(period),
            sent.number.eq(number),
            sent.credit.eq(leaves),
        ]
        m.d.comb += [self.o.eq(sent), self.o.state.eq(end.state)]
        with m.If(~self.up):
            m.d.sync += [self.begun.eq(0), self.due_number.eq(0)]
        with m.Elif(self.takes):
            m.d.sync += [
                self.begun.eq(1),
                self.due_period.eq(self.i.period),
                self.due_number.eq(self.i.number + 1),
            ]
        return m


class Line(wiring.Component):
    """A delay of `LATENCY` cycles that loses all while it is not ``up``."""

    def __init__(self):
        super().__init__({"i": In(Carried), "o": Out(Carried), "up": In(1), "under_way": Out(1)})
        self.stages = [Signal(Carried, name=f"stage_{n}") for n in range(LATENCY)]

    def elaborate(self, platform):
        m = Module()
        silent = Carried.const({"state": LinkState.SILENT})
        for stage, before in zip(self.stages, (self.i, *self.stages), strict=False):
            m.d.sync += stage.eq(Mux(self.up, before.as_value(), silent.as_value()))
        m.d.comb += self.o.eq(Mux(self.up, self.stages[-1].as_value(), silent.as_value()))
        return m


class LinkPair(wiring.Component):
    """Two ends and two lines, of which either may go down and come back in any cycle."""

    def __init__(self):
        inputs = {"up": In(2), "sends": In(2), "pops": In(2), "clean": In(2)}
        super().__init__(inputs | {"both_up": Out(1)})
        self.ends = [Half(), Half()]
        self.lines = [Line(), Line()]

    def elaborate(self, platform):
        m = Module()
        for number, (end, line) in enumerate(zip(self.ends, self.lines, strict=True)):
            m.submodules[f"end_{number}"] = end
            m.submodules[f"line_{number}"] = line
            m.d.comb += [
                line.i.eq(end.o),
                line.up.eq(self.up[number]),
                self.ends[1 - number].i.eq(line.o),
                end.sends.eq(self.sends[number]),
                end.pops.eq(self.pops[number]),
                end.clean.eq(self.clean[number]),
            ]
        m.d.comb += self.both_up.eq(self.ends[0].up & self.ends[1].up)
        return m


class LinkPairContract(Specification):
    """What the two agree on."""

    def __init__(self):
        super().__init__(LinkPair())

    def specify(self, m):
        pair = self.component
        for number, end in enumerate(pair.ends):
            self.assume(f"says_the_truth_{number}", ~pair.clean[number] | ~end.busy)
            self._takes(number, end)
            self._conserves(number, end, pair.ends[1 - number])
        self._comes_back(m, pair)

    def _takes(self, number, end):
        first, due = end.i.number == 0, end.i.number == end.due_number
        same = end.i.period == end.due_period
        self.always(
            f"end_{number}_takes_one_up_without_a_gap",
            Mux(end.begun, due & same, first),
            "What an end takes while it is UP is what the far end has sent in one UP of its own, "
            "from its first flit on and without a gap.",
            when=end.takes,
            trace=end.takes & end.begun & (end.i.period == 2),
        )
        self.always(
            f"end_{number}_has_room",
            end.held <= CREDITS,
            "No flit is taken without room for it.",
            trace=(end.held == CREDITS) & (end.due_period == 1),
        )

    def _conserves(self, number, end, far):
        pair = self.component
        there, back = pair.lines[number], pair.lines[1 - number]
        everything = [end.o, *there.stages], [far.o, *back.stages]
        quiet = Cat(each.state == LinkState.UP for way in everything for each in way).all()
        flits = sum(each.valid for each in everything[0])
        credits = sum(each.credit for each in everything[1])
        self.always(
            f"credits_of_end_{number}_conserve",
            end.credits + flits + far.held + credits == CREDITS,
            "While both ends are UP and nobody has heard anything else, credits in hand, flits "
            "under way, flits in the far queue and credits on their way back are what was there "
            "at first.",
            when=pair.both_up & quiet,
            trace=pair.both_up & quiet & (end.credits == 0) & (end.due_period == 1),
        )
        self.always(
            f"end_{number}_never_has_more_credits_than_at_first",
            end.credits <= CREDITS,
            "A credit is taken only for a flit that was sent in the same UP.",
            when=end.up,
        )

    def _comes_back(self, m, pair):
        waited = Signal(range(COMES_BACK + 2))
        well = pair.up.all() & pair.clean.all()
        with m.If(~well):
            m.d.sync += waited.eq(0)
        with m.Elif(waited <= COMES_BACK):
            m.d.sync += waited.eq(waited + 1)
        self.always(
            "both_come_back",
            pair.both_up,
            f"With both lines up and both ends clean for {COMES_BACK} cycles, both are UP.",
            when=(waited > COMES_BACK) & well,
        )


PROOFS = [
    Proof(
        name="link_end",
        component="LinkEnd",
        size=f"two of them, lines of {LATENCY} cycles, {CREDITS} credits",
        specify=LinkPairContract,
        mode=BOUNDED,
        depth=24,
        trace_depth=40,
        faults=(
            Fault("takes whatever comes", "end_0.end.takes", lambda takes: takes | 1),
            Fault(
                "clean before anything is ended",
                "end_0.end.state",
                lambda state: Mux(state == LinkState.DOWN, LinkState.CLEAN, state),
            ),
            Fault(
                "UP before the far end is clean",
                "end_1.end.state",
                lambda state: Mux(state == LinkState.CLEAN, LinkState.UP, state),
            ),
        ),
        fault_depth=24,
    )
]
