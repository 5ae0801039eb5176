# make paper      set up, measure this machine once, draw its figures, render the paper
# make test       set up, then test the code, every store and the notebooks (20 minutes on two cores)
# make check      the longer tests: settings, power failures, random histories, faults (45 minutes)
# make render     render the paper from committed data; measures nothing
# make site       paper, supplement and explorer as a folder for any static host: build/site
# make measure    measure this machine again
# make figures    redraw figures/, _variables.yml, the notebooks and tables from data/ (tracked files)
# make setup      install what all of these need
# make engines    also get what set-up does not: the current RocksDB by Maven, and TokuDB, python-rocksdb and dbm.gnu
#                 from older Debian packages (Debian only; two minutes)
# make lock       resolve requirements.lock anew
# make clean      remove build/ and .venv/
#
# Measure committed data again, on an otherwise idle machine; each prints how to publish its data:
# make reference EXPERIMENT=NAME   one experiment of harness/experiments.toml (5 to 100 minutes), into
#                 build/reference/NAME. FS=own uses this disk's own file system, without root, into
#                 build/reference-own; else each trial has a new ext4. Caps on memory need root
# make reference  all of them: one sitting of two hours, as root, which continues where the last one stopped;
#                 SITTING=60 sets its minutes, DRY_RUN=1 prints what remains
# make headline   the paper's findings 1 to 4 again, on this machine (40 minutes as root; two of them without root)
# make verify DIR=FOLDER   compare results (one folder per experiment) with the reference data; fails if one differs
# make archive    all sources and data, with those of the engines, as one zip with checksums
#
# Check the harness itself:
# make bench      measure what the harness costs, until each goal is met or missed (an hour at most, idle machine)
# make faults     find out what is left of stores when the disk fails (hours on two cores; as root): see docs/measuring.md
# make torture    inject faults, and count those that go unnoticed (40 minutes on two cores; full disks need root)
# make falsify    alter the data of the paper's findings, and see that its words no longer pass (5 minutes)
# make sanitize   run all C code under sanitizers: addresses, undefined behaviour, threads, leaks (10 minutes)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
GRID := harness/grids/quick.toml
LOCAL := build/local
# The notebooks that draw; sweep.ipynb measures.
NOTEBOOKS := $(filter-out notebooks/sweep.ipynb, $(wildcard notebooks/*.ipynb))
SOURCES := $(shell find harness/shims harness/kvbench study -name '*.[ch]' -o -name '*.py' -o -name CMakeLists.txt -o -name '*.cmake' -o -name '*.rs' -o -name 'Cargo.*' -o -name '*.toml')

# The environment comes first on the PATH, where papermill, Quarto and nbval find its Python and kernel.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export JUPYTER_PREFER_ENV_PATH := 1
export PYTHONWARNINGS := ignore::DeprecationWarning
# Notebooks run without a user's startup files; use_style() undoes the effect of settings on figures.
export IPYTHONDIR := $(CURDIR)/build/ipython
export MPLCONFIGDIR := $(CURDIR)/build/matplotlib
unexport PYTHONSTARTUP

.NOTPARALLEL: # a measurement needs the machine to itself
.PHONY: help paper test check engines render site measure figures reference headline verify archive bench faults falsify torture sanitize lock setup bare-loops clean

paper: build/this-machine/.done render
	@echo "The paper:        $(CURDIR)/build/paper/paper/index.html"
	@echo "This machine:     $(CURDIR)/build/paper/paper/this-machine.html"

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

# Set-up

setup: build/.installed build/.explorer build/.quarto

build/.system: harness/system-packages.sh $(wildcard harness/shims/stores/*.toml)
	sh harness/system-packages.sh
	@mkdir -p build && touch $@

build/.venv: requirements.lock requirements-berkeley.lock | build/.system
	$(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --require-hashes -r requirements-berkeley.lock || \
	    echo "Berkeley DB's Python bindings do not compile here; kvbench stores lists them as unavailable." >&2
	@touch $@

build/.installed: build/.venv pyproject.toml $(SOURCES)
	$(PIP) --no-build-isolation --no-deps \
	    --force-reinstall --config-settings=cmake.define.KV_WERROR=ON .
	$(PIP) --no-build-isolation --no-deps --force-reinstall ./study
	@touch $@

# The libraries of the explorer, a page of the paper
build/.explorer: paper/explorer/package-lock.json | build/.system
	npm ci --prefix paper/explorer --no-audit --no-fund --loglevel=error >build/explorer.log
	@touch $@

# Tried once, whether or not it succeeds; rm build/.quarto to try again.
build/.quarto: requirements-quarto.lock | build/.venv
	@python paper/render.py install
	@touch $@

engines:
	ENGINES=1 sh harness/system-packages.sh
	sh harness/engines/old-debian.sh
	rm -f build/.installed
	@$(MAKE) --no-print-directory setup
	sh harness/engines/python.sh

# This machine

$(LOCAL)/.done: | build/.installed
	kvbench sweep $(GRID) --out $(LOCAL) --retry || test $$? -eq 3 # 3: some cells failed, the others count
	kvbench collect $(LOCAL)
	@touch $@

measure: setup
	rm -rf $(LOCAL)
	@$(MAKE) --no-print-directory $(LOCAL)/.done

build/this-machine/.done: $(LOCAL)/.done $(NOTEBOOKS) build/.installed
	@mkdir -p build/notebooks
	@names=$$(python -m kvbench.experiment.listed quick) && for name in $$names; do \
	    echo "papermill notebooks/$$name.ipynb -p results $(LOCAL)"; \
	    KVBENCH_FIGURES=build/this-machine papermill --log-level WARNING --no-progress-bar -k python3 \
	        notebooks/$$name.ipynb build/notebooks/$$name.ipynb -p results $(LOCAL) || exit 1; \
	done
	python -m study.answers.beside $(LOCAL) --out build/this-machine/beside.md
	@touch $@

# The paper

render: setup
	python paper/render.py $(RENDERER)
	python paper/check.py build/paper

# The page of this machine is its own alone. The explorer's picture in README is one of a browser, so its bytes
# depend on that: cp build/site/explorer.png figures/ publishes it.
site: render
	rm -rf build/site
	cp -R build/paper/paper build/site
	rm -f build/site/this-machine.html
	python paper/check.py build/site
	chromium --headless=new --no-sandbox --hide-scrollbars --virtual-time-budget=5000 --window-size=1280,860 \
	    --screenshot=build/site/explorer.png file://$(CURDIR)/build/site/explorer.html 2>build/site.log
	@echo "The site: $(CURDIR)/build/site/index.html; its explorer is one file: explorer.html"

figures: setup
	rm -rf build/figures
	KVBENCH_FIGURES=build/figures python notebooks/execute.py $(NOTEBOOKS)
	cp build/figures/*.svg build/figures/*.png figures/
	cp build/figures/verdicts.csv data/verdicts/
	cp build/figures/answers.json data/explorer/
	python -m study.answers.provenance --out data/PROVENANCE.md
	python -m study.answers.repeating
	python -m study.answers.citation
	{ echo "# Written by make figures from data/; not by hand."; cat build/figures/*.yml; } > _variables.yml
	python paper/preview/forge.py docs/paper
	python -m study.answers.findings

SITTING ?= 120
reference: setup
	setpriv --pdeathsig TERM python harness/reference.py $(if $(DRY_RUN),--dry-run $(EXPERIMENT),$(or $(EXPERIMENT),$(SITTING)))

headline: setup
	setpriv --pdeathsig TERM sh harness/headline.sh

verify: setup
	python -m study.answers.verify $(or $(DIR),$(error DIR: name the folder, as in make verify DIR=build/headline))

archive: setup
	python harness/archive.py build

# The harness itself: its times, and its instructions counted by valgrind. PEERS: the engines' own benchmarks, as
# "leveldb=PROGRAM lmdb=PROGRAM"; for RocksDB, db_bench of Debian's rocksdb-tools, if it is on the PATH.
# BENCH=--quick: nine rounds each, even if goals stay open (20 minutes). BENCH=--original: also the time of a
# long sweep (25 minutes).

bench: setup bare-loops
	rm -rf build/bench/quick
	end=$$(($$(date +%s) + 3600)); \
	kvbench sweep $(GRID) --out build/bench/quick || test $$? -eq 3 || exit 1; \
	python harness/checks/bench/speed.py --out build/bench --bare-loops build/bench/bare \
	    --results build/bench/quick --seconds $$((end - $$(date +%s))) $(BENCH) $(PEERS:%=--peer %)
	@echo "To publish it: cp build/bench/speed.csv data/speed && make figures"

bare-loops: setup
	cmake -S harness/checks/bench -B build/bench/bare >build/bare-loops.log
	cmake --build build/bench/bare >>build/bare-loops.log

# What is left of stores when the disk fails. A table that is complete is kept: remove build/faults to begin anew.
# STORES: those to test; by default the engines of the main experiments. STATES, FIRST, DAMAGES: how much to try.

FAULTS := build/faults
STATES ?= 2000
FIRST ?= 20
DAMAGES ?= 1000
LEVELS := $(foreach level,process recoverable sync,--durability $(level))

faults: $(addprefix $(FAULTS)/,states.csv errors.csv device.csv full-disk.csv rot.csv)
	@echo "To publish it: cp $(FAULTS)/*.csv data/faults && make figures"

$(FAULTS)/states.csv: | setup
	@mkdir -p $(@D)
	kvbench crash --explore $(STORES) $(LEVELS) --states $(STATES) --out $@

$(FAULTS)/errors.csv $(FAULTS)/device.csv $(FAULTS)/full-disk.csv: | setup
	@mkdir -p $(@D)
	kvbench faults $(STORES) --kind $(KIND) --first $(FIRST) --out $@

$(FAULTS)/errors.csv: KIND := calls
$(FAULTS)/device.csv: KIND := device
$(FAULTS)/full-disk.csv: KIND := full

$(FAULTS)/rot.csv: | setup
	@mkdir -p $(@D)
	kvbench rot $(STORES) --damages $(DAMAGES) --out $@

# Faults and wrong answers, injected into the harness

falsify: setup
	$(PYTEST) -m check -v study/tests/test_findings.py

torture: setup
	python harness/checks/torture --out build/torture
	@echo "To publish it: cp build/torture/torture.csv data/torture && make figures"

sanitize: setup
	python harness/checks/torture sanitizers --out build/sanitize

# Tests: two at a time, and each notebook by one process

PYTEST := pytest --quiet --numprocesses 2
LONG := notebooks/reference.ipynb notebooks/sweep.ipynb # whose cells take a minute

test: setup
	ruff check .
	ruff format --check .
	clang-format --dry-run --Werror $(shell find harness -name '*.[ch]')
	mypy
	$(PYTEST) --dist worksteal -m "not check" harness/tests study/tests paper/preview paper/explorer
	$(PYTEST) --dist loadfile --nbval $(filter-out $(LONG),$(NOTEBOOKS))

check: setup
	$(PYTEST) --dist worksteal -m check harness/tests study/tests paper/explorer
	$(PYTEST) --dist loadfile --nbval $(LONG)

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
    --no-annotate

lock:
	$(LOCK) pyproject.toml --all-extras -o requirements.lock
	printf 'berkeleydb\nbsddb3\n' | $(LOCK) - -o requirements-berkeley.lock
	printf 'cython<3\npackaging\nsetuptools<60\nwheel\n' | $(LOCK) --no-deps - -o requirements-compilers.lock
	printf 'python-rocksdb\n' | $(LOCK) --no-deps - -o requirements-rocksdb.lock

clean:
	rm -rf build .venv paper/explorer/node_modules
