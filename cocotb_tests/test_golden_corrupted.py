"""No test that moves data passes when golden is changed by one bit, wherever it asks for golden."""

import json
from pathlib import Path

import pytest

from cocotb_tests.lib.attached import TOP, attached_switch
from cocotb_tests.lib.configs import CONTEXTS, FORWARDING, INQ, TINY
from cocotb_tests.lib.scoreboard import Mismatch

#: Benches with data in them: component, configuration, module.
BENCHES = [
    ("endpoint", TINY, "tb_endpoint"),
    ("link", TINY, "tb_link"),
    ("port", TINY, "tb_port"),
    ("core", FORWARDING, "tb_core"),
    ("core-stub", TINY, "tb_core_stub"),
    ("wave-table", TINY, "tb_wave_table"),
    ("wave-table", INQ, "tb_wave_table"),  # also golden scales
    ("wave-controller", TINY, "tb_wave_controller"),
    ("write-back", TINY, "tb_write_back"),
    ("reducer", TINY, "tb_reducer"),
    ("inq-reducer", INQ, "tb_inq_reducer"),
    ("axi4-lite-bridge", TINY, "tb_registers"),
]
#: The whole switch, which is quick on one simulator only; and what has no data.
WHOLE = ["tb_switch_packets", "tb_switch_contexts", "tb_switch_memories", "tb_switch_registers"]
#: Those of them that join nothing to the switch, and of what configuration.
ALONE = {"tb_switch_packets": TINY, "tb_switch_contexts": CONTEXTS}
WITHOUT_DATA = ["tb_barrier"]


#: Cases of a run, which has to come to every place once.
CASES = 4


def check(simulate, component, config, module, *, cases=CASES, **options):
    """Each place of each test makes it fail, by its scoreboard, when golden is wrong there."""
    options |= dict(cases=cases)
    tests = places(simulate(component, config, module, **options))
    assert tests
    for number in range(1, max(map(len, tests.values())) + 1):
        outcome = simulate(component, config, module, corrupt=number, **options)
        due = {name for name, asked in tests.items() if len(asked) >= number}
        passed = sorted(f"{name}: {tests[name][number - 1]}" for name in due - set(outcome.failed))
        assert not passed, "pass though golden is wrong"
        assert set(outcome.failed) == due
        for name, message in outcome.failed.items():
            assert Mismatch.__name__ in message, f"{name} failed otherwise: {message}"


def places(outcome) -> dict[str, list[str]]:
    """Where each test that moves data asked for golden; others ask nowhere."""
    lines = (outcome.folder / "cases.jsonl").read_text().splitlines()
    tests = {line["test"]: line for line in map(json.loads, lines)}
    for name, line in tests.items():
        assert bool(line["golden"]) == line["moves_data"], f"{name}: moves_data is wrong"
    return {name: line["golden"] for name, line in tests.items() if line["moves_data"]}


@pytest.mark.long
@pytest.mark.simulators("icarus")
@pytest.mark.parametrize(
    ("component", "config", "module"),
    BENCHES,
    ids=[
        f"{module}-codes" if "inq8" in config.formats else module for _, config, module in BENCHES
    ],
)
def test_components(simulate, component, config, module):
    check(simulate, component, config, module)


@pytest.mark.simulators("icarus")
def test_one_component(simulate):
    """The quick share of it."""
    check(simulate, "wave-table", TINY, "tb_wave_table", cases=1)


@pytest.mark.long
@pytest.mark.simulators("verilator")
@pytest.mark.parametrize("module", WHOLE)
def test_whole_switch(simulate, module):
    """Registers included."""
    if module in ALONE:
        check(simulate, "switch", ALONE[module], module, cases=2)
    else:
        check(simulate, TOP, TINY, module, cases=2, verilog=attached_switch(TINY))


def test_every_bench_is_here():
    """A new bench is put above."""
    known = {module for _, _, module in BENCHES} | {*WHOLE, *WITHOUT_DATA}
    there = [path.stem for path in Path(__file__).parent.glob("tb_*.py")]
    assert sorted(known) == sorted(there)
