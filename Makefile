# Thin: every target is `python3 -m course_utils <command>`, which makes and repairs .venv by itself.
PYTHON ?= python3
COURSE := $(PYTHON) -m course_utils

.PHONY: help lab author test build submit fresh student-bundle lint

help:
	@$(COURSE) help

# make lab [UNIT=01] [PORT=8890]
lab author:
	@$(COURSE) $@ $(if $(UNIT),--unit "$(UNIT)") $(if $(PORT),--port "$(PORT)")

# make submit UNIT=01      make fresh UNIT=01 [CELL=u01-attention-flops]
submit fresh:
	@$(COURSE) $@ $(if $(UNIT),"$(UNIT)") $(if $(CELL),"$(CELL)")

# make test ARGS="tests/desk -k port"
test build lint student-bundle:
	@$(COURSE) $@ $(ARGS)
