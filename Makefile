# Everything a machine needs is installed here, into .venv: what constraints.txt locks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test numeric fuzz lint bench docs dist release-check clean install lock

install: $(VENV)/.installed

# The lock, by versions and hashes; torch, alone and by its version; then this project.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Installing into $(VENV) ..."
	@start=$$(date +%s) && \
	$(PYTHON) -m venv $(VENV) && \
	grep -v '^torch==' constraints.txt > $(VENV)/hashed.txt && \
	$(PIP) --require-hashes --no-deps -r $(VENV)/hashed.txt && \
	$(PIP) "$$(grep '^torch==' constraints.txt)" && \
	$(PIP) --no-deps --no-build-isolation -e . && \
	touch $@ && \
	echo "Installed in $$(( $$(date +%s) - start )) s."

# Newest versions of everything but torch into constraints.txt.
lock:
	$(PYTHON) tools/lock.py

demo: install
	$(BIN)/naq run debian --episodes 800 --set features=auto --set lr=3e-4 --out runs/demo
	$(BIN)/naq predict debian --classes examples/sections.txt --out runs/demo/sections.csv --report runs/demo/sections.html
	$(BIN)/python examples/class_names.py runs/demo/sections.csv

# Three processes with one thread each: tests are many and small, and some wait for other processes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 3 --dist loadfile
test: install
	$(PYTEST)

# The tests of arithmetic under other instruction sets: nothing may rest on the last bit of a float.
NUMERIC := tests/nn tests/heads tests/learners tests/embedders tests/training tests/paper/rivals
numeric: install
	for set in default avx2; do ATEN_CPU_CAPABILITY=$$set $(PYTEST) $(NUMERIC) || exit 1; done

# Damaged files for hours: other seeds each time; the table of docs/trust.md is of benchmarks/fuzz.py alone.
# Then four targets that follow coverage: FUZZ_RUNS inputs each, those that reach new code are kept in build/fuzz.
FUZZ_RUNS ?= 1000000
fuzz: $(VENV)/.installed-fuzz
	NAQ_FUZZ=5000 $(BIN)/python -m pytest -q tests/fuzz
	$(BIN)/python benchmarks/fuzz.py --each 20000 --first $$(date +%s)
	$(BIN)/python benchmarks/guided_fuzz.py all --runs $(FUZZ_RUNS)

$(VENV)/.installed-fuzz: $(VENV)/.installed
	$(PIP) --no-build-isolation -e '.[fuzz]'
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/budget.py --names

bench: install
	$(BIN)/python benchmarks/figures.py

# The site, in build/docs.
docs: install
	$(BIN)/python tools/docs_site.py

# Wheel and sdist, in dist.
dist: install
	rm -rf build/lib build/bdist.* dist
	$(BIN)/python -m build --no-isolation --outdir dist .

# The wheel in an empty environment of every Python that is found: minutes.
release-check: dist
	$(BIN)/python tools/check_wheel.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
