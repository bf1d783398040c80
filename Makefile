# Thin: every target is `python3 -m autograder <command>`, which makes and repairs .venv by itself.
# Where you name a Python, here or as a variable of your shell, a .venv of another version is made anew
# by it; else .venv keeps the Python that it has.
ifneq ($(origin PYTHON),undefined)
export COURSE_PYTHON_NAMED := yes
endif
PYTHON ?= python3
COURSE := $(PYTHON) -m autograder

.PHONY: help setup lab author try test acceptance test-hub build book exercise submit fresh practice release collect grade read report student-bundle student-repository version lint

help:
	@$(COURSE) help

# make lab [UNIT=01] [PORT=8890]
lab author:
	@$(COURSE) $@ $(if $(UNIT),--unit "$(UNIT)") $(if $(PORT),--port "$(PORT)")

# make submit UNIT=01      make fresh UNIT=01 [CELL=u01-attention-flops]
# make practice UNIT=01 [CELL=u01-attention-flops]
# make try UNIT=05      make try CELL=u05-checkpoint
submit fresh practice try:
	@$(COURSE) $@ $(if $(UNIT),"$(UNIT)") $(if $(CELL),"$(CELL)")

# make setup: the environment and your notebooks, where something else starts Jupyter
setup:
	@$(COURSE) $@

# make collect UNIT=01 ZIP=download.zip [ARGS=--keep]      make grade UNIT=01 [ARGS="--jobs 4"]
# make read UNIT=01 [ARGS="--port 8890"]     make report UNIT=01
# make release UNIT=01 [ARGS=--dry-run]
release collect grade read report:
	@$(COURSE) $@ $(if $(UNIT),"$(UNIT)") $(if $(ZIP),"$(ZIP)") $(ARGS)

# make build [UNIT=01]      make test ARGS="tests/autograder/student -k port"
build:
	@$(COURSE) $@ $(if $(UNIT),"$(UNIT)") $(ARGS)

# make student-repository REPO=owner/name
student-repository:
	@$(COURSE) $@ "$(REPO)"

# make exercise UNIT=00 NAME=tensor-words
exercise:
	@$(COURSE) $@ "$(UNIT)" "$(NAME)"

test acceptance test-hub lint book version student-bundle:
	@$(COURSE) $@ $(ARGS)
