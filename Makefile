# gander is built and tested by plain go commands; this file only remembers them.
# `make` prints the targets. Everything a target needs it installs itself, on a
# Debian machine with Go, Node and root.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

GO      ?= go
NPM     ?= npm
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# How much of the long proofs runs: `make check` and `make soak` differ here, and in GANDER_EVERYWHERE.
FUZZTIME      ?= 15
FUZZTIME_REST ?= 6
CANCEL_RUNS   ?= 30
CRASH_RUNS    ?= 8
CRASH_LOSSES  ?= 3
MODEL_DOWN    ?= 1
E2E_TIMEOUT   ?= 60m
SHELL_CANCELS ?= 100
SHELL_CALLS   ?= 5000
RACE_ROUNDS   ?= 500
SANDBOX_KILLS ?= 25
STORE_KILLS   ?= 50
POWER_LOSSES  ?= 10
LOOP_EVENTS   ?= 200000
LIVE_SECONDS  ?= 10
PROOF_TIMEOUT ?= 25m

# Pictures of the page, as tests have seen it, are kept here.
PICTURES := $(CURDIR)/.cache/pictures
KEEP     := -artifacts -outputdir '$(PICTURES)'

# A clone that belongs to somebody else makes git refuse to talk to the go
# command; the version is passed by hand instead.
export GOFLAGS := -trimpath -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION)

# The tools, pinned. They are run, not added to go.mod: their dependencies are not ours.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0
ERRCHECK    := github.com/kisielk/errcheck@v1.30.0

# What gander's configuration entries for other programs are read with in tests.
READERS := emacs-nox lua5.4 python3-json5 python3-yaml

# gcc and musl are for tree-sitter, libc6 is for the race detector, the certificates are for goose, python3 connects from inside
# sandboxes in tests, chromium shows the dashboard, xvfb and xterm are a screen with a window on it, wine runs the Windows build with a library made by mingw.
DEBIAN := bubblewrap ca-certificates chromium curl e2fsprogs gcc gcc-mingw-w64-x86-64 git iproute2 libc6-dev musl-tools python3 python3-pip wine wine64 xterm xvfb $(READERS)

AGENTS   := sandbox/node_modules/.installed
CLIENTS  := conformance/node_modules/.installed
GOOSE    := $(CURDIR)/sandbox/node_modules/@aaif/goose-binary-linux-x64/bin/goose
OPENCODE := $(CURDIR)/sandbox/node_modules/opencode-linux-x64/bin/opencode

# When a part of check begins: on a slow machine they take an hour and more.
CLOCK = @date -u '+%T UTC: $@'

##@ Targets

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# tree-sitter, with which analyze reads source code, is C: it is linked statically,
# so that the binary runs in every image, and with musl where that is: a program with glibc
# asks the processor for its caches when it starts, a millisecond of each command's shepherd
# in a virtual machine. musl gives threads the stack that the program asks for. Where there
# is no C compiler the binary lacks tree-sitter, and says so; CGO_ENABLED=0 go build
# ./cmd/gander makes the same.
STATIC := -tags netgo,osusergo,embedded -ldflags '$(LDFLAGS) -linkmode external -extldflags "-static -Wl,-z,stack-size=0x800000"'

# What a build with the tag embedded carries.
SUPERVISOR := sandbox/drivers/local/program

.PHONY: supervisor
supervisor:
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o $(SUPERVISOR) ./cmd/supervisor

.PHONY: build
build: supervisor ## bin/gander, one static binary
	@if [ "$$($(GO) env GOOS)" = linux ] && command -v gcc >/dev/null; then \
	  set -x; CC="$$(command -v musl-gcc || command -v gcc)" CGO_ENABLED=1 $(GO) build $(STATIC) -o bin/gander ./cmd/gander; \
	else \
	  echo 'no C compiler for a static binary: analyze will know only Go; apt-get install gcc musl-tools' >&2; \
	  set -x; CGO_ENABLED=0 $(GO) build -tags embedded -ldflags '$(LDFLAGS)' -o bin/gander ./cmd/gander; \
	fi

.PHONY: demo
demo: build debian $(AGENTS) ## real agents in sandboxes answer a prompt, edit a file and are cancelled
	GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' bin/gander demo

.PHONY: pictures
pictures: build debian $(AGENTS) $(CLIENTS) ## the pictures of the README: acpx on a terminal, and the page
	GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' $(GO) run ./conformance/pictures

.PHONY: check
check: deps lint unit proofs e2e fuzz ## every test, the long ones in a part of the places that soak has; nothing skips

.PHONY: lint
lint: vet ## formatting, vet on three systems, staticcheck, deadcode, errcheck, tidiness
	$(CLOCK)
	@echo gofumpt; found="$$($(GO) run $(GOFUMPT) -l .)"; test -z "$$found" || { echo "$$found" >&2; exit 1; }
	$(GO) mod tidy -diff
	$(GO) fix -diff ./...
	$(GO) run $(STATICCHECK) ./...
	@echo deadcode; found="$$($(GO) run $(DEADCODE) -test ./...)"; test -z "$$found" || { echo "$$found" >&2; exit 1; }
	@echo errcheck; $(GO) run $(ERRCHECK) -ignoretests errors # without findings: the tool is there
	@found="$$($(GO) run $(ERRCHECK) -ignoretests -exclude .ci/errcheck-exclude ./... \
	  | sed '/\tdefer /d' || true)"; test -z "$$found" || { echo "$$found" >&2; exit 1; } # a deferred clean-up may fail in peace

.PHONY: fuzz
fuzz: ## every fuzz target, those of streams, tools' texts and rules for FUZZTIME (15s), the others for FUZZTIME_REST (6s); as many at once as there are processors
	$(CLOCK)
	@grep -rHo --exclude-dir=node_modules --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort \
	  | sed -E 's|^(.*)/[^/]*:func (.*)|\1 \2|' \
	  | xargs -P "$$(nproc)" -n 2 bash -c 't=$(FUZZTIME_REST); case "$$0 $$1" in *" FuzzStream"|*" FuzzDispatch"|./developer/editor*|./developer/shell*|./sandbox/rules/ignore*) t=$(FUZZTIME) ;; esac; GO="$(GO)" exec .ci/fuzz "$$0" "$$1" "$$t"'

.PHONY: soak
soak: export GANDER_EVERYWHERE := 1
soak: ## the long proofs: thousands of cancels, calls and races, every agent in every sandbox, ten minutes of each fuzz target
	$(MAKE) deps
	$(MAKE) plain-images
	$(MAKE) races
	$(MAKE) proofs SHELL_CANCELS=10000 SHELL_CALLS=1000000 RACE_ROUNDS=10000 SANDBOX_KILLS=10000 STORE_KILLS=1900 POWER_LOSSES=200 LOOP_EVENTS=1000000 LIVE_SECONDS=60 PROOF_TIMEOUT=6h
	$(MAKE) e2e CANCEL_RUNS=2000 CRASH_RUNS=100 CRASH_LOSSES=40 MODEL_DOWN=180 E2E_TIMEOUT=3h
	$(MAKE) acp
	$(MAKE) podman
	$(MAKE) fuzz FUZZTIME=600 FUZZTIME_REST=600

.PHONY: bench
bench: images ## medians of side-by-side runs: start, memory, latency, throughput, cancel
	@GANDER_BENCH=1 GANDER_CHECK=1 GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' \
	  $(GO) test -tags embedded -count=1 -v -timeout 1h -run '^TestBench$$' ./conformance/bench

.PHONY: images
images: build docker $(AGENTS) ## the agents' container images, goku-sandbox-goose and goku-sandbox-opencode
	bin/gander sandbox build --context sandbox

.PHONY: docker
docker: ## a Docker daemon that answers, with the base image; installed and started where there is none
	.ci/docker

.PHONY: dist
dist: ## the release in dist/: archives of six platforms, sums, lists of parts, registry entries
	$(GO) run ./cmd/dist -version '$(VERSION)'

##@ Parts of check

.PHONY: unit
unit: supervisor ## unit tests, wire goldens and scripts, with the race detector where the concurrency is gander's own
	$(CLOCK)
	@mkdir -p '$(PICTURES)'
	@# Programs with the detector sleep when they end, a second unless told otherwise; many tests start themselves.
	$(UNIT) CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(GO) test -race -vet=off $(KEEP) -timeout 25m -skip '$(ELSEWHERE)' \
	  $$($(GO) list ./... | grep -v $(PLAIN:%=-e /%$$) -e /conformance/e2e -e /conformance/bench)
	$(UNIT) $(GO) test -vet=off -tags embedded -timeout 25m -run '^TestScripts$$' ./cmd/gander
	$(UNIT) $(GO) test -vet=off -tags embedded -timeout 25m -skip '$(PROOFS)' $(PLAIN:%=./%)

# What proofs, races or the lines below have of the packages that unit runs with the detector:
# ordinary work and great amounts as released.
ELSEWHERE := ^(TestScripts|TestEnforcesOrdinaryUser|TestUses|TestNoGrowth|TestLargeDatabase)$$
UNIT   := GANDER_CHECK=1 GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)'
PROOFS := ^(TestProbe|TestLimits|TestFilesInMemory|TestKills)$$
# Packages whose tests start programs, each slow to start with the detector: they have it in races.
# Two run at once, in this order, so that the longest do not come last.
PLAIN  := sandbox/drivers/local sandbox/drivers/docker conformance/mcp conformance/acp cmd/dist

.PHONY: races
races: # with the race detector what unit has not, or without it: twenty minutes and more
	$(UNIT) CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(GO) test -race -timeout 1h -skip '$(PROOFS)' ./sandbox/drivers/local ./sandbox/drivers/docker
	$(UNIT) CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(GO) test -race -timeout 1h -run '^(TestScripts|TestUses)$$' ./cmd/gander ./sandbox/inside/enforce

.PHONY: proofs
proofs: supervisor # as released: repetitions that the race detector would make slow, and the catalogue of escapes
	$(CLOCK)
	@# One after the other what uses up the processes of a user, and only then the rest.
	GANDER_CHECK=1 $(GO) test -tags embedded -count=1 -p 1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestLimits|TestFilesInMemory|TestEmbedded|TestAsOrdinaryUser)$$' ./sandbox/drivers/local ./sandbox/drivers/docker
	GANDER_CHECK=1 GANDER_RACE_ROUNDS='$(RACE_ROUNDS)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestProbe|TestAsOrdinaryUser)$$' ./sandbox/drivers/local ./sandbox/drivers/docker
	GANDER_CHECK=1 GANDER_SHELL_CANCELS='$(SHELL_CANCELS)' GANDER_SHELL_CALLS='$(SHELL_CALLS)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestCancel|TestNoGrowth)$$' ./developer/shell
	GANDER_CHECK=1 GANDER_SANDBOX_KILLS='$(SANDBOX_KILLS)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestKills|TestAsOrdinaryUser)$$' ./sandbox/drivers/local ./sandbox/drivers/docker
	GANDER_CHECK=1 GANDER_RACE_ROUNDS='$(RACE_ROUNDS)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestUses|TestHostReplaces|TestEnforcesOrdinaryUser)$$' ./sandbox/inside/enforce
	GANDER_CHECK=1 GANDER_STORE_KILLS='$(STORE_KILLS)' GANDER_POWER_LOSSES='$(POWER_LOSSES)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestKilledAnywhere|TestPowerLoss|TestListOfTenThousand|TestHundredThousandEntries|TestSharedFlushes)$$' ./sessions
	GANDER_CHECK=1 GANDER_LOOP_EVENTS='$(LOOP_EVENTS)' GANDER_LIVE_SECONDS='$(LIVE_SECONDS)' \
	  $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^(TestLargeDatabase|TestManyLiveClients)$$' ./sandbox/unattended/controlplane
	GANDER_CHECK=1 $(GO) test -tags embedded -count=1 -timeout '$(PROOF_TIMEOUT)' -run '^TestTenThousandTokens$$' ./cmd/gander

.PHONY: podman
podman: build docker $(AGENTS) # the docker sandbox with Podman in Docker's place, and an image that is built twice
	GANDER_CHECK=1 .ci/podman $(GO) test -count=1 -timeout '$(E2E_TIMEOUT)' -skip '^(TestProbe|TestKills)$$' ./sandbox/drivers/docker
	.ci/podman bash -c 'id() { docker image inspect -f "{{.Id}}" goku-sandbox-goose; }; \
	  bin/gander sandbox build --context sandbox goose; first="$$(id)"; bin/gander sandbox build --context sandbox --no-cache goose; test "$$first" = "$$(id)"'

.PHONY: e2e
e2e: images $(CLIENTS) ## bin/gander between real clients and real agents, in every sandbox; and the bench, briefly
	$(CLOCK)
	@mkdir -p '$(PICTURES)'
	GANDER_CHECK=1 GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' GANDER_CANCEL_RUNS='$(CANCEL_RUNS)' GANDER_CRASH_RUNS='$(CRASH_RUNS)' GANDER_CRASH_LOSSES='$(CRASH_LOSSES)' GANDER_MODEL_DOWN_SECONDS='$(MODEL_DOWN)' \
	  $(GO) test -tags embedded -count=1 -p 1 $(KEEP) -timeout '$(E2E_TIMEOUT)' ./conformance/e2e ./conformance/bench

.PHONY: acp
acp: images # every check of ACP for gander with each agent in each sandbox: ten minutes with opencode
	for agent in goose opencode; do for sandbox in local docker; do \
	  GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' \
	    bin/gander conformance acp -- "$$PWD/bin/gander" acp --agent "$$agent" --sandbox "$$sandbox"; \
	done; done

.PHONY: vet
vet: ## go vet for linux, darwin and windows
	$(GO) vet ./...
	$(GO) vet -tags manual ./cmd/gander
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...
	CGO_ENABLED=0 GOOS=windows $(GO) vet ./...

.PHONY: plain-images
plain-images: images # the same images without gander's help, as a person may build them
	for agent in goose opencode; do \
	  docker build -q -t "goku-sandbox-$$agent:latest" -f "sandbox/$$agent/Dockerfile" sandbox/; \
	done

.PHONY: deps
deps: debian docker $(AGENTS) $(CLIENTS) ## install what check needs

.PHONY: agents
agents: $(AGENTS) ## the pinned agents, in sandbox/node_modules

.PHONY: debian
debian: # the Debian packages that are missing
	@command -v $(GO) >/dev/null || { echo 'Go is missing: install it from go.dev/dl' >&2; exit 1; }
	@command -v $(NPM) >/dev/null || { echo 'Node is missing: install Node 20 or newer, with npm' >&2; exit 1; }
	@command -v dpkg-query >/dev/null || { echo 'not a Debian machine: make sure it has $(DEBIAN)' >&2; exit 0; }; \
	missing=$$(for p in $(DEBIAN); do \
	  dpkg-query -W -f '$${db:Status-Abbrev}' $$p 2>/dev/null | grep -q '^ii' || printf '%s ' $$p; done); \
	[ -n "$$missing" ] || exit 0; \
	[ "$$(id -u)" = 0 ] || { echo "packages are missing; as root: apt-get install $$missing" >&2; exit 1; }; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get install -y --no-install-recommends $$missing || \
	{ apt-get update && apt-get install -y --no-install-recommends $$missing; }

# npm checks every package against the hash in the lock file.
%/node_modules/.installed: %/package-lock.json %/package.json %/.npmrc
	cd $* && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: clean
clean: ## remove what was built and installed here
	rm -rf bin dist man sandbox/node_modules conformance/node_modules
