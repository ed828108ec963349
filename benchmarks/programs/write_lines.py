"""Write COUNT lines of 100 bytes, PER_WRITE at a time; put its start and end (ns) into the file STAMPS."""

import os
import sys
import time

count, per_write, stamps = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lines = [b"%-99d\n" % i for i in range(count)]
pieces = [b"".join(lines[i : i + per_write]) for i in range(0, count, per_write)]

start = time.monotonic_ns()
for piece in pieces:
    written = os.write(1, piece)
    while written < len(piece):
        written += os.write(1, piece[written:])
end = time.monotonic_ns()

os.write(os.open(stamps, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), b"%d %d" % (start, end))
