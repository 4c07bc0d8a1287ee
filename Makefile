# The one command surface: every command that a human or CI runs is a target here. `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
# Stamps: .venv with pip; the packages in it; the installed C++, as new as its sources.
VENV := $(BIN)/.venv
SETUP := $(BIN)/.setup
BUILT := native/build/editable/.built
GOOGLEAPIS := build/googleapis
# The versions that everybody has. Without isolation the builds take theirs from it as well.
LOCKED := --constraint requirements.lock
PROMETHEUS := build/prometheus/usr/bin/promtool
PACKAGED := pyproject.toml requirements.lock $(wildcard */pyproject.toml client/*.py) $(shell find proto -type f)
NATIVE := $(shell find native -path native/build -prune -o -name '*.h' -print -o -name '*.cpp' -print) native/CMakeLists.txt native/operator_table.py
CPP := $(filter %.cpp %.h,$(NATIVE)) $(shell find tests tools examples/cpp -name '*.cpp' -o -name '*.h')
# $(call pytest,ENVIRONMENT,ARGUMENTS,MARKS). The tests of one file share servers, so they stay in one process.
pytest = $(call run_tests,$(1),--numprocesses 3 --dist loadfile -m "($(3)) and not alone" $(2))
# $(call run_tests,ENVIRONMENT,ARGUMENTS). CI runs failed tests once more, alone: a test that passes then has failed itself,
# and not the code. Both end CI.
run_tests = { $(1) $(BIN)/python -m pytest $(2) $(if $(SECOND_RUN),$(FAILED) || \
	{ echo "=== FAILED TESTS RUN ONCE MORE ==="; $(1) $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(2) --numprocesses 0 $(FAILED) \
	&& echo "=== ALL PASSED NOW: A TEST THAT FAILS AT TIMES IS A DEFECT OF THE TEST; SEE ABOVE FOR WHICH ==="; exit 1; }); }
# Each target remembers its own failed tests, because several may run side by side.
FAILED = -o cache_dir=build/pytest/$@
# $(call debian,COMMAND,PACKAGES). Installs Debian packages if the command is missing, as root or by sudo if there is one.
SUDO := $(if $(filter-out 0,$(shell id -u)),$(shell command -v sudo))
debian = command -v $(1) > /dev/null || { $(SUDO) apt-get update -qq && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2); }
PROGRAMS := tests/native/test_programs.py tests/abi/test_programs.py
# Tests whose servers or devices a mode of the device changes, unless their mark is `once`.
MODAL := tests/native $(addprefix tests/e2e/,chunks faults input limits operators process shared_memory)
# The tests start hundreds of processes, which read compiled modules even where the environment turns that off.
export PYTHONDONTWRITEBYTECODE :=
export PRE_COMMIT_HOME ?= $(CURDIR)/build/pre-commit
FUZZ_SECONDS ?= 600
DURATION ?= 30m
PIN = $(BIN)/uv pip compile - --quiet --universal --python-version 3.11 --no-header --no-annotate --upgrade
IMAGE ?= host
# Whether a release has images; building them needs Docker, and for another architecture its emulation.
IMAGES ?= $(shell docker info > /dev/null 2>&1 && echo yes || echo no)
# What `make dist` builds wheels for.
PYTHONS ?= $(BIN)/python
ARCHITECTURES ?= $(shell uname -m)
# A failing input is written to build/fuzz. An input that reaches new code goes to the first folder after the target.
FUZZ_LIMITS = -timeout=10 -rss_limit_mb=1024 -max_len=512 -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/
.DEFAULT_GOAL := help

.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\#.*/\1/p' Makefile) sanitize-memory sanitize-threads chromium h2load release-files

##@ Use

help: ## List the targets, by purpose
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(BUILT) ## Set up, and build and install changed C++

demo: $(BUILT) ## Set up, start a server on the host library, make one checked call of each operator, stop
	@echo "=== Starting a server on the host library and calling each operator"
	$(BIN)/python examples/demo.py

serve: $(BUILT) ## Set up and run a server in the foreground, on 127.0.0.1:50051
	$(BIN)/aclgrad-server --backend auto

new-operator: ## Write the stubs of an operator that a header declares: SYMBOL=aclnn... [FAMILY=FAMILY | LIKE=OPERATOR]
	@$(PYTHON) -m tools.generate.new_operator "$(SYMBOL)" $(if $(FAMILY),--family $(FAMILY)) $(if $(LIKE),--like $(LIKE))

generate: $(BIN)/.setup-client $(BIN)/.setup-lint ## Write every file and table that follows from the source
	$(BIN)/python -m tools.generate

format: $(BIN)/.setup-lint ## Format every source file
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(CPP)
	@$(BIN)/buf format --write proto

clean: ## Remove the environment and all build output
	rm -rf .venv build dist native/build client/src/aclgrad/v1 examples/node/node_modules

##@ Test

# Parts that judge neither times nor memory run two at a time, each on one core. The others have the machine to themselves.
CI_BESIDE := sanitize-memory sanitize-threads test-bridges lint
CI_ALONE := test-wheels test coverage-short soak-short load-short hostile-short chaos-short demo
ci: export SECOND_RUN := yes
ci: $(BUILT) $(addprefix $(BIN)/.setup-,lint frameworks bench) ## Run what every submission runs: lint, `make test`, bridges, sanitizers, the wheels' demo, the short lab
	@rm -f build/seconds.txt
	CMAKE_BUILD_PARALLEL_LEVEL=1 $(MAKE) --no-print-directory --jobs 2 --output-sync=target $(addprefix timed-,$(CI_BESIDE))
	$(MAKE) --no-print-directory $(addprefix timed-,$(CI_ALONE))
	@cat build/seconds.txt

timed-%:
	@mkdir -p build; start=$$(date +%s); $(MAKE) --no-print-directory $* && echo "$* took $$(($$(date +%s) - start)) s" >> build/seconds.txt

lint: $(SETUP) $(BIN)/.setup-lint $(GOOGLEAPIS) ## Check style, types, layers, protos, manifests and generated files, silently if all is well; OVERLAYS=FOLDER for your overlay of Kubernetes alone
ifdef OVERLAYS
	@$(BIN)/python -m tools.overlays $(OVERLAYS)
else
	@mkdir -p build
	@$(BIN)/pre-commit run --all-files > build/lint.txt 2>&1 || { cat build/lint.txt; exit 1; }
	@$(BIN)/python -m pytest tests/overlays > build/lint.txt 2>&1 || { cat build/lint.txt; exit 1; }
endif

test: $(BUILT) $(BIN)/.setup-lint ## Set up and run the tests, without the slow ones and without what needs a framework, a browser, Node, Prometheus or HAProxy
	@$(call pytest,,,not slow)

test-client: $(BIN)/.setup-client ## Run the tests of the client alone, without the slow ones: no compiler is needed
	@$(call run_tests,,--numprocesses 3 --dist loadfile -m "not slow" tests/client tests/judge/bundles tests/testing tests/commands)

test-slow: $(BUILT) ## Run the slow tests and no others: products, vector levels, restarts, examples of the pages, builds, times and memory
	@$(call pytest,,,slow) && $(call run_tests,,-m alone)

# CANN's libraries, in the environment of its set_env.sh: ACL_LIBRARY=libascendcl.so:libnnopbase.so:libopapi.so.
test-abi: $(BUILT) ## Run the ABI tests alone, slow ones included, on any library: ACL_LIBRARY=FILE:FILE; by default the host library as split packages
	@$(call pytest,ACL_LIBRARY=$${ACL_LIBRARY:-$$($(BIN)/python -m tests.abi.split_packages build/split)},tests/abi,slow or not slow)

# The device refuses host memory and reports every misuse. Servers make each block an allocation, so the strict library sees
# every access out of bounds; devices of tests/native cut blocks from larger ones. The device cannot tell the kinds of clients
# apart, so one is enough, and what takes host memory ran in `make test`.
test-modes: $(BUILT) ## Repeat the tests of runtime and server that a strict device without host memory can change, without the slow ones
	mkdir -p build
	rm -f build/strict.txt
	echo '{"host": {"host_pointers": false, "card_messages": true, "signal_handlers": true},' \
		'"strict": {"report": "$(CURDIR)/build/strict.txt"}}' > build/strict.json
	@$(call pytest,TEST_MODE="ACL_HOST_CONFIG TEST_SERVER" TEST_SERVER=pool_pass_through \
		ACL_HOST_CONFIG=$(CURDIR)/build/strict.json,-k "not (host_pointers or async- or async])" $(MODAL),not once and not slow)
	@test ! -s build/strict.txt || { cat build/strict.txt; exit 1; }

# Of the pages, those whose examples import a framework; the names of the two folders match as well.
test-bridges: $(BUILT) $(BIN)/.setup-frameworks ## Test aclgrad.torch and aclgrad.jax (installs PyTorch and JAX), without comparing with PyTorch's own operators
	@$(call run_tests,,--numprocesses 2 --dist loadfile -k "torch or jax or README" tests/torch tests/judge/torch tests/jax tests/docs/test_snippets.py tests/docs/test_readme.py)

# Of what msprobe requires, only what its accuracy checker imports: the rest converts models.
test-frameworks: $(BUILT) $(BIN)/.setup-frameworks ## Compare with live PyTorch, torchvision and msprobe (installs them)
	$(BIN)/python -m pip install --quiet --no-deps torchvision==0.28.0 mindstudio-probe==26.2.0
	$(BIN)/python -m pip install --quiet $(LOCKED) einops matplotlib pandas psutil pytz pyyaml tensorboard tqdm
	$(BIN)/python -m pytest tests/frameworks

# An environment of its own: once installed, torch_npu is loaded by every `import torch`.
TORCH_NPU := build/torch-npu
$(TORCH_NPU)/.made:
	python3.11 -m venv $(TORCH_NPU)
	$(TORCH_NPU)/bin/python -m pip install --quiet torch==2.13.0 torch_npu==2.13.0 numpy pyyaml setuptools ninja
	touch $@

test-torch-npu: $(BUILT) $(TORCH_NPU)/.made ## Run PyPI's torch_npu on the host library and compare with PyTorch (installs both; needs Python 3.11)
	TORCH_NPU_PYTHON=$(CURDIR)/$(TORCH_NPU)/bin/python $(BIN)/python -m pytest -rP tests/torch_npu

test-languages: $(BUILT) $(GOOGLEAPIS) examples/node/node_modules ## Build and test the clients for Node and C++ (installs Node and gRPC from Debian if they are missing)
	$(call debian,grpc_cpp_plugin,libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc)
	$(BIN)/cmake -S examples/cpp -B build/cpp
	$(BIN)/cmake --build build/cpp
	$(BIN)/python -m pytest tests/languages

chromium:
	@$(call debian,chromedriver,chromium chromium-driver)

test-browser: $(BUILT) $(BIN)/.setup-browser chromium ## Look at the status page and the page of a judgement in headless Chromium (installs it); pictures go to build/browser
	$(BIN)/python -m pytest tests/browser

examples/node/node_modules: examples/node/package-lock.json
	$(call debian,npm,nodejs npm)
	cd $(@D) && npm ci --silent --ignore-scripts
	touch $@

test-deploy: $(BUILT) $(PROMETHEUS) ## Test HAProxy, the units of systemd, alerts and dashboard with real servers (installs HAProxy, systemd, strace, Prometheus)
	@$(call debian,haproxy,haproxy)
	@$(call debian,systemd-analyze,systemd)
	@$(call debian,strace,strace)
	$(BIN)/python -m pytest tests/haproxy tests/systemd tests/monitoring

test-ray: $(BUILT) $(BIN)/.setup-ray ## Test aclgrad.ray on a Ray cluster of two nodes (installs Ray)
	$(BIN)/python -m pytest tests/ray

# Unpacked and not installed, because the package starts a service. The lists of packages may be missing.
$(PROMETHEUS):
	mkdir -p build/debian
	cd build/debian && { apt-get download -qq prometheus || { $(SUDO) apt-get update -qq && apt-get download -qq prometheus; }; }
	dpkg-deb --extract build/debian/prometheus_*.deb build/prometheus

# The interpreter and all that the tests start run under emulation; the tests that compare bits run here.
AARCH64 := build/aarch64
EMULATED_TESTS := $(addprefix tests/,$(addprefix abi/test_,exports.py tensor.py float16.py status.py stream.py event.py \
	memory.py views.py lifecycle.py strict.py information.py products.py) native/test_values.py native/test_loading.py \
	$(addprefix e2e/,operators/test_operators.py chunks/test_chunked_calls.py batches/test_batches.py \
	shared_memory/test_results.py process/test_probe.py process/test_drain.py))
test-aarch64: $(BUILT) $(BIN)/.setup-dist ## Build the wheels for aarch64, and test them under emulation (installs qemu-user and mmdebstrap; needs python3.11)
	@$(call debian,qemu-aarch64,qemu-user)
	@$(call debian,mmdebstrap,mmdebstrap)
	rm -rf $(AARCH64)/wheels
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m tools.wheels $(AARCH64)/wheels --architectures aarch64 --pythons python3.11
	$(BIN)/python -m tests.portable.emulated $(AARCH64)/wheels/*.whl
	$(AARCH64)/venv/bin/python examples/demo.py
	$(BIN)/python -m pytest tests/portable
	$(AARCH64)/venv/bin/python -m pytest --timeout 900 -p no:cacheprovider -m "not slow" $(EMULATED_TESTS)

test-huge: $(BUILT) ## Send tensors of more than 2 GiB and get them back; takes 10 GiB of memory
	$(BIN)/python -m pytest tests/huge

soak: $(BUILT) ## Make one call of each shape, then mixed calls under restarts of workers, and judge what grows: DURATION=2h for longer than 30m
	CALL_CELLS=16777216 $(BIN)/python -m pytest tests/e2e/limits/test_call_memory.py
	$(BIN)/python -m tools.lab soak $(DURATION)

soak-short: $(BUILT) ## The same with small shapes and 24 seconds of calls; catches large leaks only
	$(BIN)/python -m tools.lab soak 24s

# In a network and with mounts of its own if run as root; without iptables, libfaketime or PyTorch, what needs them is left out.
chaos: $(BUILT) ## Inject faults by a seed into two hosts under traffic of every kind, and judge the history; then play rolling updates to and from the last release: SEED=7 FAULTS=200 CHAOS_FLAGS="--only kill stop"
	$(BIN)/python -m tools.lab chaos $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(CHAOS_FLAGS)
	$(BIN)/python -m tools.lab rolling

chaos-short: $(BUILT) ## The same for two minutes: 12 faults of the kinds that take little time, and one update (installs iptables and libfaketime)
	@$(call debian,iptables,iptables)
	@$(call debian,faketime,faketime)
	$(BIN)/python -m tools.lab chaos --short $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(CHAOS_FLAGS)
	$(BIN)/python -m tools.lab rolling --short

rehearsal: $(BUILT) ## Run the runbook of docs/first-day.md on the host library, as each product: REHEARSAL_FLAGS="910B --full"
	$(BIN)/python -m tools.rehearsal --folder build/rehearsal $(REHEARSAL_FLAGS)

hostile: $(BUILT) ## Attack servers that an honest client uses, and judge its service: HOSTILE_FLAGS="costly watches"
	$(BIN)/python -m tools.lab hostile $(HOSTILE_FLAGS)

hostile-short: $(BUILT) ## Part of each attack in 90 seconds, with wide limits
	$(BIN)/python -m tools.lab hostile --short $(HOSTILE_FLAGS)

fuzz: $(BUILT) $(BIN)/.setup-fuzz ## Fuzz the codec for FUZZ_SECONDS; inputs that reach new code join tests/fuzz/corpus
	mkdir -p build/fuzz
	$(BIN)/python -m tests.fuzz tests/fuzz/corpus/codec $(FUZZ_LIMITS) -max_total_time=$(FUZZ_SECONDS)

sanitize: sanitize-memory sanitize-threads ## Run the C++ programs under Address-, UndefinedBehavior- and ThreadSanitizer; LONG=yes for longer, with the ABI tests on sanitized host libraries

sanitize-memory: export ACLGRAD_SANITIZE := address,undefined
sanitize-threads: export ACLGRAD_SANITIZE := thread
sanitize-memory sanitize-threads: export ACLGRAD_STRESS_FACTOR := $(if $(LONG),15,1)
sanitize-memory sanitize-threads: $(BUILT)
	$(BIN)/python -m pytest $(PROGRAMS)
	$(if $(LONG),$(BIN)/python -m tests.sanitizers)

##@ Measure

# What a benchmark installs: PyTorch for the naive server, kernels and the bridge; Ray.
WHAT ?= summary
NEEDS_summary := $(BIN)/.setup-frameworks h2load
NEEDS_rates := $(BIN)/.setup-frameworks h2load
NEEDS_kernels := $(BIN)/.setup-frameworks
NEEDS_steps := $(BIN)/.setup-frameworks
NEEDS_bridge := $(BIN)/.setup-frameworks
NEEDS_ray := $(BIN)/.setup-ray h2load
bench: $(BUILT) $(NEEDS_$(WHAT)) ## Measure goals and rivals in one table; in detail WHAT=rates, kernels, calls, programs, steps, bridge or ray; BENCH_FLAGS=--quick, or --write into docs/capacity.md
	$(if $(filter kernels,$(WHAT)),$(BIN)/python -m pip install --quiet --no-deps torchvision==0.28.0)
	$(if $(filter ray,$(WHAT)),$(BIN)/python -m pip install --quiet $(LOCKED) 'ray[serve]')
	$(BIN)/python -m tools.benchmarks $(WHAT) $(BENCH_FLAGS)

load: $(BUILT) $(BIN)/.setup-bench ## Say how many calls/s may be promised, then load a server and a bare echo and judge it by objectives: LOAD_FLAGS="steady --factor 0.5"
	$(BIN)/python -m tools.lab load $(LOAD_FLAGS)

load-short: $(BUILT) $(BIN)/.setup-bench ## Part of several scenarios, in a minute, without most objectives
	$(BIN)/python -m tools.lab load short

coverage: $(BUILT) $(BIN)/.setup-frameworks ## Train forty small models for a step, and write how much of it a server computes to docs/coverage.md
	$(BIN)/python -m tools.coverage

coverage-short: $(BUILT) $(BIN)/.setup-frameworks ## The same with eight models, which may not fall behind that page
	$(BIN)/python -m tools.coverage --short

h2load:
	@$(call debian,h2load,nghttp2-client)

##@ Release

docs: $(BUILT) $(BIN)/.setup-docs $(BIN)/.setup-frameworks chromium ## Build the documentation as a site in build/site, with a page for each operator, and check its links (installs PyTorch, and Chromium for the pictures)
	$(BIN)/python -m website

# $(call demo_of,PYTHON,FOLDER,ENVIRONMENT). Runs the demo in an environment that has the wheels of the folder and no pip.
demo_of = $(1) -m venv --without-pip $(3) && $(BIN)/python -m pip --python $(3)/bin/python install --quiet \
	--only-binary :all: --find-links $(2) $(2)/*-none-any.whl && $(3)/bin/python examples/demo.py

# An environment without pip, because the bill names what a server needs, and no installer. Its direct_url.json would put
# this machine's paths into the bill.
dist: $(BIN)/.setup-dist $(BIN)/.setup-test ## Build the wheels into dist with a bill of materials, check them, and run the demo with nothing but them: PYTHONS="python3.11 python3.12" ARCHITECTURES="x86_64 aarch64"
	rm -rf dist build/dist
	mkdir dist
	$(BIN)/python -m tools.wheels dist --pythons $(PYTHONS) --architectures $(ARCHITECTURES) $(WHEELS_FLAGS)
	$(BIN)/twine check --strict dist/*
	test "$$(ls dist | cut -d- -f2 | sed 's/\.tar\.gz$$//' | sort -u | wc -l)" = 1
	$(BIN)/python -m pytest --confcutdir tests/wheels tests/wheels
	$(call demo_of,$(firstword $(PYTHONS)),dist,build/dist/venv)
	rm build/dist/venv/lib/*/site-packages/aclgrad*/direct_url.json
	$(BIN)/cyclonedx-py environment build/dist/venv/bin/python --output-reproducible --output-file dist/aclgrad.cdx.json

release: $(BIN)/.setup-dist $(GOOGLEAPIS) ## Make a release up to the upload, as docs/releasing.md says: VERSION=1.2.3 PYTHONS="python3.11 python3.12" RELEASE_FLAGS=--dry-run
	$(BIN)/python -m tools.release $(RELEASE_FLAGS) -- '$(VERSION)'

# What `make release` builds in a tree of its own, and the workflow of a tag on its machine. The site is built by the wheels
# in the environment of the demo. Without Docker the images' definitions are there all the same.
release-files: ARCHITECTURES = x86_64 aarch64
release-files: WHEELS_FLAGS = --sdists
release-files: dist chromium
	$(BIN)/python -m pip --python build/dist/venv/bin/python install --quiet --group docs --group test --group frameworks --find-links dist 'aclgrad[cli,torch]' $(LOCKED)
	build/dist/venv/bin/python -m website
	$(BIN)/python -m tools.release.changelog > dist/RELEASE_NOTES.md
	$(BIN)/python -m tools.release.images dist/images.tar.gz
	tar --create --gzip --sort=name --owner=0 --group=0 --numeric-owner --file dist/site.tar.gz --directory build/site .
	@if [ "$(IMAGES)" = yes ]; then $(MAKE) --no-print-directory image-files; else echo "=== No image: there is no Docker here, or IMAGES=no"; fi
	cd dist && sha256sum * > SHA256SUMS

image-files:
	for each in amd64 arm64; do $(MAKE) --no-print-directory image PLATFORM=linux/$$each \
		BUILD_FLAGS="--output type=docker,dest=dist/aclgrad-host-$$each.tar" || exit 1; done

# Compiled by the checkout's compiler, from its objects: what is proved is that the wheels are whole. Alone, because it writes aclgrad.v1 anew.
SMOKE := build/smoke
test-wheels: $(BUILT) ## Build the wheels of this Python and processor with the checkout's compiler, and run the demo with nothing but them
	rm -rf $(SMOKE)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(SMOKE) ./client ./server
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(SMOKE) -C build-dir=build/editable ./native
	$(call demo_of,$(BIN)/python,$(SMOKE),$(SMOKE)/venv)

test-pythons: $(BIN)/.setup-dist ## Run the tests of client and server on other Pythons, from wheels: PYTHONS="python3.12 python3.13"
	$(BIN)/python -m tools.wheels.trial $(PYTHONS)

test-versions: $(BUILT) ## Build the last release, and call it from this client, and this server from its client
	$(BIN)/python -m pytest tests/released

lock: $(BIN)/.setup-lock ## Pin what developers install in requirements.lock, and what the image installs in deploy/requirements.lock
	$(PYTHON) deploy/dependencies.py --dev | $(PIN) --output-file requirements.lock
	$(PYTHON) deploy/dependencies.py | $(PIN) --constraint requirements.lock --generate-hashes --output-file deploy/requirements.lock
	$(PYTHON) deploy/dependencies.py --build | $(PIN) --output-file tools/wheels/requirements.lock

# The tag names version and variant: VERSION-host, VERSION-ascend-ubuntu, VERSION-ascend-openeuler. aclgrad:$(IMAGE) is the latest build.
image: VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' server/pyproject.toml)
image: VARIANT = $(IMAGE)$(if $(filter ascend,$(IMAGE)),-$(if $(findstring openeuler,$(BASE)),openeuler,ubuntu))
# Where the code is from: a URL, without what a remote may have of a password.
image: SOURCE ?= $(shell git config --get remote.origin.url | sed -E 's#^[^/@]+@([^:/]+):#https://\1/#; s#//[^/@]*@#//#; s#\.git$$##')
image: ## Build the container image aclgrad:host, or aclgrad:ascend with IMAGE=ascend BASE=...; PLATFORM=linux/arm64 for another processor
	docker build --target $(IMAGE) $(if $(PLATFORM),--platform $(PLATFORM)) --tag aclgrad:$(IMAGE) --tag aclgrad:$(VERSION)-$(VARIANT) \
		$(if $(BASE),--build-arg BASE=$(BASE)) $(if $(findstring @sha256:,$(BASE)),--label org.opencontainers.image.base.digest=$(lastword $(subst @, ,$(BASE)))) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) --build-arg CREATED=$$(date -u +%FT%TZ) \
		--build-arg SOURCE=$(SOURCE) $(BUILD_FLAGS) .

test-image: image ## Build the image and start it as deploy/compose.yaml does, until it is healthy
	docker compose --file deploy/compose.yaml --profile $(IMAGE) up --wait --wait-timeout 120
	docker compose --file deploy/compose.yaml --profile $(IMAGE) down

# Prerequisites of the targets.

$(VENV):
	@echo "=== Making the environment .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	touch $@

# Without isolation, so that the build tools keep their place and a change of C++ needs only ninja.
# Verbose, because pip would otherwise show nothing of the compiler's progress.
$(SETUP): $(VENV) $(PACKAGED)
	@echo "=== Installing the client and the tools (about a minute the first time)"
	$(BIN)/python -m pip install --quiet --editable './client[cli]' --group build --group test $(LOCKED)
	@echo "=== Compiling the C++ (about ten minutes on two cores the first time)"
	$(BIN)/python -m pip install --verbose --no-build-isolation -C build-dir=build/editable --editable ./native $(LOCKED)
	@echo "=== Installing the server"
	$(BIN)/python -m pip install --quiet --editable ./server $(LOCKED)
	touch $@

# What the client and its tests need: nothing that a compiler makes.
$(BIN)/.setup-client: $(VENV) $(PACKAGED)
	$(BIN)/python -m pip install --quiet --editable './client[cli]' --group test $(LOCKED)
	touch $@

# The stamp has the time of the start, so that the next build includes edits made during this one.
$(BUILT): $(SETUP) $(NATIVE)
	@echo "=== Compiling what has changed"
	touch $@.begun
	$(BIN)/cmake --build native/build/editable
	$(BIN)/cmake --install native/build/editable --prefix "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
	mv $@.begun $@

$(BIN)/.setup-%: $(VENV) pyproject.toml requirements.lock
	$(BIN)/python -m pip install --quiet --group $* $(LOCKED)
	touch $@

# The protos of googleapis that ours and their clients need, from the googleapis-common-protos package.
$(GOOGLEAPIS): $(BIN)/.setup-client
	mkdir -p $@/google/rpc
	$(BIN)/python -c "import google.rpc, shutil; [shutil.copy(f'{folder}/{name}.proto', '$@/google/rpc') for folder in google.rpc.__path__ for name in ('status', 'error_details')]"
	touch $@
