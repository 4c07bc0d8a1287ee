# The one command surface: every command that a human or CI runs is a target here. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(BIN)/.setup
SETUP_LINT := $(BIN)/.setup-lint
SETUP_BENCH := $(BIN)/.setup-bench
SETUP_LOAD := $(BIN)/.setup-load
SETUP_FUZZ := $(BIN)/.setup-fuzz
SETUP_DIST := $(BIN)/.setup-dist
GOOGLEAPIS := build/googleapis
SOURCES := $(shell find native/include native/runtime native/bindings native/host native/wire proto -type f) native/CMakeLists.txt $(wildcard client/*.py */pyproject.toml)
CPP := $(shell find native/include native/runtime native/bindings native/host native/wire tests -name '*.cpp' -o -name '*.h')
PROGRAMS := tests/native/test_programs.py tests/abi/test_programs.py
FUZZ_SECONDS ?= 600
IMAGE ?= host
# An input that fails is written to build/fuzz; what reaches new code to the first folder after the target's name.
FUZZ_LIMITS = -timeout=10 -rss_limit_mb=1024 -max_len=512 -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/
.DEFAULT_GOAL := help

.PHONY: help demo serve test test-modes soak soak-short test-huge bench bench-kernels load load-short load-second-opinion h2load hostile hostile-short test-frameworks test-aarch64 sanitize sanitize-long fuzz fuzz-short lint lint-overlays format generate new-operator dist image ci clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(SETUP) ## Set up, start a server on the host library, make one checked call of each operator, stop
	$(BIN)/python examples/demo.py

serve: $(SETUP) ## Set up and run a server in the foreground, on 127.0.0.1:50051
	$(BIN)/aclgrad-server --backend auto

test: $(SETUP) ## Set up and run the tests
	$(BIN)/python -m pytest

bench: $(SETUP_BENCH) h2load build/bench/pool build/bench/libcopies.so ## Measure the wire beside a bare gRPC echo, the runtime and the pool: BENCH_FLAGS=--help
	$(BIN)/python -m pip install --quiet --group frameworks
	$(BIN)/python -m tests.benchmarks $(BENCH_FLAGS)

load: $(SETUP_LOAD) ## Load a server with Locust, beside a bare echo, and judge it by objectives: LOAD_FLAGS="steady --factor 0.5"
	$(BIN)/python -m tests.load $(LOAD_FLAGS)

load-short: $(SETUP_LOAD) ## A bit of several scenarios, in half a minute
	$(BIN)/python -m tests.load short

load-second-opinion: $(SETUP) h2load ## The same loads by h2load, which is no gRPC client and takes little of the machine
	$(BIN)/python -m tests.load.second_opinion

h2load: ## Install h2load from Debian's nghttp2-client, where it is missing; needs root
	@command -v h2load > /dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nghttp2-client; }

build/bench/pool: tests/benchmarks/pool.cpp $(SOURCES)
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O3 -pthread -Inative/include -Inative/runtime $< native/runtime/*.cpp -ldl -o $@

bench-kernels: $(SETUP_BENCH) build/bench-kernels/libtouch.so ## Time the kernels beside PyTorch (installs it) and memcpy: BENCH_FLAGS=--help
	$(BIN)/python -m pip install --quiet --group frameworks
	$(BIN)/python -m pip install --quiet --no-deps torchvision==0.28.0
	$(BIN)/python -m tests.benchmarks.kernels $(BENCH_FLAGS)

build/bench-kernels/libtouch.so: tests/benchmarks/touch.cpp
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -shared -fPIC $< -o $@

# Without its own idea of memcpy, a compiler would have memcpy call itself.
build/bench/libcopies.so: tests/benchmarks/copies.cpp
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -fno-builtin -shared -fPIC $< -ldl -o $@

# The ways in which a device may differ: it takes no host memory as its own; it reports every misuse and sees every block.
test-modes: $(SETUP) ## Run the tests of runtime and server on devices that refuse host memory, and on a strict one
	mkdir -p build
	rm -f build/strict.txt
	echo '{"host": {"host_pointers": false}}' > build/copies.json
	echo '{"host": {"host_pointers": false, "strict": true, "strict_report": "$(CURDIR)/build/strict.txt"}}' > build/strict.json
	TEST_MODE=ACL_HOST_CONFIG ACL_HOST_CONFIG=$(CURDIR)/build/copies.json $(BIN)/python -m pytest tests/e2e tests/native
	TEST_MODE="ACL_HOST_CONFIG ACLGRAD_POOL_PASS_THROUGH" ACLGRAD_POOL_PASS_THROUGH=true \
		ACL_HOST_CONFIG=$(CURDIR)/build/strict.json $(BIN)/python -m pytest tests/e2e tests/native
	@test ! -s build/strict.txt || { cat build/strict.txt; exit 1; }

soak: $(SETUP) ## Make 100,000 mixed calls on each kind of device and see that the server does not grow
	SOAK_CALLS=100000 $(BIN)/python -m pytest -s tests/soak/test_growth.py

soak-short: $(SETUP) ## The same with 5,000 calls
	SOAK_CALLS=5000 $(BIN)/python -m pytest -s tests/soak/test_growth.py

test-huge: $(SETUP) ## Send tensors of more than 2 GiB there and back; takes 10 GiB of memory
	$(BIN)/python -m pytest -s tests/soak/test_huge_tensors.py

hostile: $(SETUP) build/hostile/libslow_look.so ## Attack servers beside an honest client and judge how they withstand: HOSTILE_FLAGS="costly watches"
	$(BIN)/python -m tests.hostile $(HOSTILE_FLAGS)

hostile-short: $(SETUP) build/hostile/libslow_look.so ## A bit of each attack in 90 seconds, without a judgement of percentiles
	$(BIN)/python -m tests.hostile --short $(HOSTILE_FLAGS)

build/hostile/libslow_look.so: tests/hostile/slow_look.cpp
	mkdir -p $(@D)
	$(CXX) -std=c++17 -O2 -shared -fPIC $< -ldl -o $@

test-frameworks: $(SETUP) ## Compare with live PyTorch (installs it)
	$(BIN)/python -m pip install --quiet --group frameworks
	$(BIN)/python -m pip install --quiet --no-deps torchvision==0.28.0
	$(BIN)/python -m pytest tests/frameworks
	$(BIN)/python -m tests.frameworks.error_table

test-aarch64: $(SETUP) ## Cross-compile the host library and compare its gradients under emulation (installs compiler and qemu-user, as root)
	command -v aarch64-linux-gnu-g++ qemu-aarch64 || { apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends g++-aarch64-linux-gnu qemu-user; }
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/aarch64/wheel ./native -C build-dir=$(CURDIR)/build/aarch64 \
		-C build.targets=acl_host -C install.components=none -C cmake.define.HOST_ONLY=ON \
		-C cmake.define.CMAKE_SYSTEM_NAME=Linux -C cmake.define.CMAKE_SYSTEM_PROCESSOR=aarch64 \
		-C cmake.define.CMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
	$(BIN)/python -m pytest tests/portable

sanitize: $(SETUP) ## Run the C++ programs under Address-, UndefinedBehavior- and ThreadSanitizer
	for each in address,undefined thread; do ACLGRAD_SANITIZE=$$each $(BIN)/python -m pytest $(PROGRAMS) || exit 1; done

sanitize-long: $(SETUP) ## The same for longer, and the ABI tests on host libraries that are built so
	for each in address,undefined thread; do export ACLGRAD_SANITIZE=$$each; \
		ACLGRAD_STRESS_FACTOR=5 $(BIN)/python -m pytest $(PROGRAMS) && $(BIN)/python -m tests.sanitizers || exit 1; done

fuzz: $(SETUP_FUZZ) ## Fuzz codec and chunk protocol for FUZZ_SECONDS in all; tests/fuzz/corpus gains what reached new code
	mkdir -p build/fuzz
	for each in codec chunk_protocol; do $(BIN)/python -m tests.fuzz $$each tests/fuzz/corpus/$$each \
		$(FUZZ_LIMITS) -max_total_time=$$(($(FUZZ_SECONDS) / 2)) || exit 1; done

fuzz-short: $(SETUP_FUZZ) ## The same for 24 seconds, and the corpus stays as it is
	for each in codec chunk_protocol; do mkdir -p build/fuzz/$$each && $(BIN)/python -m tests.fuzz $$each build/fuzz/$$each \
		tests/fuzz/corpus/$$each $(FUZZ_LIMITS) -max_total_time=12 || exit 1; done

lint: $(SETUP_LINT) $(GOOGLEAPIS) ## Check style, types, layers, protos and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/buf lint proto
	$(BIN)/buf format --diff --exit-code proto
	$(BIN)/python client/generate.py --check
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(BIN)/kubernetes-validate --strict --quiet $(filter-out %/kustomization.yaml,$(wildcard deploy/kubernetes/base/*.yaml))
	@! command -v kubectl >/dev/null || $(MAKE) --no-print-directory lint-overlays

lint-overlays: $(SETUP_LINT)
	mkdir -p build/kubernetes
	for each in host ascend; do kubectl kustomize deploy/kubernetes/overlays/$$each > build/kubernetes/$$each.yaml \
		&& $(BIN)/kubernetes-validate --strict --quiet build/kubernetes/$$each.yaml || exit 1; done

format: $(SETUP_LINT) ## Put every source file into the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)
	$(BIN)/buf format --write proto

generate: $(SETUP_LINT) ## Write what lists the operators, from their folders
	$(BIN)/python client/generate.py

new-operator: ## Write the stubs of an operator that a header declares: NAME=... SYMBOL=...
	@$(PYTHON) client/new_operator.py $(NAME) $(SYMBOL)

# The native wheel gets the tag of the oldest glibc that has every symbol it asks for: the machine's own would say less.
dist: $(SETUP_DIST) ## Build the three wheels into dist, check them, and run the demo from them alone
	rm -rf dist build/dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/dist ./client ./native ./server
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --wheel-dir dist build/dist/aclgrad_native-*.whl
	cp build/dist/*-none-any.whl dist
	$(BIN)/twine check --strict dist/*
	test "$$(ls dist | cut -d- -f2 | sort | uniq -c | awk '{print $$1}')" = 3
	$(PYTHON) -m venv build/dist/venv
	build/dist/venv/bin/python -m pip install --quiet --only-binary :all: dist/*.whl
	build/dist/venv/bin/python examples/demo.py

image: ## Build the container image, aclgrad:host; IMAGE=ascend with BUILD_FLAGS="--build-arg BASE=..." the other
	docker build --target $(IMAGE) --tag aclgrad:$(IMAGE) --build-arg REVISION=$$(git rev-parse HEAD) \
		--build-arg VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' server/pyproject.toml) $(BUILD_FLAGS) .

ci: lint test test-modes soak-short sanitize fuzz-short load-short hostile-short demo ## What continuous integration runs

clean: ## Remove the environment and everything built
	rm -rf .venv build dist native/build client/src/aclgrad/v1

$(SETUP): pyproject.toml $(SOURCES)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable './client[cli]' --editable ./native --editable ./server --group test
	touch $@

$(SETUP_LINT): $(SETUP)
	$(BIN)/python -m pip install --quiet --group lint
	touch $@

$(SETUP_BENCH): $(SETUP)
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

$(SETUP_DIST): $(SETUP)
	$(BIN)/python -m pip install --quiet --group dist
	touch $@

$(SETUP_LOAD): $(SETUP)
	$(BIN)/python -m pip install --quiet --group load
	touch $@

$(SETUP_FUZZ): $(SETUP)
	$(BIN)/python -m pip install --quiet --group fuzz
	touch $@

# What buf has to find of googleapis: the protos that the googleapis-common-protos package brings along.
$(GOOGLEAPIS): $(SETUP)
	mkdir -p $@/google/rpc
	$(BIN)/python -c "import google.rpc, shutil; [shutil.copy(f'{folder}/status.proto', '$@/google/rpc') for folder in google.rpc.__path__]"
