"""Write COUNT lines, each saying when it was written (ns), with pauses of 5 to 25 ms."""

import os
import random
import sys
import time

for _ in range(int(sys.argv[1])):
    time.sleep(random.uniform(0.005, 0.025))  # noqa: TID251  # the pause is what is asked for
    os.write(1, b"%d\n" % time.monotonic_ns())
