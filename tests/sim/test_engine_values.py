"""What CXXRTL models are built on: each operator at many widths, against Amaranth's simulator."""

import random

import pytest
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from sim.engines import create, runtime
from sim.engines.base import Harness
from sim.engines.build import _cxx, _rtlil, _script, find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler: apt g++")

#: Around a 32-bit and a 64-bit word, and of several.
WIDTHS = (1, 2, 7, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200)
SEED = 1


def operators(a, b, amount):
    """Every kind of expression of two operands and a small unsigned one."""
    yield from (a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, -a)
    yield from (a == b, a != b, a < b, a <= b, a > b, a >= b)
    yield from (a << amount, a >> amount, b >> amount)
    yield from (a.any(), a.all(), a.xor(), a.bool(), ~a.xor())
    yield from (Mux(a.any(), a, b), Cat(a, b, amount), Cat(amount, b)[1:-1])
    # What lies beyond a signed value's bits is not the same for all of Amaranth's back ends.
    x, y = Cat(a), Cat(b)
    yield from (x.bit_select(amount, 1), y.bit_select(amount, min(len(b), 40)))
    yield from (x.word_select(amount[:2], max(len(a) // 4, 1)), Array([a, b, a ^ b])[amount[:2]])
    yield (a + b)[len(a) // 2 :]
    yield a.as_unsigned().replicate(2)


class Expressions(wiring.Component):
    """Pairs of operands of random shapes, and the expressions of each pair as outputs."""

    def __init__(self, seed: int, pairs: int):
        rng = random.Random(seed)
        ports, self._pairs = {}, []
        for number in range(pairs):
            shapes = [
                (signed if rng.random() < 0.5 else unsigned)(rng.choice(WIDTHS)) for _ in range(2)
            ]
            names = [f"a{number}", f"b{number}", f"by{number}"]
            shapes.append(unsigned(rng.choice((3, 8))))
            ports |= {name: In(shape) for name, shape in zip(names, shapes, strict=True)}
            operands = [Signal(shape) for shape in shapes]
            results = [Signal(each.shape()).shape() for each in operators(*operands)]
            outputs = [f"y{number}_{place}" for place in range(len(results))]
            ports |= {name: Out(shape) for name, shape in zip(outputs, results, strict=True)}
            self._pairs.append((names, outputs))
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        for number, (names, outputs) in enumerate(self._pairs):
            operands = [getattr(self, name) for name in names]
            for output, value in zip(outputs, operators(*operands), strict=True):
                m.d.comb += getattr(self, output).eq(value)
            # Parts that are assigned on their own, and a register of each width.
            first = operands[0]
            cut = Signal(len(first) + 70, name=f"cut{number}")
            m.d.sync += cut[: len(first)].eq(~first)
            with m.If(operands[1].any()):
                m.d.sync += cut[len(first) + 3 :].eq(operands[1])
            with m.If(first.xor()):
                m.d.sync += Cat(cut[0], cut[-1]).eq(first[-1].replicate(2))
            m.d.comb += getattr(self, outputs[-1]).eq(cut.as_unsigned()[: 2 * len(first)])
        return m


def operand(rng: random.Random, width: int) -> int:
    """Extremes, single bits, and anything."""
    full = (1 << width) - 1
    return rng.choice(
        (
            0,
            full,
            1,
            full >> 1,
            full ^ (full >> 1),
            1 << rng.randrange(width),
            rng.getrandbits(width),
        )
    )


def alike(top, rng: random.Random, cycles: int, folder):
    """Every output in every cycle, with inputs of `operand`."""
    with create("cxxrtl", top, cache_dir=folder) as fast, create("pysim", top) as slow:
        inputs = [port for port in slow.ports.values() if port.is_input]
        outputs = [name for name, port in slow.ports.items() if not port.is_input]
        for _ in range(cycles):
            for port in inputs:
                value = operand(rng, len(port.signal))
                fast.set(port.name, value)
                slow.set(port.name, value)
            fast.step(1)
            slow.step(1)
            for name in outputs:
                assert fast.get(name) == slow.get(name), (name, fast.cycle)


def model_of(top) -> str:
    return _cxx(_rtlil(Harness(top())), _script(waves=False))


@needs_compiler
@pytest.mark.parametrize(
    ("seed", "pairs"),
    [(1, 16), *(pytest.param(seed, 100, marks=pytest.mark.long) for seed in (2, 3, 4))],
)
def test_every_operator_at_every_width(tmp_path, seed, pairs):
    def top():
        return Expressions(seed, pairs)

    assert runtime.serves(model_of(top))
    alike(top, random.Random(seed), 60, tmp_path)


class Quotient(wiring.Component):
    """What the runtime does not have."""

    a: In(80)
    b: In(70)
    y: Out(80)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.y.eq(self.a // self.b)
        return m


@needs_compiler
def test_other_cells_are_built_on_yosys_own_runtime(tmp_path):
    assert not runtime.serves(model_of(Quotient))
    rng = random.Random(SEED)
    with create("cxxrtl", Quotient, cache_dir=tmp_path) as engine:
        for _ in range(20):
            a, b = operand(rng, 80), operand(rng, 70) | 1
            engine.set("a", a)
            engine.set("b", b)
            engine.step(1)
            assert engine.get("y") == a // b


def test_a_model_that_calls_back_is_built_on_yosys_own_runtime():
    assert runtime.serves("y = add_uu<8>(a, b).slice<3,1>().val();")
    assert not runtime.serves("y = div_uu<8>(a, b);")
    assert not runtime.serves("if (performer) performer->on_print(formatter, attributes);")
