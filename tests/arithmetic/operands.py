"""Operands that look for trouble: random bits, near exponents, cancellation, edges, specials."""

import numpy as np

#: Exponent and fraction bits, by format.
WIDTHS = {"fp16": (5, 10), "bf16": (8, 7)}

#: Numbers at the edges, sign aside.
EDGES = {
    "fp16": (0, 1, 2, 0x3FF, 0x400, 0x401, 0x3C00, 0x3C01, 0x6800, 0x7BFF, 0x7BFE, 0x7C00, 0x7E00,
             0x7C01),
    "bf16": (0, 1, 2, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x3380, 0x2F80, 0x7F7F, 0x7F7E, 0x7F80,
             0x7FC0, 0x7F81),
}  # fmt: skip


def _fields(random, shape, name, low, high):
    """Finite numbers with exponent fields from `low` to `high` and telling fractions."""
    _, fraction_bits = WIDTHS[name]
    exponent = random.integers(low, high + 1, shape)
    ones = (1 << fraction_bits) - 1
    fraction = random.integers(0, ones + 1, shape) & random.choice([0, 1, ones], shape)
    return random.integers(0, 2, shape) << 15 | exponent << fraction_bits | fraction


def _broken_ties(random, shape, name):
    """A number, half a unit of its last place, and operands far below that break the tie or not.

    In bf16 these lie on both sides of what is cut off, 2^(E-31).
    """
    exponent_bits, fraction_bits = WIDTHS[name]
    top = random.integers(0, (1 << exponent_bits) - 1, shape[1])
    field = np.maximum(top - random.integers(20, 42, shape), 0)
    field[0], field[1] = top, np.maximum(top - fraction_bits - 1, 0)
    fraction = random.integers(0, 1 << fraction_bits, shape) & random.choice([0, 127], shape)
    fraction[1] = 0
    return random.integers(0, 2, shape) << 15 | field << fraction_bits | fraction


def operands(random: np.random.Generator, ranks: int, elements: int, name: str) -> np.ndarray:
    """Bits of operands (ranks, elements), each element of one of several kinds."""
    exponent_bits, fraction_bits = WIDTHS[name]
    top = (1 << exponent_bits) - 2
    shape = (ranks, elements)
    base = random.integers(0, top + 1, elements)
    kinds = [random.integers(0, 1 << 16, shape)]
    for span in (0, 1, 12, 24, 32):
        low, high = np.clip(base - span, 0, top), np.clip(base + span, 0, top)
        kinds.append(_fields(random, shape, name, low, high))
    kinds.append(random.choice(EDGES[name], shape) | random.integers(0, 2, shape) << 15)
    kinds.append(random.integers(0, 2, shape) << 15 | random.integers(0, 3, shape))
    kinds.append(_fields(random, shape, name, top - 1, top))
    kinds += [_broken_ties(random, shape, name)] * 2
    # Cancellation: every second rank is the one before, negative; the last stays alone.
    cancelling = kinds[random.integers(1, 6)].copy()
    cancelling[1::2] = cancelling[: ranks // 2 * 2 : 2] ^ 0x8000
    kinds.append(cancelling)
    chosen = random.integers(0, len(kinds), elements)
    return np.choose(chosen, kinds).astype(np.uint16)
