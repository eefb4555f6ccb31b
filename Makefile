# Everything runs in .venv, which is made when there is none. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: quickstart notebook test lint format docs graphs wheel release page demo browser test-web clean

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
	@mkdir -p runs
	@echo "1/3 Matching a sample pair with doap-dense-128, a network that ships"
	@$(BIN)/python match_main.py --output=runs/doap-dense-128.png
	@echo "2/3 Training a small network on photographs of scikit-image (two to three minutes)"
	@$(BIN)/python train_main.py --recipe=quickstart
	@echo "3/3 Matching the pair with the network just trained"
	@$(BIN)/python match_main.py --model=runs/quickstart --output=runs/quickstart.png

.venv/notebook: .venv/ready
	@$(PIP) install --editable '.[notebook]'
	@touch $@

# Runs the tour from start to end.
notebook: .venv/notebook
	@$(BIN)/jupyter execute examples/tour.ipynb

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

.venv/release: .venv/ready
	@$(PIP) install --editable '.[release]'
	@touch $@

# Builds and checks everything that is published, and uploads nothing.
release: .venv/release page
	@rm -rf build/lib dist && mkdir -p build
	@$(BIN)/python -m build --outdir dist . > build/release.log || { cat build/release.log; exit 1; }
	@$(BIN)/python -c 'import shutil, doap_tf; shutil.make_archive(f"dist/doap-web-{doap_tf.__version__}", "zip", "web/dist")'
	@$(BIN)/python .ci/check_release dist

wheel: .venv/ready
	@rm -rf build/lib dist
	@$(PIP) wheel --no-deps --wheel-dir dist .

# After the weights of a descriptor that ships have changed.
graphs: .venv/ready
	@$(BIN)/python -c 'from doap_tf.zoo.tflite_files import make_graph_files; make_graph_files()'

# The page that matches two photographs, on port PORT.
PORT ?= 8000

web/node_modules/ready: web/package-lock.json
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' 2>/dev/null && command -v npm >/dev/null || \
		{ echo "error: the page needs Node 20 or newer with npm: see https://nodejs.org" >&2; exit 2; }
	@echo "Installing the packages of the page from npm"
	@npm --prefix web ci --no-audit --no-fund --loglevel=error
	@touch $@

# The page takes its networks from an environment that is active and has doap_tf, or from .venv.
PAGE_PYTHON := $(shell cd / && python -c 'import importlib.metadata as m, sys; m.version("doap_tf"); print(sys.executable)' 2>/dev/null)

web/public/models/index.json: $(if $(PAGE_PYTHON),,.venv/ready) web/export_models.py doap_tf/weights/learned.tflite
	@echo "Exporting networks for the page (minutes)"
	@PYTHONPATH=. $(or $(PAGE_PYTHON),$(BIN)/python) web/export_models.py

# Static files in web/dist, for any host.
page: web/node_modules/ready web/public/models/index.json
	@npm --prefix web run --silent build

demo: page
	@node web/serve.mjs $(PORT)

browser: web/node_modules/ready
	@node web/tests/browser.mjs

test-web: browser page
	@npm --prefix web test --silent

clean:
	rm -rf .venv build dist *.egg-info runs web/dist web/node_modules web/public/models web/public/samples web/tests/fixture.json web/tests/relit web/screenshots
