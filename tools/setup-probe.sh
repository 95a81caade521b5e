#!/usr/bin/env bash
# Install Debian's openssh-server, which the tests of the probe's ssh_remote channels start on loopback under ports of their
# own. Idempotent: a second call does nothing. Where it cannot be had this says so and goes on; those tests are skipped then.
set -euo pipefail

seconds=120
guard=/usr/sbin/policy-rc.d
if { command -v sshd || [ -x /usr/sbin/sshd ]; } >/dev/null && command -v ssh >/dev/null; then exit 0; fi

goes_on() {
    echo "setup: no SSH server ($1); its tests will be skipped" >&2
    exit 0
}

install() {
    DEBIAN_FRONTEND=noninteractive timeout "$seconds" apt-get install -qq -y --no-install-recommends \
        openssh-server openssh-client >/dev/null 2>&1
}

command -v apt-get >/dev/null || goes_on "this is not Debian: install sshd and ssh"
[ "$(id -u)" = 0 ] || goes_on "only root can install it: apt-get install openssh-server"
echo "setup: installing openssh-server (a few seconds); it is not started" >&2
# Debian starts what it installs, unless this file says no. One that is there already stays as it is.
if [ ! -e "$guard" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod +x "$guard"
    trap 'rm -f "$guard"' EXIT
fi
install || { timeout "$seconds" apt-get update -qq >/dev/null 2>&1 && install; } || goes_on "apt-get could not install it"
