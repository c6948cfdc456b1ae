"""Debian's radosgw is an origin with users of its own: boto3 reads and writes it through Penstock,
and it stands up again when it falls."""
from clients import *
from radosgw import *

with Story("a03 radosgw: users who differ, and boto3 through Penstock") as story:
    python = tool("python3")
    began = time.monotonic()
    gateway = Radosgw(story)
    main, alt = gateway.client("main"), gateway.client("alt")
    story.note(f"radosgw stood after {time.monotonic() - began:.1f} s")
    story.same("one user makes a bucket", main.put("photos", b"").status, 200)
    story.same("... and puts an object", main.put("photos/a", b"for me").status, 200)
    story.same("another is refused it", alt.get("photos/a").code, "AccessDenied")
    story.same("... until it may", main.put("photos/a", b"for all",
               headers={"x-amz-acl": "public-read"}).status, 200)
    story.same("... read it", alt.get("photos/a").body, b"for all")

    me = gateway.users["main"]
    server = story.penstock(origin=gateway.url, origin_access_key=me.key,
                            origin_secret_key=me.secret)
    env, sums = server.client_env(), make_tree(story)
    folder = story.path("tree/photos/set/")
    status, out, err = run([python, os.path.join(HERE, "boto3_writes.py"), "photos", "written/",
                            *(folder + name for name in os.listdir(folder))], {**env, "ORIGIN_IS_MUTE": "1"}, 60)
    story.same("boto3 writes a tree through Penstock", (status, err[-300:], "WRONG" in out),
               (0, "", False))
    bad = [name for name, want in sums.items() for how in ("put", "upload")
           if hashlib.sha256(main.get(f"photos/written/{how}/{os.path.basename(name)}").body)
           .hexdigest() != want]
    story.same("radosgw has every byte", bad, [])
    boto3_reads(story, server, python, "photos", "written/put/",
                {"written/put/" + os.path.basename(name): want for name, want in sums.items()})

    gateway.process.kill()
    wait_for("radosgw stands again", lambda: main.get("photos/a").body == b"for all")
    story.same("it fell once", gateway.falls, 1)
