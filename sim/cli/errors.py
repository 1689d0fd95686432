"""What a command says when it is used wrongly."""

__all__ = ["UsageError"]


class UsageError(ValueError):
    """A bad argument or input file. The message is one line: field, rule and value."""
