"""A slow reader and a fast one of the same cold object do not hold each other up."""
from harness import *

SIZE = 96 * MIB

with Story("f05 a slow reader beside a fast one") as story:
    key = f"bucket/size-{SIZE}-x"
    origin = story.origin(f"bandwidth={60 * MIB}")
    server = story.penstock(origin=origin.url, memory_slots="16MiB")
    slow, fast = together(lambda: Client(server.port).get(key, pace=12 * MIB,
                                                          receive_buffer=128 * KIB),
                          lambda: time.sleep(0.2) or Client(server.port).get(key))
    story.bytes("the fast one has it", fast, key, 0, SIZE)
    story.bytes("the slow one too", slow, key, 0, SIZE)
    story.in_time("the fast one was not held up", fast.ended - fast.began < 5,
                  f"{fast.ended - fast.began:.1f} s")
