"""What can go wrong between host and board, each with a message of one line."""

__all__ = ["BoardError", "BusError", "BusyError", "NoAnswer", "RefusedError", "SessionLost"]


class BoardError(Exception):
    """The board cannot do what was asked, or cannot be reached."""


class NoAnswer(BoardError):
    """No intact answer within all retries: no board, another baud rate, or a dead line."""


class BusError(BoardError):
    """There is no register, memory or rank at `address`, or it refused the access."""

    def __init__(self, message: str, address: int):
        super().__init__(message)
        self.address = address


class BusyError(BoardError):
    """The board's self-test goes on and did not end in the time that it was given."""


class SessionLost(BoardError):
    """The session that `Client.identify` opened is over: a reset, the button, or another host."""


class RefusedError(BoardError):
    """The bridge does not know the request, or finds its length wrong: another version of it."""
