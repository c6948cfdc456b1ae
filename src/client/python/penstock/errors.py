"""errors.py - the exceptions, with the codes of the daemon. SPDX-License-Identifier: Apache-2.0"""


class PenstockError(Exception):
    """code: S3's, or the fill socket's ("NoSuchKey", "overlap", "quota"). status: the HTTP status, or 0.
    errors: the items that failed, if items failed: a list of ItemError, in their order."""

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
    """An item that failed. index: its place in the list; key: its key, as the caller gave it."""

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
    """There was no reply in time. The daemon may still do what it was asked to."""

    def __init__(self, message):
        super().__init__("timeout", 0, message)


class MessageTooLong(ValueError):
    """A message is longer than the daemon takes."""
