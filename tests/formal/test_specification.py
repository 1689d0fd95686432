"""How properties are said, proved, refuted and broken: on a counter that is small enough to see."""

import re

import pytest
from amaranth import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from formal import check
from formal.inside import Inside, InsideError
from formal.proof import BOUNDED, INDUCTION, Fault, Proof
from formal.specification import Specification

#: Where the counter stops.
MOST = 5


class Counter(wiring.Component):
    """Counts to `MOST` and stays there."""

    step: In(1)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=4, depth=4, init=[])
        write, read = words.write_port(), words.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.step),
            write.addr.eq(self.count),
            write.data.eq(self.count),
            read.addr.eq(0),
        ]
        with m.If(self.step & (self.count != MOST)):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Bounded(Specification):
    def __init__(self, bound=MOST):
        super().__init__(Counter())
        self._bound = bound

    def specify(self, m):
        count = self.component.count
        self.always(
            "is_bounded", count <= self._bound, "It\n   stays small.", trace=count == self._bound
        )
        self.always(
            "steps_by_one",
            count == self.past(count, name="count") + 1,
            "A step counts one.",
            when=self.past(self.component.step & (count != MOST), name="stepped"),
        )


class Skips(Specification):
    """Says what no solver can reach, and what is true and not inductive by itself."""

    def __init__(self):
        super().__init__(Counter())

    def specify(self, m):
        count = self.component.count
        self.always("is_never_nine", count != 9, "It is not 9.", trace=count == 8)


def proof(specify, **options) -> Proof:
    fields = dict(name="counter", component="Counter", size="4 bits", trace_depth=12)
    return Proof(specify=specify, **fields, **options)


def results(rows) -> dict:
    return {(row.property, row.mode): row.result for row in rows}


def test_what_holds_is_proved_and_its_traces_are_reached(tmp_path):
    rows = check.check(proof(Bounded), tmp_path)
    assert results(rows) == {
        ("is_bounded", INDUCTION): "proved",
        ("steps_by_one", INDUCTION): "proved",
        ("is_bounded", "cover"): "reached",
        ("steps_by_one", "cover"): "reached",
    }
    assert all(row.good for row in rows)
    depth = {row.property: row.depth for row in rows if row.mode == "cover"}
    assert depth == {"is_bounded": MOST + 1, "steps_by_one": 2}
    assert rows[0].meaning == "It stays small."
    assert rows[0].as_json().keys() >= {
        "property", "component", "size", "engine", "mode", "depth", "seconds", "result"
    }  # fmt: skip


def test_an_outcome_is_kept_until_the_design_or_the_job_changes(tmp_path, monkeypatch):
    first = check.check(proof(Bounded), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("formal.sby._call", lambda *_: pytest.fail("a solver ran again"))
        assert check.check(proof(Bounded), tmp_path) == first
    rows = check.check(proof(lambda: Bounded(MOST - 1), mode=BOUNDED, depth=8), tmp_path)
    assert rows[0].result == "failed"


def test_what_fails_is_named_with_its_waveform(tmp_path):
    rows = check.check(proof(lambda: Bounded(MOST - 1), depth=12), tmp_path)
    assert results(rows)["is_bounded", INDUCTION] == "failed"
    assert results(rows)["steps_by_one", INDUCTION] == "unknown"
    assert not rows[0].good
    text = (tmp_path.parent / rows[0].waveform).read_text()
    assert re.search(r"\$var .* count \$end", text)


def test_what_is_not_inductive_or_not_reached_is_no_success(tmp_path):
    rows = check.check(proof(Skips), tmp_path)
    assert results(rows) == {
        ("is_never_nine", INDUCTION): "unknown",
        ("is_never_nine", "cover"): "unreached",
    }
    assert not any(row.good for row in rows)


def test_a_time_limit_is_reported_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("formal.sby._call", lambda *_: "SBY [job] DONE (TIMEOUT, rc=8)")
    rows = check.check(proof(Bounded), tmp_path)
    assert {row.result for row in rows} == {"timeout"}
    assert not list(tmp_path.rglob("outcome.json"))


def test_a_planted_fault_is_caught_by_the_property_that_it_breaks(tmp_path):
    fault = Fault("counts by two", "count", lambda count: count + 1)
    row = check.caught(proof(Bounded), fault, tmp_path)
    assert row.good
    assert row.caught_by == ["steps_by_one"]


def test_a_fault_that_breaks_nothing_is_not_caught(tmp_path):
    fault = Fault("nothing", "count", lambda count: count)
    assert not check.caught(proof(Bounded), fault, tmp_path).good


def test_a_property_needs_a_situation():
    class Vacuous(Specification):
        def specify(self, m):
            self.always("is_small", Const(1), "It is small.")

    with pytest.raises(ValueError, match="is_small: a property needs"):
        Vacuous(Counter()).to_rtlil()


# -- what is inside --------------------------------------------------------------------------------


def test_signals_and_memories_are_found_by_name():
    inside = Inside(Counter())
    assert inside.signal("count").name == "count"
    assert len(inside.memory("words").at(Signal(2))) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [("counts", "0 registers"), ("words.x", "0 registers"), ("lost.count", "no submodule 'lost'")],
)
def test_what_is_not_there_is_named(name, message):
    with pytest.raises(InsideError, match=message):
        Inside(Counter()).signal(name)


def test_a_signal_that_is_not_assigned_takes_no_fault():
    with pytest.raises(InsideError, match="step: is not assigned"):
        Inside(Counter()).plant("step", lambda step: step)


def test_a_signal_is_no_memory():
    with pytest.raises(InsideError):
        Inside(Counter()).memory("count")
