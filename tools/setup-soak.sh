#!/usr/bin/env bash
# What the long tests need beside the development packages: strace, to fail system calls one by one.
set -euo pipefail
command -v strace >/dev/null && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends strace >/dev/null 2>&1 ||
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends strace >/dev/null; }
else
    echo "soak: install strace; the crash-at-every-call test is skipped without it" >&2
fi
