"""name_server.py - a name server that does what a story tells it, by UDP and TCP, and a program that lists nodes.
SPDX-License-Identifier: Apache-2.0

    with NameServer() as dns:
        dns.records["fleet.test"] = {"A": ["10.0.0.1"], "SRV": [(0, 9002, "n1.test")]}
        dns.mode = "answer"    # or servfail, refused, silent, garbage, cut off, closed

An answer that does not fit into 512 bytes comes by TCP, as from any name server."""

import os
import queue
import socket
import struct
import subprocess
import threading

from harness import PATIENCE, Wrong, find_binary, own_env

TYPES = {"A": 1, "CNAME": 5, "AAAA": 28, "SRV": 33}
LIST_MEMBERS = find_binary("LIST_MEMBERS", "tests/tools/list_members", "build*/tests/tools/list_members")


def coded(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.strip(".").split(".") if label) + b"\0"


def data_of(kind, value):
    if kind == "A":
        return socket.inet_pton(socket.AF_INET, value)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, value)
    if kind == "SRV":
        priority, port, target = value
        return struct.pack(">HHH", priority, 1, port) + coded(target)
    return coded(value)


def question_of(message):
    """The name in lower case, the type, and the bytes of the question."""
    at, labels = 12, []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode().lower())
        at += 1 + message[at]
    kind = struct.unpack(">H", message[at + 1:at + 3])[0]
    return ".".join(labels), next((k for k, n in TYPES.items() if n == kind), str(kind)), message[12:at + 5]


class NameServer:
    def __init__(self):
        self.records, self.mode, self.ttl, self.beside, self.asked = {}, "answer", 1, True, []
        self.refused = set()    # types of questions
        self.over = False
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.serve_udp, self.serve_tcp)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.udp.close()
        self.tcp.close()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def count(self, kind=None, by=None):
        return sum(1 for asked in self.asked if kind in (None, asked[1]) and by in (None, asked[2]))

    # ---- answers ----

    def records_of(self, name, kind):
        """The answer, and what the server adds to it: lists of (name or None for that of the question, kind, value)."""
        own = self.records.get(name, {})
        if "CNAME" in own and kind != "CNAME":
            answer, more = self.records_of(own["CNAME"][0], kind)
            return [(None, "CNAME", own["CNAME"][0])] + [(own["CNAME"][0], *rest) for _, *rest in answer], more
        answer = [(None, kind, value) for value in own.get(kind, [])]
        more = [(target, k, value) for _, _, (_, _, target) in answer if kind == "SRV" and self.beside
                for k in ("A", "AAAA") for value in self.records.get(target, {}).get(k, [])] if kind == "SRV" else []
        return answer, more

    def coded_record(self, message, places, name, kind, value):
        """Adds a record to the message; a name that the message has already is a pointer to it."""
        if name is None:
            message += b"\xc0\x0c"
        elif name in places:
            message += struct.pack(">H", 0xc000 | places[name])
        else:
            if len(message) < 0x3fff:
                places[name] = len(message)
            message += coded(name)
        data = data_of(kind, value)
        message += struct.pack(">HHIH", TYPES[kind], 1, self.ttl, len(data))
        if kind == "SRV" and len(message) + 6 < 0x3fff:
            places.setdefault(value[2], len(message) + 6)
        message += data

    def answer_to(self, question, limit, by):
        name, kind, asked = question_of(question)
        self.asked.append((name, kind, by))
        flags, answer, more = 0x8180, *self.records_of(name, kind)
        if self.mode == "servfail":
            flags, answer, more = flags | 2, [], []
        elif self.mode == "refused" or kind in self.refused:
            flags, answer, more = flags | 5, [], []
        elif name not in self.records:
            flags |= 3
        message, places = bytearray(), {}
        message += question[:2] + struct.pack(">HHHHH", flags, 1, len(answer), 0, len(more)) + asked
        for record in answer + more:
            self.coded_record(message, places, *record)
        if self.mode == "garbage":    # a record that says that it is longer than the message
            message = message[:-1]
        if self.mode == "cut off":
            message[2] |= 2
        if len(message) > limit:
            message = bytearray(question[:2] + struct.pack(">HHHHH", flags | 0x200, 1, 0, 0, 0) + asked)
        return bytes(message)

    def serve_udp(self):
        while not self.over:
            try:
                question, sender = self.udp.recvfrom(4096)
                answer = self.answer_to(question, 512, "udp")
                if self.mode != "silent":
                    self.udp.sendto(answer, sender)
            except OSError:
                return

    def serve_tcp(self):
        while not self.over:
            try:
                connection, _ = self.tcp.accept()
                with connection:
                    connection.settimeout(PATIENCE)
                    length = struct.unpack(">H", connection.recv(2, socket.MSG_WAITALL))[0]
                    answer = self.answer_to(connection.recv(length, socket.MSG_WAITALL), 65535, "tcp")
                    connection.sendall(struct.pack(">H", len(answer)) + answer)
            except (OSError, struct.error):
                if self.over:
                    return


class Nodes:
    """tests/tools/list_members: the list of nodes, as the daemon would see it."""

    def __init__(self, story, peers, dns=None, **options):
        env = {**own_env(), **({"PENSTOCK_NAME_SERVER": dns.address} if dns else {})}
        self.log_path = story.path(f"nodes-{len(story.processes)}.log")
        self.log_file = open(self.log_path, "wb")
        self.process = subprocess.Popen([LIST_MEMBERS, peers, *(f"{k}={v}" for k, v in options.items())], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log_file, text=True)
        story.processes.append(self)
        self.lines, self.list = queue.Queue(), None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())
        self.lines.put(["closed"])

    def next_list(self, seconds=PATIENCE):
        """The next list that is reported."""
        try:
            words = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise Wrong(f"no list came in {seconds} s; the log: {self.log()}") from None
        if words[0] != "list":
            raise Wrong(f"{words} in place of a list; the log: {self.log()}")
        self.list = words[1:]
        return self.list

    def wait_list(self, wanted):
        """Waits until this is the list."""
        while self.list != wanted:
            self.next_list()
        return self.list

    def status(self):
        """(count, left_out, failed, why); lists that came meanwhile are taken, too."""
        self.process.stdin.write("status\n")
        self.process.stdin.flush()
        while True:
            words = self.lines.get(timeout=PATIENCE)
            if words[0] == "list":
                self.list = words[1:]
            elif words[0] == "status":
                facts = dict(word.split("=", 1) for word in words[1:5])
                return int(facts["count"]), int(facts["left_out"]), facts["failed"] == "1", \
                    " ".join([facts["why"], *words[5:]]).strip()
            else:
                raise Wrong(f"{words} in place of a status; the log: {self.log()}")

    def close(self):
        """True if it ended well."""
        self.process.stdin.close()
        self.reader.join(PATIENCE)
        return self.process.wait(PATIENCE) == 0

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def log(self):
        self.log_file.flush()
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()


def need_list_members():
    if LIST_MEMBERS is None or not os.access(LIST_MEMBERS, os.X_OK):
        raise Wrong("list_members is not built: make tests/tools/list_members")
