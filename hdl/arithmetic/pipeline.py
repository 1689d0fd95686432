"""Registers and trees of a pipeline that never stalls.

Data registers take no reset, and move only where their cycle's ``valid`` is set: that spares power
on a device and work in a simulator. Only ``valid`` itself is reset.
"""

from amaranth import Signal

__all__ = ["LEVELS_PER_STAGE", "carry", "reduce_pairs", "register", "tree_delay", "tree_levels"]

#: Levels of a tree between two registers.
LEVELS_PER_STAGE = 2


def register(m, value, *, valid, name):
    """`value` one cycle later."""
    later = Signal(value.shape(), name=name, reset_less=True)
    with m.If(valid):
        m.d.sync += later.eq(value)
    return later


def carry(m, value, *, valids, name):
    """`value` through one register for each of `valids`; the first is its own cycle's."""
    for step, valid in enumerate(valids, start=1):
        value = register(m, value, valid=valid, name=f"{name}_{step}")
    return value


def tree_levels(leaves: int) -> int:
    """Levels of a binary tree; also the bits by which a sum outgrows its summands."""
    return (leaves - 1).bit_length()


def tree_delay(leaves: int) -> int:
    """Cycles that `reduce_pairs` takes."""
    return -(-tree_levels(leaves) // LEVELS_PER_STAGE)


def reduce_pairs(m, leaves, combine, *, valid, label=""):
    """Reduces a list of tuples of values to one, neighbours first, in `tree_delay` cycles.

    ``combine(left, right, name)`` makes one tuple of two. An odd one out goes through unchanged.
    `label` ends the names of its registers, where a module has several trees.
    """
    nodes = leaves
    levels = tree_levels(len(leaves))
    for level in range(1, levels + 1):
        pairs = [nodes[k : k + 2] for k in range(0, len(nodes), 2)]
        nodes = [
            combine(*pair, f"level{level}_{k}") if len(pair) == 2 else pair[0]
            for k, pair in enumerate(pairs)
        ]
        if level % LEVELS_PER_STAGE and level < levels:
            continue
        nodes = [
            tuple(
                register(m, value, valid=valid, name=f"stage{level}_{k}_{part}{label}")
                for part, value in enumerate(node)
            )
            for k, node in enumerate(nodes)
        ]
        if level < levels:
            later = Signal(name=f"valid{level}{label}")
            m.d.sync += later.eq(valid)
            valid = later
    return nodes[0]
