"""forkserver.py - a Python program that runs many commands and is started once. SPDX-License-Identifier: Apache-2.0

An AWS CLI spends most of its time on the import of its modules. A fork server imports them once; for each command, a
fork of it then runs the file of the program itself, as __main__. So each command has a process of its own,
with its own arguments, output and exit status, and no command sees what another one left in memory.

    forkserver.py PROGRAM MODULE ...    commands come on stdin and results go to stdout, as lines of JSON"""
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile


class ForkServer:
    """The caller's side: run() is one command."""

    def __init__(self, program, modules, words=(), env=None):
        """`words` come before the command that starts the server."""
        with open(program) as f:
            python = f.readline().rstrip("\n")[2:].split()    # of "#!/usr/bin/python3"
        self.process = subprocess.Popen([*words, *python, os.path.abspath(__file__), program, *modules],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, argv, seconds):
        """Returns exit status, stdout and stderr. A signal that ended the command is a negative status."""
        try:
            print(json.dumps([argv, seconds]), file=self.process.stdin, flush=True)
            status, out, err = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as failure:
            return None, "", f"the fork server has ended: {failure}"
        return status, out, f"took longer than {seconds} s" if status == -signal.SIGALRM else err

    def end(self):
        self.process.communicate()


def fork(code, program, argv, seconds, files):
    """The child returns from here; it ends as a program does, with its threads and at-exit functions."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for fd, file in enumerate(files):
        os.dup2(file.fileno(), fd)
    signal.alarm(seconds)
    sys.argv, sys.path[0] = [program, *argv], os.path.dirname(program)
    exec(code, {"__name__": "__main__", "__file__": program, "__builtins__": __builtins__})
    sys.exit(0)


def serve(program, modules):
    for module in modules:
        importlib.import_module(module)
    gc.freeze()    # else each fork's collections visit, and copy, what was imported
    with open(program, "rb") as f:
        code = compile(f.read(), program, "exec")
    with open(os.devnull, "rb") as nothing:
        for line in sys.stdin:
            argv, seconds = json.loads(line)
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                status = fork(code, program, argv, seconds, (nothing, out, err))
                texts = [os.pread(file.fileno(), 1 << 24, 0).decode("utf-8", "replace") for file in (out, err)]
            print(json.dumps([status, *texts]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
