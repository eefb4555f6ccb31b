# Everything runs in .venv, which is made when there is none. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: quickstart test lint format docs clean

.venv/ready: setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

quickstart: .venv/ready
	$(BIN)/python train_main.py --flagfile=flags/quickstart.cfg

test: .venv/ready
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/docs
	$(BIN)/sphinx-build -q -W --keep-going docs build/docs

clean:
	rm -rf .venv build dist *.egg-info runs
