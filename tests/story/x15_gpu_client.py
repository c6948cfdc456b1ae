"""The Python client's GPU memory, with a driver that is not one under it and a runtime that is not one
under the daemon: what is registered is filled, by descriptor and by handle. What a GPU does is not shown.

Needs a build with the CUDA headers."""
import subprocess

from guards import use_fake_gpu
from harness import *


def main():
    with Story("x15 the Python client's GPU memory") as story:
        module = use_fake_gpu()
        driver = os.path.join(os.path.dirname(module), "driver")
        if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
            raise Skip("the driver that is not one is not built: run make check")
        origin = story.origin("object=objects/a 4096", "object=objects/b 3000000")
        path = story.path("fill.sock")
        server = story.penstock(origin=origin.url, fill_socket=path, fill_ring="16MiB", env={
            "PENSTOCK_GPU_MODULE": module, "FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_DELAY_US": "100"})
        env = {**os.environ, **server.client_env(), "PENSTOCK_FILL_SOCKET": path, "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONPATH": os.path.join(ROOT, "src", "client", "python")}
        for where, more in (("fake", {"LD_LIBRARY_PATH": driver}), ("none", {})):
            done = subprocess.run([sys.executable, __file__, where], env={**env, **more}, capture_output=True,
                                  text=True, timeout=60)
            lines = done.stdout.splitlines()
            for line in lines[:-1]:
                verdict, _, text = line.partition(" ")
                story.fact(text, verdict == "ok")
            story.fact("it went to its end", done.returncode == 0 and lines[-1:] == ["end"],
                       f"{done.returncode}: {done.stdout[-500:]} {done.stderr[-3000:]}")
        wait_for("the daemon let go of all", lambda: server.metric("penstock_fill_buffers") == 0)


def say(text, holds):
    print("ok" if holds else "WRONG", text, flush=True)


def filled(client, buffer):
    """Whether two items lie where they should."""
    import ctypes
    client.fill(buffer, "objects", [("b", 7, 2_999_000, 100), ("a", 0, 4096, 3_000_000)])
    at = buffer.span().address
    return (ctypes.string_at(at + 100, 2_999_000) == expect("objects/b", 1, 7, 2_999_000)
            and ctypes.string_at(at + 3_000_000, 4096) == expect("objects/a", 1, 0, 4096))


def with_driver(penstock, cuda):
    client = penstock.connect()
    say("the best way to a GPU is taken", client.way("cuda:0") == client.way("cuda:1") == "cuda-vmm")
    say("a GPU that is not there is not one", client.way("cuda:7") == "memfd")
    for device in ("cuda:0", "cuda:1"):
        for kind in ("cuda-vmm", "cuda-ipc"):
            with client._keep(cuda.buffer(client, kind, 3_500_000, device)) as buffer:
                say(f"{kind} memory of {device} is filled", filled(client, buffer))
                say("and is CUDA's, as DLPack says it", buffer.__dlpack_device__() == (2, int(device[-1])))
    kept = client.buffer(4_000_000, "cuda:0")
    capsule = kept.__dlpack__()
    kept.close()
    del kept
    import gc
    gc.collect()
    say("memory that a capsule holds is not freed", len(penstock.dlpack.held) == 1)
    del capsule
    say("and then it is", not penstock.dlpack.held)
    try:
        client.buffer(4_000_000, "cuda:0").memory
    except BufferError as failure:
        say("there are no bytes of a GPU to look at", "tensor" in str(failure))


def inside(where):
    import logging
    import penstock
    from penstock import cuda
    told = []
    logging.getLogger("penstock").setLevel("INFO")
    logging.getLogger("penstock").addHandler(type("Told", (logging.Handler,), {
        "emit": lambda self, record: told.append((record.levelname, record.getMessage()))})())
    if where == "fake":
        with_driver(penstock, cuda)
    else:
        client = penstock.connect()
        say("without a driver shared memory is taken", client.way("cuda:0") == client.way("cuda:0") == "memfd")
        say("which is said once, and why", len(told) == 1 and "libcuda.so.1" in told[0][1])
        say("as a warning", told[0][0] == "WARNING")
        client.way("cpu")
        say("which shared memory for the host is not", told[1] == ("INFO", "fills of the device cpu use memfd"))
        say("and is filled", client.fill(client.buffer(5000, "cuda:0"), "objects", ["a"]).views[0]
            == expect("objects/a", 1, 0, 4096))
    print("end", flush=True)


if __name__ == "__main__":
    inside(sys.argv[1]) if len(sys.argv) > 1 else main()
