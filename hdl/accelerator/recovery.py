"""Ends what a context cannot finish, and knows which of its ranks are not fit for more yet."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .layouts import Status

__all__ = ["Recovery", "WAITS", "WATCHDOG_BITS", "settle_cycles"]

#: Width of a watchdog's time in cycles.
WATCHDOG_BITS = 32

#: What a context may wait for: how it ends if that does not come. Of several the first in this
#: order is what holds up the others: an operation's flags go last, its requests first.
WAITS = {
    "flags": (Status.FLAG_TIMEOUT, "a flag of an operation that is over is taken"),
    "answers": (Status.WRITE_TIMEOUT, "writes of the oldest wave are answered"),
    "room": (Status.WRITE_TIMEOUT, "write-back has room for a packet"),
    "data": (Status.READ_TIMEOUT, "read data of the oldest wave comes"),
    "requests": (Status.READ_TIMEOUT, "read requests of a wave can go"),
    "arrivals": (Status.NOT_ARRIVED, "a member arrives, behind others"),
}


def settle_cycles(config: SwitchConfig) -> int:
    """Cycles that healthy ranks get to answer what is owed, where no watchdog sets a time.

    A round trip for everything that may be under way at a port, and a memory's latency.
    """
    owed = (config.waves + config.write_waves) * (config.wave_flits + config.packets_per_wave)
    return config.round_trip + config.memory_latency + 4 * owed


class Recovery(wiring.Component):
    """One context's watchdog, and the way back to idle.

    When nothing has moved for ``watchdog`` cycles, a member's link goes down, a host says so, or
    the context is disabled, what is under way ends: the oldest operation with a code that names
    what was waited for and the rank, those behind it and those queued as ABORTED. Then, in this
    order:

    1. *Flush*: waves leave the tables without what they lack, packets that have not left the switch
       are dropped, write-phase slots retire.
    2. *Settle*: each rank gets its flags once it owes nothing. A rank that does not come to that in
       a watchdog's time is left behind as *draining*.

    Members
    -------
    watchdog : cycles without progress that end an operation; 0 is never
    abort : end what is under way now (one cycle)
    disabled : nothing may be under way
    down, pending : members whose link is not UP; something is under way that needs all members
    active, progress : something is under way that waits for ranks alone; it moved
    late_flags, late_answers, late_room, late_data, late_requests, late_arrivals : ranks that are
        waited for; see `WAITS`
    live, unfinished : operations are launched and their flags not sent; they are not over
    queued : operations are not launched yet
    take : one is launched
    controller_busy : an operation is being cut into waves
    quiet : no wave is under way, and no packet of one is in the switch
    unformed : ranks have arrived for an operation that members post, and it is not posted
    dropped : it cannot be, and is not
    sending : flags are not all sent
    unsent : ports whose flag has not been sent
    idle : ranks that owe nothing
    flushing : waves and packets are dropped
    failing : from the failure until flags are sent; nothing new is taken
    mark, code, rank : in one cycle, what is launched fails
    spare : with ``mark``, but not what is over, of which some members may have been told: a link or
        a host ends what is under way
    form : post an operation of those who have arrived, to end it
    force, launch_code, launch_rank : a queued operation is launched as one that has failed
    hold, skip : ports whose flag must wait, or is not sent now
    draining : ranks that still owe answers from before
    aborts : how often
    abort_code, abort_rank : of the last time
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks = config.ranks
        super().__init__(
            {
                "watchdog": In(WATCHDOG_BITS),
                "abort": In(1),
                "disabled": In(1),
                "down": In(ranks),
                "pending": In(1),
                "active": In(1),
                "progress": In(1),
                **{f"late_{name}": In(ranks) for name in WAITS},
                "live": In(1),
                "unfinished": In(1),
                "queued": In(1),
                "take": In(1),
                "controller_busy": In(1),
                "quiet": In(1),
                "unformed": In(1),
                "dropped": In(1),
                "sending": In(1),
                "unsent": In(ranks),
                "idle": In(ranks),
                "flushing": Out(1),
                "failing": Out(1),
                "mark": Out(1),
                "spare": Out(1),
                "code": Out(Status),
                "rank": Out(4),
                "force": Out(1),
                "form": Out(1),
                "launch_code": Out(Status),
                "launch_rank": Out(4),
                "hold": Out(ranks),
                "skip": Out(ranks),
                "draining": Out(ranks),
                "aborts": Out(16),
                "abort_code": Out(Status),
                "abort_rank": Out(4),
            }
        )

    def elaborate(self, platform):
        m = Module()
        expired = self._watch(m)
        self._end(m, expired, *self._blame(m))
        return m

    def _watch(self, m):
        """Cycles since something moved."""
        cycles = Signal(WATCHDOG_BITS)
        self._restart = Signal()  # with other things to wait for
        self._timed = Signal()  # the time runs
        settle = Signal(WATCHDOG_BITS)
        m.d.comb += settle.eq(Mux(self.watchdog == 0, settle_cycles(self._config), self.watchdog))
        with m.If(self._restart | self.progress | ~self._timed):
            m.d.sync += cycles.eq(0)
        with m.Else():
            m.d.sync += cycles.eq(cycles + 1)
        expired = Signal()
        limit = Mux(self.failing, settle, self.watchdog)
        m.d.sync += expired.eq(
            (cycles >= limit) & (limit != 0) & ~self._restart & ~self.progress & self._timed
        )
        return expired

    def _blame(self, m):
        """Whether a link ends what is under way; the code of that, or else of the first thing that
        is waited for, and the lowest rank that owes it.
        """
        cut = Signal()
        code, rank = Signal(Status, init=Status.ABORTED), Signal(4)
        waits = [(getattr(self, f"late_{name}"), status) for name, (status, _) in WAITS.items()]
        cut_off = Mux(cut, self.down, 0)
        for late, status in reversed([(cut_off, Status.LINK_DOWN), *waits]):
            with m.If(late.any()):
                m.d.comb += code.eq(status)
                for number in reversed(range(self._config.ranks)):
                    with m.If(late[number]):
                        m.d.comb += rank.eq(number)
        m.d.comb += cut.eq(self.down.any() & self.pending)
        return cut, code, rank

    def _end(self, m, expired, cut, blamed_code, blamed_rank):
        """From the failure back to idle."""
        ranks = self._config.ranks
        cause_left = Signal()  # no operation has been given the cause yet
        blamed = Signal()  # a rank is to blame, not a host
        told = Signal()  # a host ends what is under way
        given_up = Signal(ranks)  # ranks that get no flag any more
        m.d.comb += [
            self.launch_code.eq(Mux(cause_left, self.abort_code, Status.ABORTED)),
            self.launch_rank.eq(Mux(cause_left, self.abort_rank, 0)),
            told.eq(self.abort | (self.disabled & self.pending)),
            self.code.eq(blamed_code),
            self.rank.eq(Mux(told, 0, blamed_rank)),
            self.hold.eq(Mux(self.failing, ~self.idle, 0)),
            self.skip.eq(given_up),
        ]
        with m.If(self.abort):
            m.d.comb += self.code.eq(Status.ABORTED)
        with m.Elif(told):
            m.d.comb += self.code.eq(Status.DISABLED)
        m.d.sync += self.draining.eq((self.draining | given_up) & ~self.idle)
        with m.FSM(name="recovery"):
            with m.State("RUN"):
                m.d.comb += self._timed.eq(self.active)
                with m.If(expired | cut | told):
                    m.d.comb += self.mark.eq(1)
                    m.d.comb += self.spare.eq(cut | told)
                    m.d.sync += [
                        self.aborts.eq(self.aborts + 1),
                        self.abort_code.eq(self.code),
                        self.abort_rank.eq(self.rank),
                        blamed.eq(~told),
                        cause_left.eq(~Mux(self.spare, self.unfinished, self.live)),
                    ]
                    m.next = "FLUSH"
            with m.State("FLUSH"):
                m.d.comb += [self.failing.eq(1), self.flushing.eq(1)]
                m.d.comb += self.force.eq(1)
                with m.If(self.take):
                    m.d.sync += cause_left.eq(0)
                with m.If(~self.queued & ~self.controller_busy & self.quiet):
                    # Who is named owes something, or is told at once like everybody else. Who has
                    # only not arrived may be told already, and owe the answer to its flag.
                    silent = blamed & (self.abort_code != Status.NOT_ARRIVED)
                    named = Mux(silent, 1 << self.abort_rank, 0)
                    m.d.sync += given_up.eq(named & ~self.idle)
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += [self.failing.eq(1), self._timed.eq(1)]
                with m.If(expired):
                    m.d.comb += self._restart.eq(1)
                    m.d.sync += given_up.eq(given_up | self.unsent)
                with m.If(~self.sending):
                    with m.If(self.unformed & cause_left):
                        m.next = "FORM"
                    with m.Else():
                        m.d.sync += given_up.eq(0)
                        m.next = "RUN"
            with m.State("FORM"):
                m.d.comb += [self.failing.eq(1), self.form.eq(1), self.force.eq(1)]
                with m.If(self.take):
                    m.d.sync += cause_left.eq(0)
                    m.next = "FLUSH"
                with m.If(self.dropped):
                    m.d.sync += cause_left.eq(0)
                    m.next = "SETTLE"
