"""A module whose import does not end, as a large library's seems to."""

import time

print("importing", flush=True)
while True:
    time.sleep(0.1)
