# make demo    set up, then watch a plan get through a hang, a loop and a leak (under a minute)
# make test    set up, then every test but the long ones
.PHONY: demo test check bench soak format setup clean
PY := .venv/bin/python

demo: setup
	@.venv/bin/recoup demo

test: setup
	@tools/setup-agents.sh
	@tools/setup-statsd.sh
	$(PY) -m pytest -n 2 -m "not soak"

check: setup
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/unit/test_layers.py

bench: setup
	$(PY) -m benchmarks

soak: setup
	tools/setup-soak.sh
	@tools/setup-agents.sh
	$(PY) -m pytest -n 2 -m soak --timeout 3600

format: setup
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

setup:
	@tools/setup.sh

clean:
	rm -rf .venv .setup-stamp .agents .bench dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
