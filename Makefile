# Targets for students; `make` alone lists them. course.mk adds those for instructors and engineers, where it is.
#   VENV=    use no virtual environment (torch and Triton already there)
#   PYTHON=  the interpreter that makes .venv, or that runs everything when VENV is empty

VENV ?= .venv
PYTHON ?= python3
DEVICE ?= auto
SUBMISSION ?= $(if $(wildcard notebooks/*.ipynb),notebooks,assignment)
LAB ?=
EXTRAS := $(if $(shell command -v nvidia-smi 2>/dev/null),[cuda],)
PIP_OPTIONS ?=

# $(call with,EXTRA): the file that says that .venv has the packages of an extra of pyproject.toml; nothing without .venv.
ifeq ($(strip $(VENV)),)
  PY := "$(PYTHON)"
  INSTALLED :=
  with =
else
  PY := $(VENV)/bin/python
  INSTALLED := $(VENV)/.installed
  with = $(VENV)/.$(1)-installed
endif

.DEFAULT_GOAL := help
.PHONY: help install grade watch submit status board notebook doctor model clean

help: ## list the targets
	@sed -nE 's/^## (.*)/\n\1/p; s/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | \
	  while IFS="$$(printf '\t')" read -r name text; do printf '%-20s  %s\n' "$$name" "$$text"; done | sed 's/ *$$//'
	@printf '\nVariables: SUBMISSION=path LAB=$(subst $() $(),|,$(basename $(notdir $(wildcard assignment/*.py)))) DEVICE=auto|cpu|cuda VENV= PYTHON=python3\n'

$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "$(PYTHON) was not found; install Python 3.11 to 3.14, or set PYTHON=" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$("$(PYTHON)" -V); expected Python 3.11 to 3.14: set PYTHON=python3.12" >&2; exit 2; }
	@test -x $(VENV)/bin/python || "$(PYTHON)" -m venv $(VENV)
	@echo "installing into $(VENV) (once; torch is large) ..."
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".$(EXTRAS)"
	@touch $@

$(VENV)/.%-installed: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e ".[$*]"
	@touch $@

## For students

notebook: $(call with,notebook) ## open the notebooks in JupyterLab
	@$(PY) -m jupyterlab notebooks/opening.ipynb $(ARGS)

grade: $(INSTALLED) ## grade SUBMISSION (default: your notebooks)
	@mkdir -p report
	@$(PY) -m grader grade $(SUBMISSION) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) --html report/index.html $(ARGS)

watch: $(INSTALLED) ## grade again whenever SUBMISSION is saved; Ctrl-C stops
	@mkdir -p report
	@$(PY) -m grader watch $(SUBMISSION) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) --html report/index.html $(ARGS)

submit: $(INSTALLED) ## submit LAB's kernel to the course server (`lab login` first)
	@$(PY) -m grader.cli.lab_commands submit $(LAB) $(SUBMISSION) $(ARGS)

status: $(INSTALLED) ## list what you submitted
	@$(PY) -m grader.cli.lab_commands status $(ARGS)

board: $(INSTALLED) ## show the course's board
	@$(PY) -m grader.cli.lab_commands board $(ARGS)

doctor: $(INSTALLED) ## say what this machine can grade and what is missing
	@$(PY) -m grader doctor

install: $(INSTALLED) ## set up .venv with what grading needs

model: $(call with,model) ## train the small language model on this machine
	@$(PY) -m model train $(ARGS)

clean: ## remove caches and .venv
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache build *.egg-info report
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

-include course.mk
