"""What the switch must give, in numpy; imports nothing of the rest of the project."""

from .allreduce import Status, all_reduce_sum
from .formats import FORMATS, FloatFormat
from .inq import InqStatus, all_reduce_inq
from .operations import OPERATIONS, OPERATIONS_OF, all_reduce
from .quantize import dequantize, quantize, scale_values
from .scales import SCALE_FORMATS, ScaleFormat

__all__ = [
    "FORMATS",
    "OPERATIONS",
    "OPERATIONS_OF",
    "SCALE_FORMATS",
    "FloatFormat",
    "InqStatus",
    "ScaleFormat",
    "Status",
    "all_reduce",
    "all_reduce_inq",
    "all_reduce_sum",
    "dequantize",
    "quantize",
    "scale_values",
]
