# The commands of this project. `make help` lists them.
SHELL := /bin/bash
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT_TIME = $(shell git log -1 --format=%ct)
MODEL_FILE := models/SmolLM2-135M-Instruct.Q4_1.gguf
NODE_MODULES := internal/e2e/browser/node_modules internal/e2e/clients/node_modules

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build bin/whorl
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/whorl ./cmd/whorl

.PHONY: release
release: ## binaries, archives, lists of modules and checksums for all systems, in dist/ (TARGETS=linux/amd64)
	$(GO) run ./internal/release -version "$(VERSION)" -time "$(COMMIT_TIME)" -out dist $(if $(TARGETS),-targets "$(TARGETS)")

.PHONY: release-check
release-check: ## make a release twice, in two folders and with two caches, and compare (TARGETS=linux/amd64)
	scripts/release-check.sh $(TARGETS)

.PHONY: module
module: ## the Go module under a path of yours, as files for any web server, in dist/module (MODULE=example.org/whorl VERSION=v1.2.3; docs/library.md)
	@test -n "$(MODULE)" || { echo "give MODULE=HOST/PATH, such as example.org/whorl"; exit 2; }
	$(GO) run ./internal/release -module "$(MODULE)" -version "$(VERSION)" -time "$(COMMIT_TIME)" -out dist/module

.PHONY: module-check
module-check: ## publish the module under another path and let another module fetch it and run the example of package node (minutes)
	nice scripts/module-check.sh

.PHONY: image
image: TARGETS := linux/$(shell $(GO) env GOARCH)
image: release ## a container image from that binary
	docker build --build-arg TARGETARCH=$(shell $(GO) env GOARCH) --tag whorl .

.PHONY: model
model: ## fetch the small real model into models/
	scripts/get-model.sh

.PHONY: run
run: build ## a whole swarm here: three servers, gateway, dashboard, an answer (MODEL=path SPANS="0:4 4:8")
	scripts/run.sh

.PHONY: deps
deps: ## install what the tests need: the model, Postgres, Chromium, docker-compose, packages of npm and pip
	scripts/test-deps.sh

.PHONY: test
test: deps ## every test that fits CI
	scripts/test.sh

.PHONY: unit
unit: ## the Go tests alone, with what is installed
	$(GO) test ./...

.PHONY: e2e
e2e: build ## the built binary as users meet it: processes, HTTP, signals, a browser
	WHORL_BIN=$(CURDIR)/bin/whorl $(GO) test -tags e2e -count=1 -timeout 20m ./internal/e2e ./internal/natlab

.PHONY: chaos
chaos: build ## 100 seeded runs of processes under readers: killed, frozen, cut off, slow, with full disks and wrong clocks (CHAOS_RUNS=n for another number)
	WHORL_BIN=$(CURDIR)/bin/whorl WHORL_CHAOS_RUNS=$${CHAOS_RUNS:-100} $(GO) test -tags e2e -count=1 -timeout 6h -run 'TestChaos' -v ./internal/e2e

.PHONY: soak
soak: build ## an hour of such churn under eight readers (SOAK_MINUTES=n for another time)
	WHORL_BIN=$(CURDIR)/bin/whorl WHORL_SOAK_MINUTES=$${SOAK_MINUTES:-60} $(GO) test -tags e2e -count=1 -timeout 6h -run 'TestSoak' -v ./internal/e2e

.PHONY: sim
sim: build ## play a scenario of a swarm in virtual time (SCENARIO=steady POLICY=ours SEED=1)
	bin/whorl sim $${SCENARIO:-steady} --policy $${POLICY:-ours} --seed $${SEED:-1} --json

.PHONY: sim-report
sim-report: build ## play all scenarios by all policies and write docs/sim.md and its pictures again (minutes)
	bin/whorl sim --report docs

.PHONY: generate
generate: ## make generated files again
	$(GO) generate ./...
	gofmt -l . | { ! grep .; }

.PHONY: check
check: ## generated files, format, vet, lint, races
	scripts/check.sh

.PHONY: conformance
conformance: ## the suites that every device, store, family and tokenizer must pass; prints the table of models
	CONFORMANCE_TABLE=$(CURDIR)/artifacts/conformance.txt $(GO) test -count=1 ./tensor/... ./model/... ./store
	@cat artifacts/conformance.txt

.PHONY: bench
bench: build ## a first look at speed against this machine's ceilings, then Go benchmarks
	bin/whorl bench kernels --quick
	bin/whorl bench model --shape 135m --quick
	$(GO) test -run '^$$' -bench . -benchmem ./tensor/... ./server/... ./client/... ./swarm/...

.PHONY: bench-serving
bench-serving: build ## answers side by side through one server, and one user alone (MODEL=path)
	bin/whorl bench serving "$${MODEL:-$(MODEL_FILE)}" --local --json

.PHONY: liars
liars: ## liars of every kind against audits, verified answers and accusations: 100 seeds in virtual time, 10 with real processes
	WHORL_LIAR_RUNS=100 $(GO) test -count=1 -v -timeout 60m ./internal/swarmtest -run 'TestAuditsFindLiars|TestAuditsAndColluders|TestVerifiedAnswers|TestLiarsAreKnownToAll|TestFalseAccusations'
	WHORL_LIAR_RUNS=10 $(GO) test -count=1 -v -timeout 20m -tags e2e ./internal/e2e -run TestLyingProcesses

.PHONY: schemas
schemas: build model ## all schemas of the public suite with the small real model, SUITE_SEEDS answers each (minutes)
	WHORL_BIN=$(CURDIR)/bin/whorl WHORL_SUITE_SEEDS=$${SUITE_SEEDS:-3} $(GO) test -tags e2e -count=1 -v -timeout 60m -run 'TestToolsOfSmallModel/schemas' ./internal/e2e

.PHONY: hostile
hostile: ## attacks by strangers on real nodes, with 1,000 identities
	WHORL_IDENTITIES=1000 $(GO) test -count=1 -v -timeout 10m ./internal/hostile

.PHONY: natlab
natlab: build ## NATs, relays, moving addresses and delays, in namespaces (root): all pairs, tables in artifacts/
	mkdir -p artifacts
	WHORL_BIN=$(CURDIR)/bin/whorl NATLAB=all $(GO) test -count=1 -v -timeout 30m -tags e2e ./internal/natlab

.PHONY: fuzz
fuzz: ## every fuzz target for 10 s each
	scripts/fuzz.sh 10s

.PHONY: fixtures
fixtures: ## make test data again with Python (installs torch: 6 GB)
	scripts/fixtures.sh

.PHONY: clean
clean: ## remove what was built and fetched
	rm -rf bin dist artifacts models $(NODE_MODULES)
