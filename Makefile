# Targets for students and instructors; `make` alone lists them.
#   VENV=    use no virtual environment (torch and Triton already there)
#   PYTHON=  the interpreter that makes .venv, or that runs everything when VENV is empty

VENV ?= .venv
PYTHON ?= python3
DEVICE ?= auto
SUBMISSION ?= $(if $(wildcard notebooks/*.ipynb),notebooks,assignment)
LAB ?=
EXTRAS := $(if $(shell command -v nvidia-smi 2>/dev/null),[cuda],)
PIP_OPTIONS ?=

ifeq ($(strip $(VENV)),)
  PY := $(PYTHON)
  INSTALLED :=
  BATCH_INSTALLED :=
  TEST_INSTALLED :=
  NOTEBOOK_INSTALLED :=
  MODEL_INSTALLED :=
  COURSE_INSTALLED :=
else
  PY := $(VENV)/bin/python
  INSTALLED := $(VENV)/.installed
  BATCH_INSTALLED := $(VENV)/.batch-installed
  TEST_INSTALLED := $(VENV)/.test-installed
  NOTEBOOK_INSTALLED := $(VENV)/.notebook-installed
  MODEL_INSTALLED := $(VENV)/.model-installed
  COURSE_INSTALLED := $(VENV)/.course-installed
endif

.DEFAULT_GOAL := help
.PHONY: help install grade grade-batch watch notebook doctor release calibrate test test-fast lint clean

help: ## list the targets
	@echo "Graded lab on Triton kernels. Targets:"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done
	@echo "Variables: SUBMISSION=path LAB=$(subst $() $(),|,$(basename $(notdir $(wildcard assignment/*.py)))) DEVICE=auto|cpu|cuda VENV= PYTHON=python3"

$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found; install Python 3.11 or 3.12, or set PYTHON=" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V); expected Python 3.11 or 3.12: set PYTHON=python3.12" >&2; exit 2; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once; torch is large) ..."
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".$(EXTRAS)"
	@touch $@

$(VENV)/.test-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[test]"
	@touch $@

$(VENV)/.notebook-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[notebook]"
	@touch $@

$(VENV)/.model-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[model]"
	@touch $@

$(VENV)/.batch-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[batch]"
	@touch $@

$(VENV)/.course-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[course]"
	@touch $@

install: $(INSTALLED) ## set up .venv with what grading needs

grade: $(INSTALLED) ## grade SUBMISSION (default: your notebooks)
	@mkdir -p report
	@$(PY) -m grader grade $(SUBMISSION) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) --html report/index.html $(ARGS)

SUBMISSIONS ?= submitted
grade-batch: $(BATCH_INSTALLED) ## grade a class: SUBMISSIONS=folder or bulk download
	@$(PY) -m grader batch $(SUBMISSIONS) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) $(ARGS)

watch: $(INSTALLED) ## grade again whenever SUBMISSION is saved; Ctrl-C ends
	@mkdir -p report
	@$(PY) -m grader watch $(SUBMISSION) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) --html report/index.html $(ARGS)

doctor: $(INSTALLED) ## say what this machine can grade and what is missing
	@$(PY) -m grader doctor

notebook: $(NOTEBOOK_INSTALLED) ## open the notebooks in JupyterLab
	@$(PY) -m jupyterlab notebooks/opening.ipynb $(ARGS)

release: $(NOTEBOOK_INSTALLED) ## regenerate assignment/ and notebooks/ from their sources
	@$(PY) -m grader release

.PHONY: course gradescope secrets
secrets: $(INSTALLED) ## write secrets.toml: a seed and hidden cases
	@$(PY) -m grader secrets

COURSE ?= course
course: $(COURSE_INSTALLED) ## make an nbgrader course in COURSE
	@$(PY) -m grader course $(COURSE) $(ARGS)

gradescope: $(INSTALLED) ## make Gradescope's autograder.zip
	@mkdir -p build
	@$(PY) -m grader gradescope build/autograder.zip $(foreach lab,$(LAB),--lab $(lab)) $(ARGS)

.PHONY: calibrate bench bench-models bench-grader figures coverage explain-table
calibrate: $(INSTALLED) ## write this GPU's tier table from the solutions
	@$(PY) -m grader calibrate $(ARGS)

bench: $(INSTALLED) ## race solutions, ladder and peers on this GPU
	@$(PY) -m bench race $(ARGS)

bench-models: $(TEST_INSTALLED) ## time whole models and the small model's layer on this GPU
	-@for file in solutions/*.py; do lab=$${file##*/}; $(PY) -m pytest -m gpu tests/gpu/test_gpu_swap.py -k "$${lab%.py}" & done; wait
	-@$(PY) -m model times
	-@$(PY) -m bench decoder
	-@$(PY) -m bench encoder --seconds 120
	-@$(PY) -m bench encoder --relative-positions --no-compile

bench-grader: $(TEST_INSTALLED) ## time the grader's own stages, and compare with the last run kept here
	@$(PY) -m pytest bench/grader -p no:xdist --benchmark-only --benchmark-autosave --benchmark-compare --benchmark-group-by=func \
	  --benchmark-storage=file://build/benchmarks --benchmark-columns=median,iqr,rounds $(ARGS)

explain-table: $(TEST_INSTALLED) ## what is said of every wrong kernel of the corpus, as a table; build/explain.json
	@$(PY) -m tests.explain_table $(ARGS)

coverage: $(TEST_INSTALLED) ## the quick tests with coverage; build/coverage/index.html
	@$(PY) -m pytest -n auto --dist loadgroup -m "not slow and not gpu" --cov=grader --cov-report=term:skip-covered --cov-report=html:build/coverage $(ARGS)

.PHONY: model
model: $(MODEL_INSTALLED) ## train the small language model on this machine
	@$(PY) -m model train $(ARGS)

figures: $(TEST_INSTALLED) ## draw bench/results/ and write docs/benchmarks.md
	@$(PY) -m bench figures $(ARGS)

lint: $(TEST_INSTALLED) ## ruff, mypy, and imports that go one way
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo

test: $(TEST_INSTALLED) lint ## all tests that need no GPU (on a GPU machine also those marked gpu)
	@$(PY) -m pytest -n auto --dist loadgroup $(ARGS)

test-fast: $(TEST_INSTALLED) ## the quick tests, for the inner loop
	@$(PY) -m pytest -n auto --dist loadgroup -m "not slow and not gpu" $(ARGS)

clean: ## remove caches and .venv
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache build *.egg-info report
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
