#!/usr/bin/env bash
# Install Chromium, which the tests drive. Idempotent and quick when there is one. Without a way to get it, it says so and
# goes on; those tests are skipped then.
set -euo pipefail
cd "$(dirname "$0")/.."

.venv/bin/recoup browser install >/dev/null ||
    echo "setup: no browser; its tests will be skipped" >&2
