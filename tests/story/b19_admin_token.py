"""Who may read the admin pages: with a token, and off loopback without one; what is exposed is said."""
from harness import *

TOKEN = "a-token/of+this=story"
PAGES = ("/status", "/metrics", "/_/health/live", "/_/health/ready", "/nothing")


def statuses(server, *headers, host=None):
    return [plain(server.admin_port, "GET", page, headers=headers, host=host).status for page in PAGES]


def warnings(server):
    return [line["why"] for line in map(json.loads, server.log().splitlines()) if line["event"] == "setting"]


with Story("b19 a token guards the admin pages") as story:
    origin = story.origin("object=bucket/a 1000")
    token_file = story.path("token")
    with open(token_file, "w") as f:
        f.write(TOKEN + "\n")
    bearer = f"Authorization: Bearer {TOKEN}"

    def daemon(**changes):
        return story.penstock(origin=origin.url, log_format="json",
                              cache_dir=story.path(f"cache-{len(story.processes)}"), **changes)

    def stat(server, env=None, *flags):
        return run([PENSTOCK, "stat", "--admin-listen", f"127.0.0.1:{server.admin_port}", *flags],
                   {"PENSTOCK_CONFIG": "/nonexistent", "PENSTOCK_ORIGIN": origin.url, **(env or {})})

    # ---- as it is by default ----
    server = daemon()
    story.same("on loopback without a token all pages answer", statuses(server), [200, 200, 200, 200, 404])
    story.fact("... and a page for people", b"<h1>" in plain(server.admin_port, "GET", "/").body)
    story.same("... and nothing is exposed", [why for why in warnings(server) if "listen" in why], [])
    server.stop()

    # ---- off loopback without a token ----
    port = free_port()
    server = daemon(admin_listen=f"0.0.0.0:{port}", listen=f"0.0.0.0:{free_port()}")
    story.same("off loopback without one, health and metrics answer", statuses(server), [401, 200, 200, 200, 401])
    story.same("... by any name", statuses(server, host=f"penstock:{port}"), [401, 200, 200, 200, 401])
    reply = plain(port, "GET", "/status")
    story.fact("the refusal says what to set", b"admin_token" in reply.body, reply.body)
    said = [why for why in warnings(server) if "listen" in why]
    story.same("two warnings", len(said), 2)
    story.fact("... that http is exposed, and to do what", "listen is 0.0.0.0" in said[0]
               and "tls_listen" in said[0], said)
    story.fact("... that the admin pages are", "admin_listen is 0.0.0.0" in said[1] and "admin_token" in said[1], said)
    status, told, _ = run([PENSTOCK, "check", "--config", server.config_path])
    story.fact("check warns of both", all(f"warning: {why}" in told for why in said), told)
    story.fact("... and knows that its folder and ports are held by this one", status == 0, told)
    status, _, err = stat(server)
    story.fact("stat is refused, and says why", status == 1 and "admin_token" in err, err)
    server.stop()

    # ---- with a token ----
    server = daemon(admin_listen=f"0.0.0.0:{free_port()}", admin_token_file=token_file)
    story.same("with one, without bringing it", statuses(server), [401, 200, 200, 200, 401])
    page = plain(server.admin_port, "GET", "/")
    instance = re.search(rb"instance=(\w+)", plain(server.admin_port, "GET", "/_/health/ready").body)[1]
    story.fact("the page for people needs none, and has no figures", page.status == 200 and b"<h1>" in page.body
               and instance not in page.body, page)
    story.same("as bearer", statuses(server, bearer), [200, 200, 200, 200, 404])
    story.same("a wrong one", statuses(server, bearer + "x"), [401, 200, 200, 200, 401])
    reply = plain(server.admin_port, "GET", "/status")
    story.fact("a browser is asked for a password", "basic" in reply.headers.get("www-authenticate", "").lower(),
               reply.headers)
    shell = run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", f"anna:{TOKEN}",
                 f"http://127.0.0.1:{server.admin_port}/status"])[1]
    story.same("as a password, as browsers and curl send it", shell, "200")
    story.same("stat without it is refused", stat(server)[0], 1)
    story.same("stat finds it", [stat(server, {"PENSTOCK_ADMIN_TOKEN_FILE": token_file})[0],
                                 stat(server, {"PENSTOCK_ADMIN_TOKEN": TOKEN})[0],
                                 stat(server, {}, "--admin-token-file", token_file)[0],
                                 run([PENSTOCK, "stat", "--config", server.config_path])[0]], [0] * 4)
    story.same("health needs none", run([PENSTOCK, "health", "--config", server.config_path])[0], 0)
    story.fact("the token is not in the log", TOKEN not in server.log())
    server.stop()

    # ---- metrics, too ----
    server = daemon(admin_token=TOKEN, metrics_token=True)
    story.same("metrics_token covers metrics", statuses(server), [401, 401, 200, 200, 401])
    story.same("... on loopback, too", statuses(server, bearer), [200, 200, 200, 200, 404])
    server.stop()

    # ---- mistakes ----
    for text, settings in (("an empty token", {"admin_token_file": "/dev/null"}),
                           ("metrics_token without one", {"metrics_token": True})):
        path = story.path("mistake.json")
        with open(path, "w") as f:
            json.dump({**story.settings(origin=origin.url), **settings}, f)
        status, out, err = run([PENSTOCK, "check", "--config", path])
        story.fact(f"{text} is a mistake", status == 2 and "_token" in out, (status, out, err))
