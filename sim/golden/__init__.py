"""What the switch must give, in numpy; imports nothing of the rest of the project."""

from .allreduce import Status, all_reduce_sum
from .formats import FORMATS, FloatFormat

__all__ = ["FORMATS", "FloatFormat", "Status", "all_reduce_sum"]
