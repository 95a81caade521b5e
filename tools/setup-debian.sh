#!/usr/bin/env bash
# Installs the Debian packages that the tests need: an SSH server (started by the tests on loopback, under ports of their own),
# strace, patch, faketime, file systems. `tools/setup-debian.sh zsh systemd-analyze=systemd` adds programs, each with its package where that has
# another name. Idempotent: does nothing when they are there. Without root or apt-get it names them and continues; the
# tests that need them are skipped then. As root on Debian a failure to install is an error.
set -euo pipefail

seconds=300
guard=/usr/sbin/policy-rc.d

missing=()
for entry in /usr/sbin/sshd=openssh-server ssh=openssh-client strace patch faketime /sbin/mkfs.ext4=e2fsprogs "$@"; do
    command -v "${entry%=*}" >/dev/null || missing+=("${entry#*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "setup: install ${missing[*]}; the tests that need them will be skipped" >&2
    exit 0
fi
echo "setup: installing ${missing[*]} (a few seconds)" >&2
# Debian starts a service when it installs it, unless this file forbids it. An existing one stays.
if [ ! -e "$guard" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod +x "$guard"
    trap 'rm -f "$guard"' EXIT
fi
install() { DEBIAN_FRONTEND=noninteractive timeout "$seconds" apt-get install -qq -y --no-install-recommends "${missing[@]}"; }
install >/dev/null 2>&1 || { timeout "$seconds" apt-get update -qq && install; } >/dev/null ||
    { echo "setup: apt-get could not install ${missing[*]}" >&2; exit 1; }
