"""examples.py - runs the examples of the manual and the README. SPDX-License-Identifier: Apache-2.0

    with Story("...") as story:
        examples = Examples(story)
        examples.check(path)      # every example of a file
        examples.tell()           # how many were run, checked, marked; and that there were some

An example of sh, python or c is run against a daemon whose bucket `demo` holds train/sample-01.bin to -12.bin; one of
json is a settings file, which `penstock check` must find fine. Addresses and paths of the text become the test's own.
One that is marked (manual.py) is parsed alone. One that needs a program or a module that this machine lacks is
counted as such, and parsed."""

import ast

import manual
from harness import *

SIZE = 131_072
PROGRAMS = ("aws", "s5cmd", "rclone", "s3cmd", "s3fs", "curl", "tar", "jq", "pip", "openssl", "docker", "systemctl")
MOST_SECONDS = 60


class Examples:
    def __init__(self, story):
        self.story = story
        self.run, self.checked, self.marked, self.absent = [], [], [], []
        self.count = 0
        self.tools = self.tool_folder()
        os.makedirs(story.path("versity/demo"))
        self.socket = story.path("fill.sock")
        self.server = story.penstock(origin=story.versity().url, fill_socket=self.socket)
        for i in range(1, 13):    # versitygw gives an ETag, so that they can be cached
            reply = self.server.put(f"demo/train/sample-{i:02}.bin", random.Random(i).randbytes(SIZE))
            check(reply.status == 200, reply)

    def tool_folder(self):
        """A folder that holds `penstock`, and the newest clients that scripts/tools installed."""
        folder = self.story.path("bin")
        os.makedirs(folder)
        os.symlink(PENSTOCK, os.path.join(folder, "penstock"))
        for name in ("aws", "s5cmd", "rclone"):
            found = sorted(glob.glob(os.path.join(TOOLS, "*", "bin", name)), key=os.path.getmtime)
            if found:
                os.symlink(found[-1], os.path.join(folder, name))
        return folder

    # ---- what an example finds ----

    def own(self, text):
        """The text with the test's own addresses, paths and keys."""
        self.count += 1
        for theirs, ours in (("127.0.0.1:9000", f"127.0.0.1:{self.server.port}"),
                             ("127.0.0.1:9001", f"127.0.0.1:{self.server.admin_port}"),
                             ("127.0.0.1:19000", f"127.0.0.1:{free_port()}"),
                             ("/run/penstock/fill.sock", self.socket),
                             ("/tmp/", self.story.path("tmp/"))):
            text = text.replace(theirs, ours)
        for name, value in self.server.client_env().items():
            text = text.replace(f"{name}=...", f"{name}='{value}'")
        return text

    def place(self):
        """An empty folder, which is the example's home, too."""
        folder = self.story.path(f"place-{self.count}")
        os.makedirs(folder)
        os.makedirs(self.story.path("tmp"), exist_ok=True)
        return folder

    def env(self, folder, is_server):
        """Of clients; PENSTOCK_FILL_SOCKET is a setting, too, so a server doesn't get it."""
        env = {**own_env("AWS_"), **self.server.client_env(), "HOME": folder, "PENSTOCK_FILL_SOCKET": self.socket,
                "PYTHONPATH": os.path.join(ROOT, "src", "client", "python"), "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": self.tools + ":" + os.environ["PATH"]}
        if is_server:
            del env["PENSTOCK_FILL_SOCKET"]
        return env

    def ends(self, argv, is_server=False):
        """(status, stdout, stderr) of a command in a place of its own."""
        folder = self.place()
        try:
            done = subprocess.run(argv, cwd=folder, env=self.env(folder, is_server), capture_output=True, text=True,
                                  timeout=MOST_SECONDS, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return None, "", f"took longer than {MOST_SECONDS} s"
        return done.returncode, done.stdout, done.stderr

    def file(self, block, text):
        path = self.story.path(f"example-{self.count}.{block.language}")
        with open(path, "w") as f:
            f.write(text)
        return path

    # ---- one language each: (status, stdout, stderr), or the name of what is absent ----

    def sh(self, block, path):
        words = set(re.findall(r"(?<![\w./-])[a-z0-9]+(?![\w/-])", re.sub(r"#.*", "", block.text)))
        for name in sorted(words & set(PROGRAMS)):
            if not shutil.which(name, path=self.tools + ":" + os.environ["PATH"]):
                return name
        is_server = re.search(r"^ *penstock (serve|check|config)\b", block.text, re.M)
        return self.ends(["bash", "-eu", "-o", "pipefail", path], is_server)

    def python(self, block, path):
        """By the first Python that has the modules."""
        names = sorted({name.split(".")[0] for node in ast.walk(ast.parse(block.text))
                        for name in ([n.name for n in node.names] if isinstance(node, ast.Import) else
                                     [node.module] if isinstance(node, ast.ImportFrom) else [])})
        pythons = sorted(glob.glob(os.path.join(TOOLS, "*", "bin", "python3")), key=os.path.getmtime) + ["/usr/bin/python3"]
        for python in pythons:
            if run([python, "-c", "import " + ", ".join(names or ["sys"])], self.env(self.story.folder, False))[0] == 0:
                return self.ends([python, path])
        return ", ".join(names)

    def c(self, block, path):
        program, build = self.story.path(f"program-{self.count}"), os.path.dirname(PENSTOCK)
        done = run(["cc", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "src", "client"), "-o", program, path,
                    os.path.join(build, "libpenstock.a"), "-ljansson", "-lcrypto"])
        return self.ends([program]) if done[0] == 0 else done

    def json(self, block, path):
        """Folders of origins, and files of secrets, need to be there."""
        def folder(found):
            name = self.story.path("origin-folder")
            os.makedirs(name, exist_ok=True)
            return f'"dir:{name}"'

        def secret(found):
            name = self.file_of_a_secret()
            return f'"{found[1]}": "{name}"'

        def cache(found):
            return f'"path": "{self.story.path("cache-" + found[1])}"'
        text = re.sub(r'"dir:/[^"]*"', folder, manual.read(path))
        text = re.sub(r'"path": "/(\w+)/penstock"', cache, text)
        text = re.sub(r'"(\w*(?:secret_key|token|previous)_file)": "[^"]*"', secret, text)
        with open(path, "w") as f:
            f.write(text)
        one_cache = [] if '"cache_dirs"' in text else ["--cache-dir", self.story.path("cache-of-none")]
        status, out, err = self.ends(["penstock", "check", path, "--offline", *one_cache, "--listen", f"127.0.0.1:{free_port()}",
                                      "--admin-listen", "off"], is_server=True)
        return (status if out.endswith("settings: fine\n") else status or 1), out, err

    def file_of_a_secret(self):
        path = self.story.path("secret")
        with open(path, "w") as f:
            f.write("a-secret-of-an-example\n")
        return path

    # ---- all of them ----

    def parse(self, block, path):
        """Nothing, or why it is no such text."""
        if block.language == "sh":
            return run(["bash", "-n", path])[2]
        if block.language == "c":
            return run(["cc", "-fsyntax-only", "-I", os.path.join(ROOT, "src", "client"), path])[2]
        try:
            json.loads(block.text) if block.language == "json" else ast.parse(block.text)
        except (ValueError, SyntaxError) as wrong:
            return str(wrong)

    def one(self, block):
        path = self.file(block, self.own(block.text))
        if block.mark:
            self.story.fact(f"{block}: a reason stands in its mark", re.match(r"(not run|parsed): .{8,}", block.mark), block.mark)
        result = None if block.mark else getattr(self, block.language)(block, path)
        if not isinstance(result, tuple):
            (self.marked if block.mark else self.absent).append(block if block.mark else f"{block}: {result}")
            self.story.same(f"{block} can be read ({block.mark or 'absent here: ' + result})", self.parse(block, path) or None, None)
            return
        (self.checked if block.language == "json" else self.run).append(block)
        status, out, err = result
        self.story.fact(f"{block} does what it says", status == 0, f"exit status {status}: {out[-600:]} {err[-1200:]}")
        for line in (block.prints or "").splitlines():
            pattern = r"\s+".join(re.escape(word).replace(re.escape("..."), ".*") for word in self.own(line).split())
            self.story.fact(f"{block} prints: {line}", re.search(pattern, out), out[-800:])

    def check(self, path):
        for block in manual.blocks(path):
            if block.language in manual.EXAMPLES:
                self.one(block)

    def tell(self):
        all_of_them = len(self.run) + len(self.checked) + len(self.marked) + len(self.absent)
        print(f"# {all_of_them} examples: {len(self.run)} run, {len(self.checked)} settings checked, {len(self.marked)} marked as "
              f"not to be run, {len(self.absent)} not run for want of: {'; '.join(self.absent) or 'nothing'}")
        self.story.fact("examples were run", len(self.run) > 0)
