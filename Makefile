# Everything runs in .venv, which is made when there is none. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: quickstart test lint format docs wheel clean

.venv/ready: setup.py setup.cfg pyproject.toml
	@echo "Installing doap_tf and the packages it needs into .venv (minutes the first time)"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --upgrade pip
	@$(PIP) install --editable '.[dev]'
	@touch $@

.venv/docs: .venv/ready
	@$(PIP) install --editable '.[docs]'
	@touch $@

quickstart: .venv/ready
	@echo "Training a small network on photographs of scikit-image (two to three minutes)"
	@$(BIN)/python train_main.py --flagfile=flags/quickstart.cfg

test: .venv/ready
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: .venv/ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: .venv/ready
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: .venv/docs
	@$(BIN)/sphinx-build -q -W --keep-going docs build/docs

wheel: .venv/ready
	@rm -rf build/lib dist
	@$(PIP) wheel --no-deps --wheel-dir dist .

clean:
	rm -rf .venv build dist *.egg-info runs
