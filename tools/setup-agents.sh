#!/usr/bin/env bash
# Install the coding agents that the tests drive, at the versions they were written against, into .agents. Idempotent:
# a second call does nothing. Without Node, npm or a network it says so and goes on; those tests are skipped then.
set -euo pipefail
cd "$(dirname "$0")/.."

packages="@anthropic-ai/claude-code@2.1.197 @openai/codex@0.166.0 @google/gemini-cli@0.61.0"
seconds=180
[ -f .agents/stamp ] && [ "$(cat .agents/stamp)" = "$packages" ] && exit 0

goes_on() {
    echo "setup: no coding agents ($1); their tests will be skipped" >&2
    exit 0
}

command -v node >/dev/null || goes_on "node is not installed"
command -v npm >/dev/null || goes_on "npm is not installed"
echo "setup: installing $packages (about fifteen seconds, 800 MB)" >&2
rm -rf .agents
mkdir .agents
# shellcheck disable=SC2086
timeout "$seconds" npm install --prefix .agents --no-audit --no-fund --no-package-lock --fetch-retries=1 \
    --fetch-retry-mintimeout=1000 --loglevel=error $packages \
    >.agents/npm.log 2>&1 || goes_on "npm could not install them, see .agents/npm.log"
echo "$packages" >.agents/stamp
