"""Codes and scales that look for trouble: ties, edges, cancellation, specials, subnormals."""

import numpy as np

#: Scales at the edges, sign aside: zero, smallest, subnormals, one, largest.
EDGES = {
    "fp16": (0, 1, 2, 0x3FF, 0x400, 0x401, 0x3C00, 0x6FFF, 0x7BFE, 0x7BFF),
    "bf16": (0, 1, 2, 0x7F, 0x80, 0x81, 0x3F80, 0x7EFF, 0x7F7E, 0x7F7F),
    "e8m0": (0, 1, 2, 0x7E, 0x7F, 0x80, 0xFD, 0xFE),
}
#: NaN, infinities, negative numbers.
BAD = {
    "fp16": (0x7C00, 0x7C01, 0x7E00, 0xFC00, 0xFFFF, 0x8001, 0xBC00),
    "bf16": (0x7F80, 0x7F81, 0x7FC0, 0xFF80, 0xFFFF, 0x8001, 0xBF80),
    "e8m0": (0xFF,),
}
#: Largest finite scale, and its type.
LARGEST = {"fp16": 0x7BFF, "bf16": 0x7F7F, "e8m0": 0xFE}
DTYPE = {"fp16": np.uint16, "bf16": np.uint16, "e8m0": np.uint8}
#: Bits of a scale's fraction.
FRACTION_BITS = {"fp16": 10, "bf16": 7, "e8m0": 0}


def _scales_of_block(random, ranks, name):
    largest, fraction_bits = LARGEST[name], FRACTION_BITS[name]
    kind = random.integers(8)
    if kind == 0:
        return random.choice(EDGES[name], ranks)
    if kind == 1:  # all equal: exact ties
        return np.full(ranks, random.integers(largest + 1))
    if kind == 2:
        return random.integers(0, largest + 1, ranks)
    if kind == 3:  # the largest ones: overflow
        return largest - random.integers(0, 3, ranks)
    if kind == 4:  # the smallest ones: subnormals
        return random.integers(0, 2 << fraction_bits, ranks)
    if kind == 5 and random.random() < 0.5:
        scales = random.integers(0, largest + 1, ranks)
        scales[random.integers(ranks)] = random.choice(BAD[name])
        return scales
    # Near in exponent, or around where a scale is cut off.
    field = largest >> fraction_bits
    base = random.integers(0, field + 1)
    span = random.choice([1, 4, 32])
    exponent = np.clip(base - random.integers(0, span + 1, ranks), 0, field)
    exponent[random.integers(ranks)] = base
    fraction = random.integers(0, 1 << fraction_bits, ranks) & random.choice([0, 1, -1], ranks)
    return exponent << fraction_bits | fraction


def _codes_of_block(random, ranks, block):
    kind = random.integers(7)
    codes = random.integers(-128, 128, (ranks, block))
    if kind == 0:
        codes = random.choice([-128, -127, -1, 0, 1, 127], (ranks, block))
    elif kind == 1:
        codes = np.zeros((ranks, block), np.int64)
        if random.random() < 0.7:
            codes[random.integers(ranks), random.integers(block)] = random.integers(-128, 128)
    elif kind == 2:  # cancellation
        codes[1::2] = -codes[: ranks // 2 * 2 : 2].clip(-127)
        codes[:, random.integers(block)] += random.choice([-1, 0, 1], ranks)
    elif kind == 3:  # one outlier
        codes = random.integers(-2, 3, (ranks, block))
        codes[:, random.integers(block)] = random.choice([-128, 127])
    elif kind == 4:  # one rank alone: what went in
        codes[1:] = 0
    return codes.clip(-128, 127)


def _at_the_cut(random, ranks, block, name):
    """Two ranks that cancel, so that what is left of the others, far below them, shows."""
    codes, fraction_bits = _codes_of_block(random, ranks, block), FRACTION_BITS[name]
    field = random.integers(LARGEST[name] >> fraction_bits) + 1
    down = random.integers(15, 45, ranks)
    below = np.maximum(field - down, 0) << fraction_bits
    scales = below | random.integers(0, 1 << fraction_bits, ranks)
    scales[:2] = field << fraction_bits
    codes[1] = -codes[0].clip(-127)
    codes[0] = -codes[1]
    return codes, scales


def operands(random: np.random.Generator, ranks: int, n: int, block: int, name: str):
    """Codes (ranks, n) int8 and scales (ranks, blocks), each block of one of several kinds."""
    codes, scales = [], []
    for _ in range(-(-n // block)):
        if random.random() < 0.2:
            pair = _at_the_cut(random, ranks, block, name)
        else:
            pair = _codes_of_block(random, ranks, block), _scales_of_block(random, ranks, name)
        codes.append(pair[0])
        scales.append(pair[1])
    codes = np.concatenate(codes, axis=1)[:, :n].astype(np.int8)
    return codes, np.stack(scales, axis=1).astype(DTYPE[name])
