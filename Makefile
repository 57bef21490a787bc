# Everything runs in .venv, which each target makes if it is missing.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Python compiles what it imports and keeps it, also where the environment says otherwise: tests start
# many processes. pip would compile all of what it installs, most of which nothing imports.
export PYTHONDONTWRITEBYTECODE =
INSTALL := $(BIN)/python -m pip install -q --no-compile

.PHONY: demo test quick check lint types slow bench bench-gpu accuracy corpus calibrate inference fuzz dist lowest audit docs expected clean

demo: .venv/.core ## fit a simulated pooled experiment and print estimate beside truth
	$(BIN)/unshuffle demo

# One worker for each thread of the processor; a worker runs whole files, so that a cluster or a fit
# that several tests of a file look at is made once. tests/conftest.py says which files come first.
PYTEST := $(BIN)/python -m pytest -q -n logical --dist loadfile --no-loadscope-reorder

test: $(STAMP) ## the tests, without the long statistical ones
	$(PYTEST) -m "not slow"

quick: $(STAMP) ## a minute's look: a few laws of every package (QUICK in tests/conftest.py)
	$(PYTEST) -m quick tests

check: $(STAMP) ## lint, types and tests: what CI runs
	$(MAKE) -j2 lint types
	$(MAKE) test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python packaging/retired_words.py --clean
	$(BIN)/python packaging/check_docstrings.py

types: $(STAMP)
	$(BIN)/mypy

slow: $(STAMP) ## long statistical checks
	$(BIN)/python -m pytest -q -n logical -m slow tests

bench: $(STAMP) ## speed and memory beside the peer
	$(INSTALL) -e '.[bench]'
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/files.py
	$(BIN)/python benchmarks/scale_io.py

bench-gpu: $(STAMP) ## speed of an NVIDIA GPU beside the processor, up to a thousand million rows
	$(INSTALL) -e '.[gpu]'
	$(BIN)/python benchmarks/gpu.py

accuracy: $(STAMP) ## error on the 65 cells of the paper's Table 2, beside the paper and the peer
	$(INSTALL) -e '.[bench]'
	$(BIN)/python benchmarks/accuracy.py run

corpus: $(STAMP) ## error, coverage and verdicts of every feature on real tables (those of UNSHUFFLE_DATA)
	$(BIN)/python benchmarks/corpus.py run

calibrate: $(STAMP) ## fit the likelihood's power and the prior of bag effects on real tables, and write them
	$(BIN)/python benchmarks/calibrate.py record
	$(BIN)/python benchmarks/calibrate.py fit --write

inference: $(STAMP) ## coverage of intervals, verdicts and match probabilities, by simulation
	$(BIN)/python benchmarks/inference.py run

fuzz: $(STAMP) ## 10 000 odd fits and 10 000 odd text files (FUZZ_FITS=…, FUZZ_FILES=…): right, or one clear line
	$(BIN)/python -m pytest -q -n logical --hypothesis-show-statistics tests/fuzz/fuzz_fits.py tests/fuzz/fuzz_files.py

dist: ## wheel and sdist, the quick tests on the installed wheel, on every Python that is here
	packaging/check_dist.sh newest

lowest: ## the same with the oldest dependencies allowed
	packaging/check_dist.sh lowest python3.11

audit: .venv/.core ## known vulnerabilities of the dependencies
	$(INSTALL) pip-audit
	$(BIN)/python -m pip_audit --skip-editable

docs: .venv/.docs ## the site in docs/_build/html, generated pages first; warnings are errors
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_references.py
	$(BIN)/python docs/make_picture.py
	$(BIN)/python docs/site_figures.py
	$(BIN)/python docs/run_pages.py --write
	$(BIN)/python -m sphinx -b html -n -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

expected: $(STAMP) ## what golden files, pages and README show, written anew as the code prints it now
	UNSHUFFLE_GOLDEN=write $(BIN)/python -m pytest -q tests/cli/test_cli_golden.py
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_references.py
	$(BIN)/python docs/make_picture.py
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/site_figures.py
	$(BIN)/python docs/run_pages.py --write

clean:
	rm -rf .venv

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.core: pyproject.toml | .venv/bin/python
	$(INSTALL) -e '.[report]'
	touch $@

.venv/.docs: pyproject.toml | .venv/bin/python
	$(INSTALL) -e '.[docs]'
	touch $@

$(STAMP): pyproject.toml | .venv/bin/python
	$(INSTALL) -e '.[test,lint]'
	touch .venv/.core $@
