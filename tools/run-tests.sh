#!/usr/bin/env bash
# Run every test but the long ones. Their files are in memory where there is room: a thousand ledgers and clones would wait
# for the disk most of the time. What they left is removed; `.venv/bin/python -m pytest TEST` leaves it on the disk to look at.
set -euo pipefail
cd "$(dirname "$0")/.."

memory=/dev/shm
needed_mb=4000

has_room() {
    [ -d "$memory" ] && [ -w "$memory" ] || return 1
    local free_mb left_mb
    free_mb=$(df -m --output=avail "$memory" | tail -n 1)
    left_mb=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
    [ "$free_mb" -ge "$needed_mb" ] && [ "$left_mb" -ge $((2 * needed_mb)) ]
}

can_execute() {
    printf '#!/bin/sh\n' >"$1/try" && chmod +x "$1/try" && "$1/try" 2>/dev/null
}

if has_room; then
    place=$(mktemp -d "$memory/rXXXXXX")
    trap 'rm -rf "$place"' EXIT
    if can_execute "$place"; then
        export TMPDIR=$place
    fi
fi

# More than there are cores: many tests wait for a browser, a server or a limit.
.venv/bin/python -m pytest -n 6 --dist worksteal -m "not soak" "$@"
