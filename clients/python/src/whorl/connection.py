"""One WebSocket to a gateway: a request and its reply at a time, again where that may help."""

import threading
import time
import urllib.parse

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from . import errors, wire

# Of the wait between attempts, in seconds.
_LEAST, _MOST = 0.2, 5.0


class Connection:
    """A connection to ``/api/v1/hidden`` of a gateway. Safe for use by several threads, one at a time.

    url: the gateway's, such as ``http://localhost:8300``.
    model: its name; None where one model is served.
    token: a token or key of the gateway.
    patience: seconds for which a request that changes nothing (all but those of sessions) is tried again
        after errors that pass, such as servers that are missing or a connection that broke.
    open_timeout: seconds to connect.
    """

    def __init__(self, url, model=None, token=None, patience=120.0, open_timeout=20.0):
        at = urllib.parse.urlsplit(url if "//" in url else "http://" + url)
        if at.scheme not in ("http", "https", "ws", "wss"):
            raise errors.InvalidRequest(f"the address {url!r}: want one like http://localhost:8300", "invalid_value")
        self.http = urllib.parse.urlunsplit(({"ws": "http", "wss": "https"}.get(at.scheme, at.scheme), at.netloc, at.path.rstrip("/"), "", ""))
        query = "?" + urllib.parse.urlencode({"model": model}) if model else ""
        self._uri = "ws" + self.http[len("http"):] + "/api/v1/hidden" + query
        self.token, self.patience, self._open_timeout = token, patience, open_timeout
        self._lock = threading.Lock()
        self._socket, self._id = None, 0
        with self._lock:
            self._retry(self._connect, time.monotonic() + open_timeout)
        self.about = self._ready

    def _connect(self):
        headers = {"Authorization": "Bearer " + self.token} if self.token else None
        try:
            self._socket = connect(self._uri, additional_headers=headers, max_size=None, compression=None, open_timeout=self._open_timeout, close_timeout=2, proxy=None)
            self._ready, _ = wire.decode(self._socket.recv(timeout=self._open_timeout))
        except InvalidStatus as e:
            raise _refused(e) from e
        except (OSError, WebSocketException, TimeoutError) as e:
            raise errors.ConnectionFailed(f"the gateway at {self.http} cannot be reached: {e or type(e).__name__}", "unreached", retryable=True, retry_after=_LEAST) from e

    def _retry(self, do, until):
        wait = _LEAST
        while True:
            try:
                return do()
            except errors.WhorlError as e:
                left = until - time.monotonic()
                if not e.retryable or left <= 0:
                    raise
                time.sleep(min(left, max(wait, min(e.retry_after, _MOST))))
                wait = min(2 * wait, _MOST)

    def request(self, header, parts=(), bf16=False, again=True):
        """The reply's header and numbers. again: whether it may be sent twice."""
        with self._lock:
            if not again:
                if self._socket is None:
                    raise errors.SessionLost("the session ended with its connection", "no_session")
                return self._once(header, parts, bf16, again)
            return self._retry(lambda: self._once(header, parts, bf16, again), time.monotonic() + self.patience)

    def _once(self, header, parts, bf16, again):
        if self._socket is None:
            self._connect()
        self._id += 1
        header = dict(header, id=self._id)
        if bf16:
            header["dtype"] = "bf16"
        try:
            self._socket.send(wire.encode(header, parts, bf16))
            while True:
                reply, numbers = wire.decode(self._socket.recv())
                if reply["id"] == self._id or reply["id"] == 0 and "error" in reply: # of the socket as a whole
                    break
        except (ConnectionClosed, OSError) as e:
            self._drop()
            if again:
                raise errors.ConnectionFailed(f"the connection to {self.http} broke: {e}", "unreached", retryable=True, retry_after=_LEAST) from e
            raise errors.SessionLost(f"the session ended with its connection: {e}", "no_session") from e
        except BaseException: # an interrupt: the reply would be taken for that of the next request
            self._drop()
            raise
        if "error" not in reply:
            return reply, numbers
        e = errors.from_reply(reply["error"])
        if reply["id"] == 0:
            self._drop()
            if e.code == "idle":
                if not again:
                    raise errors.SessionLost(f"the session is over: {e}", "no_session")
                e.retryable = True
        raise e

    def _drop(self):
        socket, self._socket = self._socket, None
        if socket is not None:
            try:
                socket.close()
            except (OSError, WebSocketException):
                pass

    def close(self):
        """Ends the connection; what it held is freed. A later request opens another."""
        self._drop()


def _refused(e):
    """The error of a request for a WebSocket that was answered with something else."""
    import json
    status = e.response.status_code
    try:
        p = json.loads(e.response.body or b"")
        kind = errors.SwarmUnavailable if p.get("retryable") else errors.InvalidRequest
        return kind(p["detail"], p["code"], p.get("param"), bool(p.get("retryable")), 1.0 if p.get("retryable") else 0.0)
    except (ValueError, KeyError, TypeError):
        return errors.ConnectionFailed(f"the gateway answers with status {status}", "unreached", retryable=status in (429, 503), retry_after=1.0)
