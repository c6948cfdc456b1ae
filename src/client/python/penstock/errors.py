"""errors.py - the exceptions, with the codes of the daemon. SPDX-License-Identifier: Apache-2.0"""


class PenstockError(Exception):
    """code: a code of S3 ("NoSuchKey") or of the fill socket ("overlap", "quota"). status: the HTTP status,
    or 0 if there is none. errors: a list with an ItemError for each item that failed, in the items' order."""

    def __init__(self, code, status=0, message="", errors=()):
        super().__init__(code, status, message)
        self.code, self.status, self.message, self.errors = code, status, message, list(errors)

    def __str__(self):
        text = f"{self.code} ({self.status})" if self.status else self.code
        if self.message:
            text += f": {self.message}"
        if self.errors:
            more = f" and {len(self.errors) - 1} more" if len(self.errors) > 1 else ""
            text += f" [{self.errors[0]}{more}]"
        return text


class ItemError(PenstockError):
    """An item that failed. index: its index in the caller's list. key: its key, as the caller gave it."""

    def __init__(self, index, key, code, status):
        super().__init__(code, status)
        self.index, self.key = index, key

    def __str__(self):
        return f"item {self.index}, {self.key!r}: {self.code} ({self.status})"


class Disconnected(PenstockError, ConnectionError):
    """The connection ended, or the daemon could not be reached."""

    def __init__(self, message):
        super().__init__("disconnected", 0, message)


class TimedOut(PenstockError, TimeoutError):
    """No reply came in time. The daemon may still carry out the request."""

    def __init__(self, message):
        super().__init__("timeout", 0, message)


class MessageTooLong(ValueError):
    """A message is longer than the daemon accepts."""
