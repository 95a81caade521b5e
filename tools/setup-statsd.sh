#!/usr/bin/env bash
# Install the reference StatsD server that the tests of the metrics ask, into .bench/statsd. Idempotent: a second call does
# nothing. Without Node, npm or a network it says so and goes on; those tests are skipped then.
set -euo pipefail
cd "$(dirname "$0")/.."

package="statsd@0.9.0"
seconds=60
[ -f .bench/statsd/stamp ] && [ "$(cat .bench/statsd/stamp)" = "$package" ] && exit 0

goes_on() {
    echo "setup: no StatsD server ($1); its tests will be skipped" >&2
    exit 0
}

command -v node >/dev/null || goes_on "node is not installed"
command -v npm >/dev/null || goes_on "npm is not installed"
echo "setup: installing $package (a few seconds, 1 MB)" >&2
rm -rf .bench/statsd
mkdir -p .bench/statsd
timeout "$seconds" npm install --prefix .bench/statsd --no-audit --no-fund --no-package-lock --omit=optional \
    --fetch-retries=1 --fetch-retry-mintimeout=1000 --loglevel=error "$package" \
    >.bench/statsd/npm.log 2>&1 || goes_on "npm could not install it, see .bench/statsd/npm.log"
echo "$package" >.bench/statsd/stamp
