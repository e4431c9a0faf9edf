"""What can go wrong, by what can be done about it."""


class WhorlError(Exception):
    """An error that the gateway told of, or that its absence is.

    code: a word of a closed set, such as ``max_length``; openapi.yaml lists them.
    param: the field that is wrong, if one is.
    retryable, retry_after: whether and after how many seconds the same request may succeed.
    blocks: runs of blocks (start, end) that no server holds.
    """

    def __init__(self, message, code="", param=None, retryable=False, retry_after=0.0, blocks=()):
        super().__init__(message)
        self.code, self.param, self.retryable, self.retry_after, self.blocks = code, param, retryable, retry_after, tuple(blocks)


class InvalidRequest(WhorlError):
    """The caller's: another request is needed."""


class SwarmUnavailable(WhorlError):
    """Servers or memory are missing now; the patience of the call is over."""


class ConnectionFailed(WhorlError):
    """The gateway cannot be reached, or refused the connection."""


class SessionLost(WhorlError):
    """The session is over: the connection broke, it was ended, or nothing was asked for too long."""


def from_reply(error):
    """The exception for an error as a reply has it."""
    kind = SwarmUnavailable if error.get("retryable") else InvalidRequest
    if error["code"] in ("no_session", "cancelled"):
        kind = SessionLost
    elif error["code"] == "internal_error":
        kind = WhorlError
    blocks = [(b["start"], b["end"]) for b in error.get("blocks") or ()]
    return kind(error["message"], error["code"], error.get("param"), bool(error.get("retryable")), error.get("retry_after_ms", 0) / 1000, blocks)
