"""session.py - one connection to the fill socket. SPDX-License-Identifier: Apache-2.0

A message is one JSON object. If a message is too long for the socket, the client sends it in a memfd. A
reply has the id of its message, and replies come in any order. A session has no thread of its own: one
waiting thread reads the replies for all waiting threads, and wakes them when a reply has come.
Threads: any.
"""
import array
import errno
import json
import os
import select
import socket
import threading
import time

from .errors import Disconnected, MessageTooLong, TimedOut

MESSAGE_BYTES = 128 << 10       # limit of a message on the socket, until the reply to hello gives it
LIST_BYTES = 4 << 20            # limit of a message in a memfd, until the reply to hello gives it
RECEIVE_BYTES = 256 << 10
ASKED = "Check that Penstock runs, and that its setting fill_socket is this path."
ADVICE = {errno.EACCES: "Let this user enter the folder of the socket.",
          errno.ECONNREFUSED: "No process listens there any more: start Penstock with this fill_socket."}
write_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


class Question:
    """A message that was sent, and later its reply. keep: a reference that is held until the reply has come.
    ended: a function to call with the reply; see Session.ask."""
    __slots__ = ("reply", "ended", "keep")

    def __init__(self, keep, ended):
        self.reply, self.keep, self.ended = None, keep, ended


class Session:
    def __init__(self, path, patience_s):
        """path: the path of the fill socket. patience_s: the longest time to wait for a reply."""
        self.patience_s = patience_s
        self.message_bytes, self.list_bytes = MESSAGE_BYTES, LIST_BYTES
        self.lost = None        # text: why the connection ended; None while it is open
        self._state = threading.Condition()
        self._sending = threading.RLock()    # reentrant: Buffer.__del__ may send at any point
        self._reading = False   # True while a thread reads replies
        self._open = {}         # id: Question, for each message without a reply
        self._last = 0
        self._room = bytearray(RECEIVE_BYTES)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(path)
        except OSError as failure:
            self._socket.close()
            raise Disconnected(f"{path}: {failure.strerror or failure}. "
                               f"{ADVICE.get(failure.errno, ASKED)}") from None
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    # ---- asking ----

    def ask(self, op, members, fds=(), keep=None, ended=None):
        """Sends a message, and returns the Question to wait for. Calls ended(reply) when the reply has come,
        or ended(None) when the connection is lost."""
        question = Question(keep, ended)
        with self._state:
            if self.lost:
                raise Disconnected(self.lost)
            self._last += 1
            number = self._last
            self._open[number] = question
        try:
            self._send(write_json({"op": op, "id": number, **members}).encode(), fds)
        except OSError as failure:
            self._read_out()
            self._lose(f"the connection to Penstock broke: {failure.strerror}. Check that Penstock runs")
            raise Disconnected(self.lost) from None
        except BaseException:
            self._open.pop(number, None)
            raise
        return question

    def say(self, op, members, fds=()):
        """Sends a message and waits for its reply, which may be an error."""
        return self.wait(self.ask(op, members, fds))

    def _send(self, data, fds):
        if len(data) <= self.message_bytes:
            self._send_one(data, fds)
            return
        if fds or len(data) > self.list_bytes:
            raise MessageTooLong(f"a message of {len(data)} bytes is too long: the limit is {self.list_bytes}. "
                                 "Ask for fewer items at once")
        carrier = os.memfd_create("penstock-message", os.MFD_CLOEXEC)
        try:
            with open(carrier, "wb", closefd=False) as file:
                file.write(data)
            self._send_one(b'{"message_bytes":%d}' % len(data), (carrier,))
        finally:
            os.close(carrier)

    def _send_one(self, data, fds):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self._sending:
            self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)

    # ---- waiting ----

    def wait(self, question, timeout_s=None):
        self.wait_until(lambda: question.reply is not None, timeout_s)
        return question.reply

    def wait_until(self, holds, timeout_s=None):
        """Reads replies, or lets another thread read them, until holds() is true. Calls holds() again after
        each reply."""
        until = time.monotonic() + (self.patience_s if timeout_s is None else timeout_s)
        while True:
            with self._state:
                while not holds() and self._reading:
                    if not self._state.wait(max(0.0, until - time.monotonic())):
                        self._too_late(timeout_s)
                if holds():
                    return
                if self.lost:
                    raise Disconnected(self.lost)
                self._reading = True
            try:
                while not holds():
                    self._deliver(self._receive(until, timeout_s))
            finally:
                self._end_turn()

    def _end_turn(self):
        """Ends the turn of the thread that reads, so that another thread may read."""
        with self._state:
            self._reading = False
            self._state.notify_all()
            if self.lost:
                self._socket.close()

    def open_count(self):
        return len(self._open)

    def _too_late(self, timeout_s):
        if timeout_s is None:
            raise TimedOut(f"Penstock has not answered for {self.patience_s:g} s. Check its log")
        raise TimedOut(f"Penstock has not answered within {timeout_s:g} s, and the request goes on. To wait "
                       "longer, call result() again")

    def _receive(self, until, timeout_s):
        if not self._poll.poll(max(0, (until - time.monotonic()) * 1000)):
            self._too_late(timeout_s)
        try:
            count, rights, _, _ = self._socket.recvmsg_into([self._room], socket.CMSG_SPACE(4))
        except OSError as failure:
            count, why = 0, f"the connection to Penstock broke: {failure.strerror}. Check that Penstock runs"
        else:
            why = "Penstock closed the connection: it has stopped, or a limit was reached. Check its log"
        if not count:
            self._lose(why)
            raise Disconnected(self.lost)
        reply = json.loads(bytes(memoryview(self._room)[:count]))
        if "message_bytes" not in reply:
            return reply
        carrier = array.array("i", rights[0][2])[0]
        with open(carrier, "rb") as file:
            return json.loads(file.read(reply["message_bytes"]))

    def _deliver(self, reply):
        with self._state:
            question = self._open.pop(reply.get("id"), None)
            if question:
                question.reply = reply
                if question.ended:
                    question.ended(reply)
            self._state.notify_all()
        if question:
            question.keep = None
        # A refusal without an id says why the daemon closes the connection.
        if question is None and not reply.get("ok", True):
            self._lose(f"Penstock refused the session: {reply.get('error')}: {reply.get('message', '')}")
            raise Disconnected(self.lost)

    # ---- its end ----

    def _read_out(self):
        """Reads what the daemon sent before it closed the connection: replies, and the reason for the end."""
        with self._state:
            if self._reading or self.lost:
                return
            self._reading = True
        try:
            while self._poll.poll(0):
                self._deliver(self._receive(time.monotonic(), 0))
        except Disconnected:
            pass
        finally:
            self._end_turn()

    def _lose(self, why):
        with self._state:
            if self.lost:
                return
            self.lost = why
            questions, self._open = self._open, {}
            for question in questions.values():
                if question.ended:
                    question.ended(None)
            self._state.notify_all()
            try:
                self._socket.shutdown(socket.SHUT_RDWR)    # the thread that reads wakes, and closes the socket
            except OSError:
                pass
            if not self._reading:
                self._socket.close()

    def close(self):
        self._lose("the client was closed: make a new one with penstock.connect()")

    def forget(self):
        """After a fork, closes the child's copy of the descriptor. The parent's connection stays open."""
        self.lost = "this process is a fork, and the connection belongs to its parent: repeat the call"
        self._socket.close()
