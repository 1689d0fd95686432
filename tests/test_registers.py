# amaranth: UnusedElaboratable=no
"""Register banks and the AXI4-Lite bridge: every kind of access, answers that wait, no wedge."""

import itertools
import random
import re

import pytest
from amaranth import Module, Signal
from amaranth.lib.wiring import connect

from hdl.config import PRESETS, SwitchConfig
from hdl.interfaces import HEADER_FIELDS, Flit
from hdl.registers import (
    PAGE_BYTES,
    PAGE_WORDS,
    RANK_PAGE,
    Axi4LiteBridge,
    Register,
    RegisterBank,
    addresses,
    context_registers,
    port_registers,
    rank_registers,
    switch_registers,
    system_registers,
)
from scripts import doc_tables
from tests.lib.axi import DECERR, OKAY, SLVERR
from tests.lib.simulate import pattern, run, until

TABLE = [
    Register("magic", "ro", 32, "a constant", 0x54474154, constant=True),
    Register("status", "ro", 32, "driven by hardware"),
    Register("wide", "ro", 48, "driven, two words"),
    Register("control", "rw", 16, "written and read back", 0x1234),
    Register("pair", "rw", 40, "two words", 0xAB_0000_0001),
    Register("start", "wo", 1, "a strobe"),
    Register("value", "wo", 32, "a strobe with a value"),
]
PAGE = 2
WHERE = addresses(TABLE, PAGE)


class Bench:
    """A bridge with two banks of one table, on pages 2 and 3."""

    def __init__(self):
        self.top = Module()
        self.top.submodules.bridge = self.bridge = Axi4LiteBridge()
        self.top.submodules.bank = self.bank = RegisterBank(TABLE, page=PAGE)
        self.top.submodules.other = self.other = RegisterBank(TABLE, page=PAGE + 1)
        bus, read_data, known = self.bridge.bus, Signal(32), Signal()
        for bank in (self.bank, self.other):
            for name in ("page", "word", "write", "write_data", "read"):
                self.top.d.comb += getattr(bank.bus, name).eq(getattr(bus, name))
        self.top.d.comb += [
            read_data.eq(self.bank.bus.read_data | self.other.bus.read_data),
            known.eq(self.bank.bus.known | self.other.bus.known),
            bus.read_data.eq(read_data),
            bus.known.eq(known),
        ]
        self.axil = self.bridge.axil

    async def write(self, ctx, address, data, strobe=0xF, *, order="both", ready=None):
        """The response, checked to hold while `ready` is withheld."""
        axil = self.axil
        ctx.set(axil.awaddr, address)
        ctx.set(axil.wdata, data)
        ctx.set(axil.wstrb, strobe)
        ctx.set(axil.awvalid, order != "data first")
        ctx.set(axil.wvalid, order != "address first")
        if order != "both":
            for _ in range(3):
                assert not ctx.get(axil.awready)
                assert not ctx.get(axil.wready)
                await ctx.tick()
            ctx.set(axil.awvalid, 1)
            ctx.set(axil.wvalid, 1)
        await until(ctx, axil.awready & axil.wready)
        ctx.set(axil.awvalid, 0)
        ctx.set(axil.wvalid, 0)
        (response,) = await self._answer(ctx, axil.bvalid, axil.bready, [axil.bresp], ready)
        return response

    async def read(self, ctx, address, *, ready=None):
        """(data, response)"""
        axil = self.axil
        ctx.set(axil.araddr, address)
        ctx.set(axil.arvalid, 1)
        await until(ctx, axil.arready)
        ctx.set(axil.arvalid, 0)
        payload = [axil.rdata, axil.rresp]
        return await self._answer(ctx, axil.rvalid, axil.rready, payload, ready)

    async def _answer(self, ctx, valid, ready, payload, willing):
        offered = None
        for goes in willing or itertools.repeat(True):
            ctx.set(ready, goes)
            _, _, shown, *values = await ctx.tick().sample(valid, *payload)
            if offered is not None:
                assert shown, "an answer was withdrawn"
                assert values == offered, "an answer changed before it was taken"
            if shown and goes:
                break
            offered = values if shown else None
        ctx.set(ready, 0)
        assert not ctx.get(valid), "an answer was given twice"
        return tuple(values)

    def run(self, bench, **more):
        run(self.top, bench, **more)


def watch(bench, strobes, *names):
    """A background bench that notes every cycle in which a register's strobe is up."""

    async def background(ctx):
        signals = [getattr(bench.bank, f"{name}_written") for name in names]
        values = [getattr(bench.bank, name) for name in names]
        async for _, _, *sampled in ctx.tick().sample(*signals, *values):
            for i, name in enumerate(names):
                if sampled[i]:
                    strobes.append((name, sampled[len(names) + i]))

    return background


def test_every_kind_of_register():
    bench = Bench()
    strobes = []

    async def body(ctx):
        ctx.set(bench.bank.status, 0xDEADBEEF)
        assert await bench.read(ctx, WHERE["magic"]) == (0x54474154, OKAY)
        assert await bench.read(ctx, WHERE["status"]) == (0xDEADBEEF, OKAY)
        assert await bench.read(ctx, WHERE["control"]) == (0x1234, OKAY)
        assert await bench.write(ctx, WHERE["control"], 0xFFFF8765) == OKAY
        assert await bench.read(ctx, WHERE["control"]) == (0x8765, OKAY)
        assert ctx.get(bench.bank.control) == 0x8765
        # A strobe reads zero; what is read-only or constant does not move.
        assert await bench.write(ctx, WHERE["value"], 0xCAFE) == OKAY
        assert await bench.write(ctx, WHERE["start"], 1) == OKAY
        assert await bench.read(ctx, WHERE["value"]) == (0, OKAY)
        assert await bench.write(ctx, WHERE["magic"], 0) == OKAY
        assert await bench.write(ctx, WHERE["status"], 0) == OKAY
        assert await bench.read(ctx, WHERE["magic"]) == (0x54474154, OKAY)
        assert await bench.read(ctx, WHERE["status"]) == (0xDEADBEEF, OKAY)
        # The other page has its own.
        assert await bench.read(ctx, WHERE["control"] + PAGE_BYTES) == (0x1234, OKAY)

    run(bench.top, body, background=[watch(bench, strobes, "control", "start", "value")])
    assert strobes == [("control", 0x1234), ("value", 0xCAFE), ("start", 1)]


def test_wide_registers():
    """Reading the low word keeps the high one; writing one word leaves the other."""
    bench = Bench()

    async def body(ctx):
        ctx.set(bench.bank.wide, 0x1111_22222222)
        assert await bench.read(ctx, WHERE["wide"]) == (0x22222222, OKAY)
        ctx.set(bench.bank.wide, 0x3333_44444444)
        assert await bench.read(ctx, WHERE["wide"] + 4) == (0x1111, OKAY)
        assert await bench.read(ctx, WHERE["wide"]) == (0x44444444, OKAY)
        assert await bench.read(ctx, WHERE["wide"] + 4) == (0x3333, OKAY)

        assert ctx.get(bench.bank.pair) == 0xAB_0000_0001
        assert await bench.write(ctx, WHERE["pair"], 0x55667788) == OKAY
        assert ctx.get(bench.bank.pair) == 0xAB_5566_7788
        assert await bench.write(ctx, WHERE["pair"] + 4, 0xFFFFFF12) == OKAY
        assert ctx.get(bench.bank.pair) == 0x12_5566_7788
        assert await bench.read(ctx, WHERE["pair"]) == (0x55667788, OKAY)
        assert await bench.read(ctx, WHERE["pair"] + 4) == (0x12, OKAY)

    bench.run(body)


@pytest.mark.parametrize(
    "address", [max(WHERE.values()) + 4, (PAGE + 1) * PAGE_BYTES - 4, 0, 0xFFFC, 5 * PAGE_BYTES]
)
def test_an_unknown_address_is_answered_with_decerr(address):
    """Never silence; and nothing is changed or strobed."""
    bench = Bench()
    strobes = []

    async def body(ctx):
        assert await bench.write(ctx, address, 0xFFFFFFFF) == DECERR
        assert await bench.read(ctx, address) == (0, DECERR)
        assert await bench.write(ctx, address, 0, strobe=0x3) == DECERR
        assert await bench.read(ctx, WHERE["control"]) == (0x1234, OKAY)

    names = [r.name for r in TABLE if r.access != "ro"]
    run(bench.top, body, background=[watch(bench, strobes, *names)])
    assert strobes == []


@pytest.mark.parametrize("strobe", range(15))
def test_a_partial_write_is_refused_and_changes_nothing(strobe):
    bench = Bench()
    strobes = []

    async def body(ctx):
        assert await bench.write(ctx, WHERE["control"], 0, strobe=strobe) == SLVERR
        assert await bench.write(ctx, WHERE["value"], 0, strobe=strobe) == SLVERR
        assert await bench.read(ctx, WHERE["control"]) == (0x1234, OKAY)

    run(bench.top, body, background=[watch(bench, strobes, "control", "value")])
    assert strobes == []


@pytest.mark.parametrize("order", ["both", "address first", "data first"])
def test_address_and_data_of_a_write_in_any_order(order):
    bench = Bench()

    async def body(ctx):
        assert await bench.write(ctx, WHERE["control"], 0x42, order=order) == OKAY
        assert ctx.get(bench.bank.control) == 0x42

    bench.run(body)


@pytest.mark.parametrize("shape", ["always", "half", "quarter", "bursts"])
def test_an_error_is_held_until_it_is_taken_and_the_channel_goes_on(shape):
    """Answers with and without errors, against a manager that is seldom ready."""
    bench = Bench()
    draw = random.Random(shape)
    ready = pattern(shape, 1)

    async def body(ctx):
        control = 0x1234
        for _ in range(60):
            kind = draw.choice(["read", "write", "unknown read", "unknown write", "partial"])
            value = draw.getrandbits(16)
            if kind == "read":
                assert await bench.read(ctx, WHERE["control"], ready=ready) == (control, OKAY)
            elif kind == "write":
                assert await bench.write(ctx, WHERE["control"], value, ready=ready) == OKAY
                control = value
            elif kind == "unknown read":
                assert await bench.read(ctx, 0, ready=ready) == (0, DECERR)
            elif kind == "unknown write":
                assert await bench.write(ctx, 0, value, ready=ready) == DECERR
            else:
                answer = await bench.write(ctx, WHERE["control"], value, 7, ready=ready)
                assert answer == SLVERR

    bench.run(body)


def test_back_to_back_accesses_take_four_cycles():
    bench = Bench()
    axil = bench.axil

    async def body(ctx):
        ctx.set(axil.bready, 1)
        ctx.set(axil.rready, 1)
        ctx.set(axil.wstrb, 0xF)
        ctx.set(axil.awaddr, WHERE["control"])
        ctx.set(axil.awvalid, 1)
        ctx.set(axil.wvalid, 1)
        for value in range(8):
            ctx.set(axil.wdata, value)
            assert ctx.get(axil.awready)
            await ctx.tick().repeat(3)
            assert ctx.get(axil.bvalid)
            assert ctx.get(bench.bank.control) == value
            await ctx.tick()
        ctx.set(axil.awvalid, 0)
        ctx.set(axil.wvalid, 0)
        ctx.set(axil.araddr, WHERE["control"])
        ctx.set(axil.arvalid, 1)
        for _ in range(8):
            assert ctx.get(axil.arready)
            await ctx.tick().repeat(3)
            assert ctx.get(axil.rvalid)
            assert ctx.get(axil.rdata) == 7
            await ctx.tick()

    bench.run(body)


def test_reads_and_writes_at_once_are_both_answered():
    bench = Bench()
    axil = bench.axil

    async def body(ctx):
        ctx.set(axil.awaddr, WHERE["control"])
        ctx.set(axil.wdata, 0x77)
        ctx.set(axil.wstrb, 0xF)
        ctx.set(axil.araddr, WHERE["control"])
        for signal in (axil.awvalid, axil.wvalid, axil.arvalid, axil.bready, axil.rready):
            ctx.set(signal, 1)
        await until(ctx, axil.awready)
        ctx.set(axil.awvalid, 0)
        ctx.set(axil.wvalid, 0)
        await until(ctx, axil.bvalid)
        await until(ctx, axil.arready)
        ctx.set(axil.arvalid, 0)
        assert await until(ctx, axil.rvalid, axil.rdata) == [0x77]

    bench.run(body)


# -- tables ----------------------------------------------------------------------------------------


def tables(config):
    return {
        "switch": switch_registers(config),
        "system": system_registers(config),
        "rank": rank_registers(config),
        "ports": port_registers(config),
        "context": context_registers(config),
    }


#: What gives a configuration most registers.
MOST = dict(contexts=8, core="forward", formats=("fp16", "bf16", "inq8"), waves=16)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("ranks", [2, 16])
@pytest.mark.parametrize("more", [{}, MOST], ids=["as it is", "most"])
def test_tables_are_sound(preset, ranks, more):
    """Names are unique, values fit their width, each table fits its page and its addresses."""
    config = SwitchConfig.preset(preset, ranks=ranks, **more)
    for table in tables(config).values():
        where = addresses(table, 1)
        assert len(where) == len(table)
        words = sum(register.words for register in table)
        assert words <= PAGE_WORDS
        for register in table:
            assert register.access in ("ro", "rw", "wo")
            assert 1 <= register.width <= 64
            assert 0 <= register.reset < 1 << register.width
            assert register.meaning
            assert not (register.constant and register.access != "ro")
    assert (RANK_PAGE + ranks) * PAGE_BYTES <= 1 << 16


@pytest.mark.parametrize("ranks", [2, 16])
def test_registers_of_quantized_operations_are_there_where_they_are_built(ranks):
    """At their places among the others, which stay in order; the whole still fits its page."""
    plain = SwitchConfig.preset("demo", ranks=ranks)
    both = SwitchConfig.preset("demo", ranks=ranks, formats=("fp16", "bf16", "inq8"))
    before = [register.name for register in switch_registers(plain)]
    after = [register.name for register in switch_registers(both)]
    scales = [f"scale_{side}_{rank}" for side in ("source", "destination") for rank in range(ranks)]
    blocks = ["blocks_nan", "blocks_overflow"]
    assert [name for name in after if name not in scales + blocks] == before
    flag = after.index(f"flag_{ranks - 1}")
    assert after[flag + 1 : flag + 2 + len(scales)] == [*scales, "length"]
    overflow = after.index("values_overflow")
    assert after[overflow + 1 : overflow + 5] == [*blocks, "clear", "sticky"]
    by_name = {register.name: register for register in switch_registers(both)}
    assert {by_name[name].access for name in scales} == {"wo"}
    assert {(by_name[name].access, by_name[name].width) for name in blocks} == {("ro", 32)}
    assert by_name["sticky"].width == 4
    assert "2 inq8" in by_name["format"].meaning
    assert sum(register.words for register in by_name.values()) <= PAGE_WORDS


def test_sticky_is_in_every_configuration():
    for formats, width in ((("fp16",), 2), (("inq8",), 4)):
        table = switch_registers(SwitchConfig.preset("demo", formats=formats))
        names = [register.name for register in table]
        assert names[names.index("clear") + 1] == "sticky"
        assert table[names.index("sticky")].width == width


def test_the_first_registers_say_what_it_is():
    config = SwitchConfig.preset("tiny")
    names = [register.name for register in switch_registers(config)]
    assert names[:4] == ["identity", "version", "config_digest", "geometry"]
    identity = switch_registers(config)[0].reset
    assert identity.to_bytes(4, "big") == b"TGAT"
    digest = switch_registers(config)[2].reset
    assert f"{digest:08x}" == config.digest[:8]


def test_a_table_that_overflows_its_page_is_refused():
    table = [Register(f"r{n}", "rw", 64, "two words") for n in range(129)]
    with pytest.raises(ValueError, match=re.escape("registers: 258 words do not fit a page")):
        addresses(table, 0)


def test_every_register_of_a_rank_through_a_bank():
    """Reset values, and every writable bit of the real table."""
    config = SwitchConfig.preset("tiny")
    table = rank_registers(config)
    bank = RegisterBank(table, page=0)
    bridge = Axi4LiteBridge()
    top = Module()
    top.submodules.bank, top.submodules.bridge = bank, bridge
    connect(top, bridge.bus, bank.bus)
    bench = Bench()
    bench.axil = bridge.axil
    where = addresses(table, 0)

    async def body(ctx):
        for register in table:
            if register.access != "rw":
                continue
            for word in range(register.words):
                width = min(32, register.width - 32 * word)
                address = where[register.name] + 4 * word
                reset = register.reset >> 32 * word & 0xFFFFFFFF
                assert await bench.read(ctx, address) == (reset, OKAY)
                assert await bench.write(ctx, address, 0xFFFFFFFF) == OKAY
                assert await bench.read(ctx, address) == ((1 << width) - 1, OKAY)

    run(top, body)


# -- documentation ---------------------------------------------------------------------------------


def test_tables_in_docs_are_up_to_date():
    stale = [path.name for path in doc_tables.stale()]
    assert not stale, "run `python -m scripts.doc_tables`"


def test_every_table_stands_in_some_page():
    text = "".join(path.read_text() for path in doc_tables.DOCS.rglob("*.md"))
    assert set(re.findall(r"<!-- table: (\w+) -->", text)) == set(doc_tables.TABLES)


def test_a_changed_table_is_noticed(monkeypatch, capsys, tmp_path):
    """--check names the page, writes nothing and exits with 1; without it the page is mended."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("<!-- table: system_registers -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(doc_tables, "DOCS", page.parent)
    monkeypatch.setattr("sys.argv", ["doc_tables", "--check"])
    assert doc_tables.main() == 1
    assert "docs/page.md: differs" in capsys.readouterr().err
    assert "old" in page.read_text()
    monkeypatch.setattr("sys.argv", ["doc_tables"])
    assert doc_tables.main() == 0
    assert "`link_latency`" in page.read_text()
    monkeypatch.setattr("sys.argv", ["doc_tables", "--check"])
    assert doc_tables.main() == 0


def test_every_field_of_the_wire_is_described():
    config = SwitchConfig.preset(doc_tables.PRESET)
    assert list(doc_tables.HEADER_MEANING) == list(HEADER_FIELDS)
    assert list(doc_tables.FLIT_MEANING) == [name for name, _ in Flit(config)]
