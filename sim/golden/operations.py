"""What an All-Reduce may do with the ranks' numbers: sum, maximum, minimum, average, to the bit."""

import numpy as np

from .align import align, reference_exponent
from .allreduce import Status, checked_operands, sum_all, with_specials
from .decode import decode
from .extremum import float_extremum, integer_extremum
from .formats import FORMATS
from .round import round_quotient

__all__ = ["INT32", "OPERATIONS", "OPERATIONS_OF", "all_reduce", "average"]

#: The integer format: two's complement.
INT32 = "int32"
#: Every operation, in the order of their codes in an instruction.
OPERATIONS = ("sum", "max", "min", "average")
#: The operations that each format has.
OPERATIONS_OF = {
    "fp16": OPERATIONS,
    "bf16": OPERATIONS,
    INT32: ("sum", "max", "min"),
}


def all_reduce(
    operands: np.ndarray, format: str, operation: str = "sum"
) -> tuple[np.ndarray, Status]:
    """One result of all ranks' operands, element by element.

    Parameters
    ----------
    operands : (ranks, n); uint16 bits of ``fp16`` and ``bf16``, int32 for ``int32``; the ranks
        that take part, 1 to 16
    format : ``"fp16"``, ``"bf16"`` or ``"int32"``
    operation : one of `OPERATIONS_OF` the format

    Returns
    -------
    bits : (n,), of the operands' type
    status : of each element; integers have none

    Raises
    ------
    ValueError : another format or operation, shape or type
    """
    if format not in OPERATIONS_OF:
        raise ValueError(f"format: must be one of {', '.join(OPERATIONS_OF)}, not {format!r}")
    if operation not in OPERATIONS_OF[format]:
        names = ", ".join(OPERATIONS_OF[format])
        raise ValueError(f"operation: must be one of {names} for {format}, not {operation!r}")
    checked_operands(operands, np.int32 if format == INT32 else np.uint16)
    if format == INT32:
        return _integers(operands, operation)
    layout = FORMATS[format]
    if operation == "sum":
        return sum_all(operands, layout)
    if operation == "average":
        return average(operands, format)
    return float_extremum(operands, layout, largest=operation == "max")


def average(operands: np.ndarray, format: str) -> tuple[np.ndarray, Status]:
    """The sum that `all_reduce_sum` rounds, divided by the number of ranks and then rounded, once.

    An average that rounds to zero keeps its sign; a sum of zero has the sign that it has as a sum.
    """
    layout = FORMATS[format]
    decoded = decode(operands, layout)
    reference = reference_exponent(decoded, layout)
    total = align(decoded, reference, layout).sum(axis=0)
    finite = round_quotient(total, len(operands), reference, layout)
    return with_specials(finite, total, decoded, layout)


def _integers(operands: np.ndarray, operation: str) -> tuple[np.ndarray, Status]:
    """Two's complement; a sum keeps its lowest 32 bits."""
    if operation == "sum":
        # The sum of 16 numbers fits int64; the conversion keeps the lowest 32 bits.
        result = operands.astype(np.int64).sum(axis=0).astype(np.int32)
    else:
        result = integer_extremum(operands, largest=operation == "max")
    never = np.zeros(result.shape, bool)
    return result, Status(nan=never, overflow=never)
