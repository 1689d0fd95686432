"""`AddressCheck`: the verdict of its rules, written down plainly, for all addresses and lengths."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.address_check import FLAG_BYTES, HOST_BITS, AddressCheck
from hdl.accelerator.layouts import Status

from .proof import BOUNDED, Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]

KINDS = ("source", "destination", "flag")
#: Cycles of a rank with three kinds of addresses.
CYCLES = 9
#: Flits of more than a word, so that alignment to the two differs.
WIDE = SMALL.replace(flit_bytes=16, payload_bytes=32, wave_bytes=64, read_request_bytes=32)


class AddressCheckContract(Specification):
    """A check of two ranks whose addresses are staged one a cycle, then started once.

    Everything but the moments is free: addresses, length, and what stands at the inputs otherwise.
    """

    def __init__(self, config):
        super().__init__(AddressCheck(config))
        self._config = config

    def specify(self, m):
        check, ranks = self.component, self._config.ranks
        staged = [(rank, kind) for rank in range(ranks) for kind in KINDS]
        addresses = {
            (rank, kind): self.any_constant(HOST_BITS, f"{kind}_{rank}") for rank, kind in staged
        }
        length = self.any_constant(len(check.length), "length")
        now = Signal(range(len(staged) + CYCLES * ranks + 4))
        with m.If(now != (1 << len(now)) - 1):
            m.d.sync += now.eq(now + 1)
        for moment, (rank, kind) in enumerate(staged):
            strobe = getattr(check, f"stage_{kind}")[rank]
            self.assume(f"stages_{kind}_{rank}", strobe == (now == moment))
            self.assume(
                f"stages_its_address_{kind}_{rank}",
                (now != moment) | (check.address == addresses[rank, kind]),
            )
        begin = len(staged)
        self.assume("not_locked_at_first", (now >= begin) | ~check.locked)
        self.assume("starts_once", check.start == (now == begin))
        self.assume("length_stays", check.length == length)
        verdicts = [self._verdict(m, addresses, length, rank) for rank in range(ranks)]
        ends, code, who = self._expected(verdicts, begin)
        self.always(
            "ends_in_the_cycle_that_is_said",
            check.done == ((now == ends) & (now != 0)),
            "The check ends nine cycles a rank behind its start, with the first rank refused or "
            "the last one.",
            trace=check.done & (now == begin + CYCLES * ranks),
        )
        self.always(
            "judges_as_the_rules_say",
            (check.code.as_value() == code) & (check.code_rank == who),
            "For all addresses and lengths: unaligned, then out of range, then overlap, of the "
            "lowest rank that breaks a rule.",
            when=check.done,
            trace=check.done & (code == Status.OVERLAP.value),
        )

    def _expected(self, verdicts, begin):
        """The cycle of the end, its code and rank."""
        last = len(verdicts) - 1
        ends, code = Const(begin + CYCLES * (last + 1)), verdicts[last]
        who = Mux(code == Status.OK.value, 0, last)
        for rank in reversed(range(last)):
            refused = verdicts[rank] != Status.OK.value
            ends = Mux(refused, begin + CYCLES * (rank + 1), ends)
            code = Mux(refused, verdicts[rank], code)
            who = Mux(refused, rank, who)
        return ends, code, who

    def _verdict(self, m, addresses, length, rank):
        """One rank by the rules, in bytes and with numbers as wide as they get."""
        flit, memory = self._config.flit_bytes, self._config.memory_bytes
        size = Signal(len(length) + 1, name=f"size_{rank}")
        m.d.comb += size.eq((length + flit - 1) // flit * flit)
        sizes = {"source": size, "destination": size, "flag": Const(FLAG_BYTES)}
        grids = {"source": flit, "destination": flit, "flag": FLAG_BYTES}
        starts = {kind: addresses[rank, kind] for kind in KINDS}
        unaligned = Cat(starts[kind] % grids[kind] != 0 for kind in KINDS).any()
        outside = Cat(starts[kind] + sizes[kind] > memory for kind in KINDS).any()

        def shares(one, other):
            return (starts[one] < starts[other] + sizes[other]) & (
                starts[other] < starts[one] + sizes[one]
            )

        overlap = (
            (shares("source", "destination") & (starts["source"] != starts["destination"]))
            | shares("source", "flag")
            | shares("destination", "flag")
        )
        return Mux(
            unaligned,
            Status.UNALIGNED.value,
            Mux(
                outside,
                Status.OUT_OF_RANGE.value,
                Mux(overlap, Status.OVERLAP.value, Status.OK.value),
            ),
        )


PROOFS = [
    Proof(
        name="address-check",
        component="AddressCheck",
        size=f"{describe(WIDE)}; all addresses and lengths",
        specify=lambda: AddressCheckContract(WIDE),
        mode=BOUNDED,
        depth=28,
        trace_depth=28,
        fault_depth=28,
        quick=False,
        faults=(
            Fault("a rank's error stays for the next", "_unaligned", lambda value: value | 1),
            Fault("any two ranges may be identical", "comparing_pair", lambda pair: pair | 1),
            Fault("ends a rank too early", "done", lambda done: done & 0),
        ),
    )
]
