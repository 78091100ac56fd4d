# `make` alone prints this list. Needs Go, make and Python 3; the rest is installed by
# name from the package registries into the user's cache directory (tools/deps.sh).

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GOTEST  := python3 $(CURDIR)/tools/gotest.py
TOOL    := go tool -modfile=$(CURDIR)/tools/go.mod
FUZZTIME ?= 5s
# With long counts a package has as long as a part of test-nightly.
TIMEOUT := $(if $(MILLRACE_LONG),1h,45m)

.PHONY: help build test test-ci test-nightly unit race fuzz vet prose size types lint cross python-short python-test plain-test frameworks-test ray-test newest-test conformance integration-short integration browser-test cluster-test kubernetes-test slurm-test release-test deps docs pictures demo dev dev-cluster dev-stop smoke bench figures figures-current bench-peers bench-train bench-compare experiments experiments-short sabotage mutation mutation-python histories wheel wheels release release-files vulncheck pin-images fmt clean summary

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/millrace
	go build -o bin/millrace ./cmd/millrace

# Steps that wait much run two at once; each line of a recipe prints its output when it ends.
PAIRED := -j2 $(if $(filter output-sync,$(.FEATURES)),-Oline)

test: ## what every change needs: vet, units, Python without torch, a directory and an S3 server; no root, no system packages
	@rm -f "$(CURDIR)/bin/test-summary"
	@$(MAKE) --no-print-directory vet
	@$(MAKE) --no-print-directory $(PAIRED) unit python-short integration-short
	@$(MAKE) --no-print-directory summary

# Networks of their own, and roots of Debian, are Linux's. A test that cannot run fails there, rather than be passed over.
LINUX := $(filter Linux,$(shell uname))
# They begin in this order: those that wait much first, so that what takes all cores runs beside no gateway that is judged. Those that
# judge what many gateways do run alone.
TOGETHER := integration python-test $(if $(LINUX),frameworks-test) plain-test types conformance experiments-short race fuzz cross
ALONE    := $(if $(LINUX),browser-test cluster-test slurm-test)

test-ci: ## what `make test` leaves to CI: race in all packages, fuzzing, torch, MinIO, proxies, Chromium, eight gateways; Linux, root
	@rm -f "$(CURDIR)/bin/test-summary"
	@$(MAKE) --no-print-directory --keep-going $(PAIRED) $(TOGETHER)
	@$(MAKE) --no-print-directory $(ALONE) summary

test-nightly: ## long counts, planted bugs, histories, newest torch, Kubernetes, releases, in parts of an hour: resumes; PARTS="fuzz unit" for some
	python3 tools/nightly.py $(PARTS)

unit: ## unit, property and architecture tests; packages that start goroutines under the race detector
	$(GOTEST) unit-race -race -timeout $(TIMEOUT) --concurrent
	$(GOTEST) unit -timeout $(TIMEOUT) --others
	$(GOTEST) unit-plain -timeout $(TIMEOUT) --concurrent --plain

race: ## the other packages under the race detector, and simulated clusters
	$(GOTEST) race -race -timeout $(TIMEOUT) --others
	cd integration && $(GOTEST) proof -race -timeout $(TIMEOUT) ./bench/... ./clustersim ./conformance/... ./history ./mutation ./provenance
	cd integration && $(GOTEST) proof-plain -timeout $(TIMEOUT) --plain

fuzz: ## run every fuzz target for FUZZTIME (5s), as many at once as there are cores
	FUZZTIME=$(FUZZTIME) python3 tools/fuzz.py

vet: ## go vet and staticcheck on all modules, ruff on all Python, whether the planted bugs fit, and the style of the English
	@tools/plain.sh 3 -- -m ruff check -q --no-cache .
	go vet ./...
	cd integration && go vet ./...
	$(TOOL) staticcheck ./...
	@integration/sabotage/run.sh --check
	@python3 tools/prose.py

prose: ## count the words of the documentation, the flags of serve, and breaches of the style, against their limits
	@python3 tools/prose.py

size: ## count the product's lines, functions and files, which a test bounds
	@go test -count=1 -run TestSizeOfTheProduct -v . | sed -n 's/^ *size_test.go:[0-9]*: //p'

types: deps-python ## mypy on the Python of the benchmarks
	@tools/python.sh -- -m mypy --config-file integration/bench/mypy.ini --cache-dir /dev/null --no-error-summary

lint: ## golangci-lint with the allow-list of .golangci.yml, all modules (compiles it once)
	$(TOOL) golangci-lint run ./...
	cd integration && $(TOOL) golangci-lint run ./...

cross: ## compile for Linux and macOS on amd64 and arm64
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
	  echo "cross $$target"; \
	  CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go build -trimpath -o /dev/null ./cmd/millrace; \
	  CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go build -trimpath ./...; \
	done

# Runs the Python tests with some flags, and checks the history that test_faults.py writes.
define pytest
@rm -f bin/python-history
TEST_HISTORY=$(CURDIR)/bin/python-history python3 tools/pytest.py $(1)
@cd integration && go run ./history/check <../bin/python-history
endef

python-short: build ## the Python client against real gateways under the machine's own python3, without other packages
	$(call pytest,--short)

python-test: build deps-minio deps-openssl deps-python ## the Python client against real gateways and a proxy that cuts; torch's own loaders; mypy and ruff
	$(call pytest,)

frameworks-test: build deps-openssl ## the Python client with torch 2 and current trainers in a root of Debian 13; Linux, root
	@tools/frameworks.sh >/dev/null
	python3 tools/pytest.py --frameworks

ray-test: build deps-minio ## the Python client with JAX and Ray in that root; Linux, root
	@tools/frameworks.sh >/dev/null
	python3 tools/pytest.py --ray

newest-test: build deps-minio ## both with torch's newest release and CPython 3.14 in a root of Debian testing; Linux, root
	@tools/frameworks.sh newest >/dev/null
	python3 tools/pytest.py --newest

plain-test: build ## the Python client without other packages under CPython 3.10 and 3.14; with long counts also 3.12 and 3.13
	python3 tools/pytest.py --plain

# On a directory and on versitygw, which builds in a minute.
SHORT := TestReadme.*|TestQuickstart.*|TestShows.*|TestSmokeScript|TestServersHonourConditions|TestEverySampleExactlyOnce|TestInterfacePages

integration-short: deps-versitygw ## the commands of the README and the quickstart, smoke.sh and whole epochs, on a directory and versitygw
	cd integration && $(GOTEST) integration-short -count=1 -run '^($(SHORT))$$/^(dir|versitygw|docs)$$' .

PACKAGES := . ./harness ./sharedmemory

integration: $(addprefix deps-,minio versitygw charts collector promtool proxies archivers openssl network python) ## the system through its front door: directory, MinIO, versitygw, odd requests, proxies, the commands of the README and the quickstart
	cd integration && $(GOTEST) integration -count=1 -timeout $(TIMEOUT) $(if $(ONLY),-run '^($(ONLY))$$') $(if $(SKIP),-skip '^($(SKIP))$$') $(PACKAGES)

browser-test: deps-chromium deps-python ## the page of real gateways in Chromium: every view and format, sizes, themes, hostile data; pictures in bin/screenshots; Linux
	cd integration && $(GOTEST) browser-test -count=1 -timeout $(TIMEOUT) ./browser

conformance: build deps-python ## a gateway against the vectors of conformance/, and clients in Go, Python, curl, Node, Rust and Java, where these are
	python3 tools/conformance.py

cluster-test: deps-minio deps-network ## eight gateways and MinIO on networks of their own, killed, stopped, cut off and replaced, and on narrow links; Linux, root
	cd integration && $(GOTEST) cluster-test -count=1 -p 1 -v -timeout $(TIMEOUT) ./fleet ./limited

kubernetes-test: deps-minio deps-charts deps-network deps-python ## the Helm chart on a real control plane, its gateways scaled, rolled and killed under load; Linux, root
	@tools/kubernetes.sh
	cd integration && $(GOTEST) kubernetes-test -count=1 -v -timeout $(TIMEOUT) ./kubernetes

slurm-test: deps-minio deps-network deps-python ## the scripts of deploy/slurm under Slurm itself, its machines in networks of their own; Linux, root
	@tools/slurm.sh
	cd integration && $(GOTEST) slurm-test -count=1 -v -timeout $(TIMEOUT) ./slurm

release-test: deps-charts deps-python ## a release made twice, byte for byte; its image and packages used in roots of their own; Linux, root
	@tools/packages.sh
	cd tools/release && go vet ./... && $(GOTEST) release-tools -count=1 ./...
	cd integration && $(GOTEST) release-test -count=1 -v -timeout $(TIMEOUT) ./release

deps: ## install all that tests run beside the gateway, where it is missing; each step installs its own
	@tools/deps.sh

deps-%:
	@tools/deps.sh $*

summary:
	@$(GOTEST) --summary

demo: ## pack Go's own source tree, serve it, print curl lines: no server, no account
	go run ./cmd/millrace demo "$$(go env GOROOT)/src"

dev: build ## MinIO, sample data and a gateway as local processes; the compose stack without Docker
	deploy/dev.sh start

dev-cluster: build ## MinIO, sample data and three gateways that are one cache, as local processes
	deploy/dev.sh cluster

dev-stop: ## stop what `make dev` or `make dev-cluster` started
	deploy/dev.sh stop

smoke: ## curl and tar against a gateway: make smoke URL=http://localhost:8080
	integration/smoke.sh $(or $(URL),http://localhost:8080)

bench: build ## measure all goals, or GOALS="1,2", and store their rows in integration/bench/figures
	tools/bench.sh $(if $(GOALS),-goals $(GOALS))

figures: ## make docs/benchmarks.md, docs/dev/experiments.md and their charts from the stored figures
	cd integration && go run ./bench -page ../docs/benchmarks.md && go run ./experiments -page ../docs/dev/experiments.md

figures-current: ## fail if a page shows figures that are older than their sources
	cd integration && go run ./bench -check && go run ./experiments -check

bench-peers: ## measure against the libraries that people use now, and store their sections of docs/benchmarks.md; SETS="images texts-zstd" for some sets
	tools/bench-peers.sh $(if $(SETS),--sets $(SETS))

bench-train: ## measure a training step with decoding against the same libraries, and store its section of docs/benchmarks.md: eight minutes
	tools/bench-peers.sh train

bench-compare: ## compare the micro-benchmarks with another commit: make bench-compare REF=main
	tools/bench-compare.sh "$(REF)"

experiments: ## put published ideas to the test, or some with ONLY="brand,shade", and store what they find (40 minutes; Linux, root)
	cd integration && go run ./experiments -fetch && go run ./experiments $(if $(ONLY),-only $(ONLY)) -out integration/experiments/figures
	cd integration && go run ./experiments -page ../docs/dev/experiments.md

experiments-short: ## the same in small: the counts hold, nothing is timed
	cd integration && $(GOTEST) experiments -count=1 -timeout $(TIMEOUT) ./experiments/...

histories: ## simulated histories of clusters: SEEDS=0:5000
	cd integration && MILLRACE_SEEDS=$(or $(SEEDS),0:5000) $(GOTEST) histories -count=1 -run '^TestHistories$$' -timeout $(TIMEOUT) ./clustersim

sabotage: ## plant the bugs of docs/dev/planted-bugs.md one at a time in copies of the tree: the tests must notice each
	integration/sabotage/run.sh

mutation: ## small changes of the code that unit tests must notice: PACKAGES="shuffle gateway/auth" DIFF=main; FLAGS=-help
	@cd integration/mutation && go run . $(if $(DIFF),-diff $(DIFF)) $(FLAGS) $(if $(filter command,$(firstword $(origin PACKAGES))),$(PACKAGES))

mutation-python: deps-python ## the same of the Python client: PYTHON_PARTS="order decode"; FLAGS=--write
	@tools/python.sh -- integration/mutation/python.py $(FLAGS) $(PYTHON_PARTS)
	@$(if $(filter --write,$(FLAGS)),cd integration/mutation && go run . -page)

wheel: ## build the Python package's wheel for this machine into dist, with the program inside; needs Go and Python 3
	@rm -rf dist
	@python3 tools/wheel.py

wheels: ## build the Python package into dist: wheels for Linux and macOS with the program inside, one without it, an sdist
	@rm -rf dist
	@tools/python.sh -- tools/wheels.py

release: figures-current release-files ## check that all figures are current, and write a release into dist

release-files: ## write all that a release consists of into dist, from a checkout without changes: archives, packages, image, chart, wheels, notes, sums
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) tools/python.sh -- tools/wheels.py
	@cd tools/release && go run . "$(CURDIR)"

vulncheck: ## look for known vulnerabilities that the code calls, all modules (asks vuln.go.dev)
	$(TOOL) govulncheck ./...
	cd integration && $(TOOL) govulncheck ./...
	cd tools/release && $(TOOL) govulncheck ./...

pin-images: ## write the digests of base images into the Dockerfiles, as their registries have them now
	cd tools/release && go run . pin "$(CURDIR)/deploy/Dockerfile" "$(CURDIR)/deploy/minio.Dockerfile"

docs: ## build the documentation as pages into site, with the Python API from its docstrings; strict: a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 tools/python.sh -- -m mkdocs build --strict

pictures: deps-chromium deps-python ## draw the pictures of docs anew from the page, in Chromium: docs/pictures; two minutes; Linux
	cd integration && go test -count=1 -run '^TestPictures$$' ./browser -update

fmt: ## format every Go file
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built here; MinIO, versitygw and the demo's data, in the user's cache directory, stay
	rm -rf bin dist site
