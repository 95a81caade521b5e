"""A service that will not start with a configuration that it cannot read. It leaves its process id in `api.pid`."""

import json
import os
import sys
import time

LIVES_S_MAX = 3_600


def main(path: str) -> None:
    with open(path) as file:  # noqa: PTH123  # It begins sooner without pathlib.
        workers = json.load(file)["workers"]
    with open("api.pid.new", "w") as file:  # noqa: PTH123
        file.write(str(os.getpid()))
    os.replace("api.pid.new", "api.pid")  # noqa: PTH105
    print(f"serving with {workers} workers", flush=True)
    time.sleep(LIVES_S_MAX)


if __name__ == "__main__":
    main(sys.argv[1])
