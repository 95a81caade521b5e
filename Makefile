# make demo    set up, then watch a plan get through a hang, a loop and a leak (under a minute)
# make test    set up, then every test but the long ones
# make fresh   the same two, each in a clean Debian root with a clone of HEAD, as a newcomer has it (needs root)
# make story   set up, then say which stories there are; NAME=... tells one
# make bench   set up, then measure everything beside its peers and write docs/benchmarks.md (half an hour, on a quiet machine)
.PHONY: demo story test fresh check coverage bench soak format setup clean agents statsd browser node debian compiled
PY := .venv/bin/python
# The tests start hundreds of processes: what one of them has compiled the others need not compile again.
export PYTHONDONTWRITEBYTECODE =

demo: setup
	@.venv/bin/recoup demo

story: setup
	@$(PY) -m examples $(NAME)

test:
	@$(MAKE) --no-print-directory -j 4 setup agents statsd browser debian compiled
	tools/run-tests.sh $(PYTEST_ARGS)

# Each on a machine of its own: what one sets up would hide what the other lacks.
fresh:
	tools/fresh-machine 'make demo'
	tools/fresh-machine 'make test'

check: setup
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/unit/test_layers.py

# Every branch of what decides, by the tests that ask it directly. Those left out are slow when traced, and add no branch.
coverage: export COVERAGE_FILE = .bench/coverage
coverage: setup
	@mkdir -p .bench
	$(PY) -m coverage run --branch --source=src/recoup/model,src/recoup/kernel -m pytest -q -m "not soak" \
		--hypothesis-profile=ci -p no:cacheprovider tests/replay tests/contract tests/integration/test_whatif_runs.py \
		$$(grep -lE 'recoup\.(kernel|model\.vector)' tests/unit/test_*.py | grep -v -e _breaker_reference -e _signature_golden \
		-e _agent_events -e _openchrome -e _metrics)
	$(PY) -m coverage report --show-missing --skip-covered --fail-under=100

bench: setup
	$(PY) -m benchmarks

soak: setup
	@$(MAKE) --no-print-directory agents statsd browser debian
	tools/setup-soak.sh
	$(PY) tools/mutation_score.py
	EXAMPLES=search $(PY) -m pytest -n 2 -m "hypothesis and not soak" --timeout 3600
	EXAMPLES=search $(PY) -m pytest -n 2 -m soak --timeout 3600

format: setup
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

setup:
	@tools/setup.sh

node: setup
	@tools/setup-node.sh

# The versions that the tests were written against; 800 MB.
agents: node
	@tools/setup-npm.sh .agents agents @anthropic-ai/claude-code

statsd: node
	@tools/setup-npm.sh .bench/statsd statsd

# After the setup, which may install python3-venv: apt-get runs once at a time.
debian: setup
	@tools/setup-debian.sh

browser: setup debian
	@.venv/bin/recoup browser install >/dev/null

# Once, while the others download; each process that runs tests would do it for itself. What is wrong with a file is told
# by the tests.
compiled: setup
	@[ -n "$$(find tests/scenario -name 'test_*-pytest-*.pyc' -print -quit)" ] || \
		$(PY) -m pytest --collect-only -q >/dev/null || true

clean:
	rm -rf .venv .setup-stamp .agents .bench dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
