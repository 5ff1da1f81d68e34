# Targets for instructors and engineers, included by the Makefile; students do not get this file.

## For instructors

.PHONY: secrets release grade-batch serve course gradescope calibrate
secrets: $(INSTALLED) ## write secrets.toml: a seed and hidden cases
	@$(PY) -m grader secrets

release: $(call with,notebook) ## make assignment/ and notebooks/ from their sources, and build/student.zip
	@$(PY) -m grader release

SUBMISSIONS ?= submitted
grade-batch: $(call with,batch) ## grade a class: SUBMISSIONS=folder or bulk download
	@$(PY) -m grader batch $(SUBMISSIONS) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) $(ARGS)

DB ?= course.sqlite
serve: $(call with,server) ## serve a course: submissions, queue, board; DB=file
	@$(PY) -m grader serve $(DB) --device $(DEVICE) $(foreach lab,$(LAB),--lab $(lab)) $(ARGS)

COURSE ?= course
course: $(call with,course) ## make an nbgrader course in COURSE
	@$(PY) -m grader course $(COURSE) $(ARGS)

gradescope: $(INSTALLED) ## make Gradescope's autograder.zip
	@mkdir -p build
	@$(PY) -m grader gradescope build/autograder.zip $(foreach lab,$(LAB),--lab $(lab)) $(ARGS)

calibrate: $(INSTALLED) ## write this GPU's tier table from the solutions and their ladder
	@$(PY) -m grader calibrate $(ARGS)

## For engineers

.PHONY: test test-fast lint coverage bench bench-models bench-grader bench-waiting explain-table figures
test: $(call with,test) lint ## the tests that need no GPU (on a GPU machine also those marked gpu); EVERY=all: all of each corpus
	@$(PY) -m pytest -n auto --dist loadgroup $(ARGS)

test-fast: $(call with,test) ## the quick tests, for the inner loop
	@$(PY) -m pytest -n auto --dist loadgroup -m "not slow and not gpu" $(ARGS)

lint: $(call with,test) ## ruff, mypy, and imports that go one way
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo

coverage: $(call with,test) ## the quick tests with coverage; build/coverage/index.html
	@$(PY) -m pytest -n auto --dist loadgroup -m "not slow and not gpu" --cov=grader --cov-report=term:skip-covered --cov-report=html:build/coverage $(ARGS)

bench: $(INSTALLED) ## race solutions, ladder and peers on this GPU
	@$(PY) -m bench race $(ARGS)

bench-models: $(call with,test) ## time whole models and the small model's layer on this GPU
	-@for file in solutions/*.py; do lab=$${file##*/}; $(PY) -m pytest -m gpu tests/gpu/test_gpu_swap.py -k "$${lab%.py}" & done; wait
	-@$(PY) -m model times
	-@$(PY) -m bench decoder
	-@$(PY) -m bench encoder --seconds 120
	-@$(PY) -m bench encoder --relative-positions --no-compile

bench-grader: $(call with,test) ## time the grader's own stages, and compare with the last run kept here
	@$(PY) -m pytest bench/grader -p no:xdist --benchmark-only --benchmark-autosave --benchmark-compare --benchmark-group-by=func \
	  --benchmark-storage=file://build/benchmarks --benchmark-columns=median,iqr,rounds $(ARGS)

bench-waiting: $(INSTALLED) ## time what a student waits for, beside another commit with ARGS="--against COMMIT"
	@$(PY) -m bench waiting $(ARGS)

explain-table: $(call with,test) ## what is said of every wrong kernel of the corpus, as a table; build/explain.json
	@$(PY) -m tests.explain_table $(ARGS)

figures: $(call with,test) ## draw bench/results/ and write docs/benchmarks.md
	@$(PY) -m bench figures $(ARGS)
