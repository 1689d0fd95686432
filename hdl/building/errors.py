"""What goes wrong in a build."""

__all__ = ["BuildError", "OverDevice", "TimeLimit"]


class BuildError(Exception):
    """A build cannot be done as asked. The message is one line."""


class OverDevice(BuildError):
    """The design does not fit the board's device, or misses its clock. The message is one line."""


class TimeLimit(BuildError):
    """A tool took longer than it was given. The message is one line."""
