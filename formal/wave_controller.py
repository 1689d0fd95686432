"""`WaveController`: takes entries before it asks, never more than there are, never one twice."""

from __future__ import annotations

from amaranth import Const, Mux, Signal

from hdl.accelerator.wave_controller import WaveController

from .proof import Fault, Proof
from .sizes import SMALL, TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class WaveControllerContract(Specification):
    """A controller against the entries that it holds and the operation that it cuts.

    Of several contexts' one, the entries are those of its share, which may change while it is held
    and has none.
    """

    def __init__(self, config):
        super().__init__(WaveController(config))
        self._config = config
        self._several = config.contexts > 1

    def specify(self, m):
        controller, waves = self.component, self._config.waves
        # `ReadOut` gives entries back in order, and no more than it was given.
        self.assume("releases_what_is_held", ~controller.release | (controller.reading != 0))
        base, share = Const(0), Const(waves)
        if self._several:
            base, share = controller.base, controller.share
            self._share(base, share)
        self._regulate(m, waves, share)
        if self._several:
            self._hold_share(m, base, share)
        else:
            self._hold_entries(m, waves)
        self._reserve_first()
        self._cut_operation(m)

    def _share(self, base, share):
        """What `EntryShares` keeps to, by its proof; and what a share and a hold stop."""
        controller = self.component
        self.assume("shares_are_entries", base + share <= self._config.waves)
        stays = (self.past(base, name="base") == base) & (self.past(share, name="share") == share)
        still = controller.hold & self.past(controller.hold, name="held_before")
        self.assume("shares_change_while_held", stays | (still & (controller.reading == 0)))
        self.always(
            "takes_entries_of_its_share",
            (controller.reserve.entry >= base) & (controller.reserve.entry < base + share),
            "An entry that is taken lies in the context's share.",
            when=controller.reserve.valid,
            trace=controller.reserve.valid & (base != 0) & (controller.reserve.entry != base),
        )
        self.always(
            "takes_nothing_while_held",
            ~controller.reserve.valid & ~controller.wants,
            "A context that is held takes no entry, and wants none.",
            when=controller.hold,
            trace=controller.hold & controller.busy,
        )
        self.always(
            "takes_an_entry_that_it_wants",
            controller.reserve.valid
            == (controller.wants & controller.issue_ready & controller.waves.ready),
            "An entry is taken in the cycle in which the wave that wants it can go to all issuers "
            "and to read-out, and in no other.",
            when=controller.wants | controller.reserve.valid,
            trace=controller.reserve.valid,
        )

    def _regulate(self, m, waves, share):
        controller = self.component
        held = Signal(range(waves + 2))
        m.d.sync += held.eq(held + controller.reserve.valid - controller.release)
        self.always(
            "reading_waves_are_counted",
            controller.reading == held,
            "`reading` is the number of entries that were taken and not released.",
            trace=held == waves,
        )
        self.always(
            "reading_waves_never_exceed_k",
            held <= share,
            "Never more than `waves` waves are reading; of several contexts' one, never more than "
            "its share.",
            trace=held == waves,
        )

    def _hold_share(self, m, base, share):
        """One entry, whichever it is, in a share that may change."""
        controller = self.component
        entry = self.any_constant(range(self._config.waves), "entry")
        taken, held = Signal(), Signal()
        ahead = Signal.like(controller.reading)  # entries that are released before it
        m.d.comb += taken.eq(controller.reserve.valid & (controller.reserve.entry == entry))
        with m.If(taken):
            m.d.sync += [held.eq(1), ahead.eq(controller.reading - controller.release)]
        with m.Elif(held & controller.release):
            m.d.sync += [held.eq(ahead != 0), ahead.eq(ahead - 1)]
        released = self.past(held & controller.release & (ahead == 0), name="released")
        self.always(
            "no_entry_is_taken_twice",
            ~held,
            "An entry is taken only when its wave before was released.",
            when=taken,
            trace=taken & released,
        )
        newest = self.inside.signal("entry")
        back = controller.reading - ahead  # entries from it to the newest
        place, end = entry - base, newest - base
        around = Mux(end >= back, end - back, end - back + share)
        in_the_ring = (ahead < controller.reading) & (place == around)
        self.lemma("held_is_in_the_ring", ~held | in_the_ring)
        inside = (newest >= base) & (newest < base + share)
        # Behind a change there is a cycle in which it goes to the new share.
        self.lemma("newest_is_in_the_share", inside | controller.hold | (share == 0))
        self.lemma("held_is_in_the_share", (controller.reading == 0) | inside)

    def _hold_entries(self, m, waves):
        """One entry, whichever it is."""
        controller = self.component
        entry = self.any_constant(range(waves), "entry")
        taken, held = Signal(), Signal()
        generation = Signal.like(controller.reserve.generation, name="last_generation")
        used = Signal()
        oldest = Signal(range(waves))
        m.d.comb += taken.eq(controller.reserve.valid & (controller.reserve.entry == entry))
        released = controller.release & (oldest == entry)
        with m.If(controller.release):
            m.d.sync += oldest.eq(oldest + 1)
        with m.If(taken):
            m.d.sync += [held.eq(1), used.eq(1), generation.eq(controller.reserve.generation)]
        with m.Elif(released):
            m.d.sync += held.eq(0)
        self.always(
            "no_entry_is_taken_twice",
            ~held,
            "An entry is taken only when its wave before was released.",
            when=taken,
            trace=taken & used,
        )
        self.always(
            "generations_differ",
            controller.reserve.generation == (generation + 1)[: len(generation)],
            "An entry's next use has the next generation, so that late answers are told apart.",
            when=taken & used,
        )
        newest = self.inside.signal("entry")
        place = (entry - oldest)[: len(oldest)]
        self.lemma("entries_are_a_ring", newest == (oldest + controller.reading)[: len(oldest)])
        self.lemma("held_lies_in_the_ring", held == (place < controller.reading))
        current = self.inside.signal("generation")
        ahead = Mux(newest > entry, current, current - 1)[: len(generation)]
        self.lemma("generation_of_the_round", ~used | (generation == ahead))
        self.lemma("held_was_used", used | ~held)
        self.lemma("first_round", used | ((current == 0) & (newest <= entry)))

    def _reserve_first(self):
        controller = self.component
        issue, reserve, waves = controller.issue, controller.reserve, controller.waves
        self.always(
            "reserves_before_it_asks",
            reserve.valid
            & (reserve.entry == issue.entry)
            & (reserve.generation == issue.generation)
            & controller.issue_ready
            & waves.valid
            & waves.ready
            & (waves.payload.entry == issue.entry)
            & (waves.payload.size == issue.size),
            "A wave is asked for only in the cycle in which its entry is taken in every table and "
            "its place in the order of read-out, and when every port takes it.",
            when=issue.valid,
        )
        self.always(
            "reserves_only_what_it_asks_for",
            issue.valid & (issue.size != 0),
            "No entry is taken without a wave of data.",
            when=reserve.valid,
        )
        absent = [
            issue.size <= packet * self._config.payload_bytes
            for packet in range(self._config.packets_per_wave)
        ]
        self.always(
            "expects_the_packets_of_the_wave",
            reserve.absent == sum(bit << packet for packet, bit in enumerate(absent)),
            "The tables expect exactly the packets that the wave's bytes fill.",
            when=reserve.valid,
            trace=reserve.valid & reserve.absent.any(),
        )

    def _cut_operation(self, m):
        controller = self.component
        launch, waves = controller.launch, controller.waves
        under_way, begun, failed = Signal(), Signal(), Signal()
        left = Signal.like(launch.payload.length, name="bytes_left")
        done = Signal.like(launch.payload.length, name="bytes_done")
        slot = Signal.like(launch.payload.slot, name="slot_under_way")
        issued = waves.valid & waves.ready
        starts = launch.valid & launch.ready
        m.d.comb += failed.eq(controller.failed.bit_select(slot, 1))
        with m.If(starts):
            m.d.sync += [
                under_way.eq(1),
                begun.eq(0),
                left.eq(launch.payload.length),
                done.eq(0),
                slot.eq(launch.payload.slot),
            ]
        with m.Elif(issued):
            m.d.sync += [
                under_way.eq(~waves.payload.last),
                begun.eq(1),
                left.eq(left - waves.payload.size),
                done.eq(done + waves.payload.size),
            ]
        complete = controller.complete
        if self._several:
            complete = (complete & ~controller.halt) | controller.force
        self.always(
            "starts_when_the_barrier_is_complete",
            complete & ~under_way & controller.take,
            "An operation starts only when its barrier is complete and nothing halts it, or it is "
            "forced; and when the one before is cut.",
            when=starts,
        )
        if self._several:
            self._halt(starts)
        self.always(
            "takes_the_barrier_with_an_operation",
            starts,
            "The barrier goes on to the next epoch only as an operation starts.",
            when=controller.take,
        )
        self.always(
            "waves_cover_the_operation",
            under_way
            & (waves.payload.slot == slot)
            & (waves.payload.first == ~begun)
            & (waves.payload.size <= self._config.wave_bytes)
            & Mux(failed, waves.payload.size == 0, waves.payload.size <= left)
            & (waves.payload.last == (failed | (waves.payload.size == left)))
            & (waves.payload.last | (waves.payload.size == self._config.wave_bytes)),
            "An operation's waves are full but for the last, cover its bytes once, and say which "
            "are first and last; one that failed ends with an empty wave.",
            when=waves.valid,
            trace=issued & begun & waves.payload.last & ~failed,
        )
        if self._config.subsets:
            self._choose(m, starts)
        for rank in range(self._config.ranks):
            source = Signal.like(controller.sources[rank], name=f"source_{rank}_under_way")
            with m.If(starts):
                m.d.sync += source.eq(controller.sources[rank])
            address = controller.issue.address[rank]
            self.always(
                f"asks_rank_{rank}_for_its_part",
                address == (source + done)[: len(address)],
                "A wave's address at a rank is that of its operand and the bytes before the wave.",
                when=controller.issue.valid,
                trace=controller.issue.valid & begun,
            )
            self.lemma(f"address_{rank}", ~under_way | (address == (source + done)[: len(address)]))
        self.lemma("active", self.inside.signal("active") == under_way)
        self.lemma("first", ~under_way | (self.inside.signal("first") == ~begun))
        self.lemma("left", ~under_way | (self.inside.signal("remaining") == left))
        self.lemma("slot", ~under_way | (self.inside.signal("operation")[: len(slot)] == slot))

    def _halt(self, starts):
        controller = self.component
        self.always(
            "starts_nothing_while_halted",
            ~starts & ~controller.take,
            "While a context is halted no operation starts, whoever has arrived.",
            when=controller.halt & ~controller.force,
            trace=controller.halt & ~controller.force & controller.complete,
        )
        self.always(
            "starts_what_is_forced",
            starts,
            "An operation that is forced starts, whoever has arrived, once the one before is cut.",
            when=controller.force & controller.launch.valid & ~controller.busy,
            trace=starts & controller.halt & ~controller.complete,
        )

    def _choose(self, m, starts):
        """Some of the ranks."""
        controller = self.component
        launch, waves = controller.launch.payload, controller.waves
        sources = Signal.like(launch.sources, name="sources_under_way")
        destinations = Signal.like(launch.destinations, name="destinations_under_way")
        with m.If(starts):
            m.d.sync += [sources.eq(launch.sources), destinations.eq(launch.destinations)]
        self.always(
            "waves_name_the_ranks_of_their_operation",
            (waves.payload.sources == sources) & (waves.payload.destinations == destinations),
            "A wave goes to read-out with the ranks that its operation reads and writes.",
            when=waves.valid,
            trace=waves.valid & (sources == 1) & (destinations == 2),
        )
        self.always(
            "asks_the_ranks_of_the_operation",
            (controller.issue.ranks == sources)
            & (controller.reserve.ranks == sources)
            & (controller.sources_of == sources),
            "The ranks that a wave is asked of, and in whose tables its entry is taken, are those "
            "that its operation reads.",
            when=controller.wants | controller.issue.valid,
        )
        operation = self.inside.signal("operation")
        layout = controller.launch.payload.shape()
        held = layout(operation)
        self.lemma(
            "ranks",
            ~controller.busy | ((held.sources == sources) & (held.destinations == destinations)),
        )


PROOFS = [
    Proof(
        name="wave-controller",
        component="WaveController",
        size=describe(SMALL),
        specify=lambda: WaveControllerContract(SMALL),
        mutants_depth=8,
        faults=(
            Fault("takes an entry that it has not", "has_entry", lambda has: Const(1)),
            Fault("the generation stays", "generation", lambda generation: generation & 0),
            Fault("offers a wave without an operation", "waves__valid", lambda valid: Const(1)),
            Fault("starts without the barrier", "take", lambda take: Const(1)),
            Fault("asks for the wave before", "issue__address__0", lambda address: address - 1),
        ),
    ),
    Proof(
        name="wave-controller-of-contexts",
        component="WaveController",
        size=describe(TENANTS),
        specify=lambda: WaveControllerContract(TENANTS),
        mutants_depth=8,
        faults=(
            Fault("takes an entry that it has not", "has_entry", lambda has: Const(1)),
            Fault("starts at the lowest entry", "entry", lambda entry: entry & 0),
            Fault("starts without the barrier", "take", lambda take: Const(1)),
            Fault("asks rank 1 in any case", "issue__ranks", lambda ranks: ranks | 2),
        ),
    ),
]
