"""`WaveController`: takes entries before it asks, never more than there are, never one twice."""

from __future__ import annotations

from amaranth import Const, Mux, Signal

from hdl.accelerator.wave_controller import WaveController

from .proof import Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]


class WaveControllerContract(Specification):
    """A controller against the entries that it holds and the operation that it cuts."""

    def __init__(self, config):
        super().__init__(WaveController(config))
        self._config = config

    def specify(self, m):
        controller, waves = self.component, self._config.waves
        # `ReadOut` gives entries back in order, and no more than it was given.
        self.assume("releases_what_is_held", ~controller.release | (controller.reading != 0))
        self._regulate(m, waves)
        self._hold_entries(m, waves)
        self._reserve_first()
        self._cut_operation(m)

    def _regulate(self, m, waves):
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
            held <= waves,
            "Never more than `waves` waves are reading.",
            trace=held == waves,
        )

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
        self.always(
            "starts_when_the_barrier_is_complete",
            controller.complete & ~under_way & controller.take,
            "An operation starts only when its barrier is complete and the one before is cut.",
            when=starts,
        )
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
    )
]
