# gander is built and tested by plain go commands; this file only remembers them.
# `make` prints the targets. Everything a target needs it installs itself, on a
# Debian machine with Go, Node and root.
#
# Tests come in three tiers. quick is for the desk. check is what every change passes:
# each promise once, and nothing skips. soak has every promise in every place, and long
# repetitions; GANDER_EVERYWHERE=1 is how tests know it.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

GO      ?= go
NPM     ?= npm
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# A clone that belongs to somebody else makes git refuse to talk to the go
# command; the version is passed by hand instead.
export GOFLAGS := -trimpath -buildvcs=false
LDFLAGS := -s -w -X main.version=$(VERSION)

# Everything is built one way, so that check compiles it once: with these tags, and what
# needs C, which is tree-sitter, with musl where that is.
#
# tree-sitter, with which analyze reads source code, is linked statically, so that the
# binary runs in every image: a program with glibc asks the processor for its caches when
# it starts, a millisecond of each command's shepherd in a virtual machine. musl gives
# threads the stack that the program asks for. Where there is no C compiler the binary
# lacks tree-sitter, and says so; CGO_ENABLED=0 go build ./cmd/gander makes the same.
TAGS   := netgo,osusergo,embedded
C       = CGO_ENABLED=1 CC=$$(command -v musl-gcc || command -v gcc)
STATIC := -linkmode external -extldflags "-static -Wl,-z,stack-size=0x800000"

# The tools, pinned. They are run, not added to go.mod: their dependencies are not ours.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := golang.org/x/tools/cmd/deadcode@v0.52.0
ERRCHECK    := github.com/kisielk/errcheck@v1.30.0

# What check needs: gcc and musl are for tree-sitter, libc6 is for the race detector, the certificates are for
# goose, python3 connects from inside sandboxes, e2fsprogs makes disks that lose their power, chromium shows
# the dashboard, and lua and python3 read gander's configuration entries for other programs.
DEBIAN := bubblewrap ca-certificates chromium curl e2fsprogs gcc git iproute2 libc6-dev lua5.4 musl-tools python3 python3-json5 python3-pip python3-yaml tmux
# What soak needs besides: another reader, compilers, a screen with a window on it, the Windows build with a library made by
# mingw, and servers and clients that programs in sandboxes reach by plain TCP.
DEBIAN_SOAK := emacs-nox cargo rustc xterm xvfb gcc-mingw-w64-x86-64 wine wine64 default-jdk-headless ant ant-optional junit4 openssh-server postgresql redis-server

AGENTS   := sandbox/node_modules/.installed
CLIENTS  := conformance/node_modules/.installed
GOOSE    := $(CURDIR)/sandbox/node_modules/@aaif/goose-binary-linux-x64/bin/goose
OPENCODE := $(CURDIR)/sandbox/node_modules/opencode-linux-x64/bin/opencode

# A test run in which nothing skips. cmd/gotest is go test that keeps how long tests took, for
# the table of .ci/parts. Pictures of the page, as tests have seen it, are kept.
NEEDS := GANDER_CHECK=1 GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)'
TEST  := $(NEEDS) $(GO) run ./cmd/gotest .cache/times -vet=off -tags $(TAGS)
KEEP := -artifacts -outputdir '$(CURDIR)/.cache/pictures'

##@ Targets

.PHONY: help
help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What a build with the tag embedded carries.
SUPERVISOR := sandbox/drivers/local/program

.PHONY: supervisor
supervisor:
	@CGO_ENABLED=0 GOOS=linux $(GO) build -ldflags '-s -w' -o $(SUPERVISOR) ./cmd/supervisor

.PHONY: build
build: supervisor ## bin/gander, one static binary
	@test -x bin/gander || echo 'compiling gander: two to five minutes the first time'
	@if [ "$$($(GO) env GOOS)" = linux ] && command -v gcc >/dev/null; then \
	  set -x; $(C) $(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS) $(STATIC)' -o bin/gander ./cmd/gander; \
	else \
	  echo 'no C compiler for a static binary: analyze will know only Go; apt-get install gcc musl-tools' >&2; \
	  set -x; CGO_ENABLED=0 $(GO) build -tags embedded -ldflags '$(LDFLAGS)' -o bin/gander ./cmd/gander; \
	fi

PREFIX ?= /usr/local

.PHONY: install
install: ## bin/gander, which make build makes, to PREFIX/bin (/usr/local)
	@test -x bin/gander || { echo 'there is no bin/gander yet: make build' >&2; exit 1; }
	install -D -m 755 bin/gander '$(DESTDIR)$(PREFIX)/bin/gander'

.PHONY: demo
demo: build debian ## real agents in sandboxes answer a prompt, edit a file and are cancelled
	@for agent in goose opencode; do bin/gander agent install "$$agent"; done # where setup and doctor find them
	bin/gander demo

.PHONY: pictures
pictures: DEBIAN += xterm xvfb
pictures: build debian $(AGENTS) $(CLIENTS) ## the pictures of the README: acpx on a terminal, and the page
	GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' $(GO) run ./conformance/pictures

.PHONY: quick
quick: changed supervisor ## for the desk: lint of what changed, unit tests without the race detector, scripts without agents
	@CGO_ENABLED=0 $(GO) test -tags $(TAGS) -vet=off -short $(PURE) $(RACED)
	@CGO_ENABLED=0 $(GO) test -tags $(TAGS) -vet=off -short -run '^Test(Scripts|Messages|EveryCommand)' ./cmd/gander

.PHONY: check
check: ## every promise, once: what each change has to pass
	@.ci/parts '25 minutes with a warm build cache, 35 with a cold one' deps unit shells limits 'live&' lint analyze race

.PHONY: soak
soak: export GANDER_EVERYWHERE := 1
soak: ## every promise in every place, with long repetitions, fuzzing and measurements: a day
	@.ci/parts 'to end' deps plain-images lint unit analyze races proofs acp podman bench fuzz

.PHONY: dist
dist: ## the release in dist/: archives of six platforms, sums, lists of parts, registry entries
	$(GO) run ./cmd/dist -version '$(VERSION)'

##@ Parts of check and soak

.PHONY: lint
lint: supervisor ## formatting, comments, vet on three systems, staticcheck, deadcode, errcheck, tidiness
	@echo gofumpt; found="$$($(GO) run $(GOFUMPT) -l .)"; test -z "$$found" || { echo "$$found" >&2; exit 1; }
	$(GO) test -run '^TestComments$$' ./conformance
	$(GO) mod tidy -diff
	$(C) $(GO) vet -tags $(TAGS) ./...
	CGO_ENABLED=0 GOOS=darwin $(GO) vet ./...
	CGO_ENABLED=0 GOOS=windows $(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet -tags manual ./cmd/gander
	$(C) $(GO) fix -tags $(TAGS) -diff ./...
	$(GO) run -exec "env $(C)" $(STATICCHECK) -tags $(TAGS) ./...
	@echo deadcode; found="$$($(GO) run -exec "env $(C)" $(DEADCODE) -tags $(TAGS) -test ./...)"; test -z "$$found" || { echo "$$found" >&2; exit 1; }
	@echo errcheck; $(GO) run $(ERRCHECK) -ignoretests errors # without findings: the tool is there
	@found="$$($(GO) run -exec "env $(C)" $(ERRCHECK) -tags $(TAGS) -ignoretests -exclude .ci/errcheck-exclude ./... \
	  | sed '/\tdefer /d' || true)"; test -z "$$found" || { echo "$$found" >&2; exit 1; } # a deferred clean-up may fail in peace

# Packages with goroutines and locks of our own have the race detector in check.
RACED := ./acp ./mcp ./sandbox/router ./sandbox/agents/acpagent ./sandbox/outbound/gateway ./sandbox/telemetry ./sandbox/unattended/controlplane \
  ./sandbox/unattended/keeper ./sandbox/rules/ignore ./sessions
# These tests of RACED are long and have no concurrency of ours: files, numbers, other processes. unit runs them.
UNRACED := ^(TestKilledAnywhere|TestPowerLoss|TestCutAnywhere|TestListOfTenThousand|TestHundredThousandEntries|TestAgainstGit|TestWorkIsBounded|TestWorkIsTheSameAlways|TestExpressionsAreBounded|TestLargeDatabase|TestLargeAnswersToABatch|TestExportOfALongThread|TestWrittenTextsAreBounded|TestWholeTextsAreBounded|TestLargeTextsForTheEditor|TestAnswersThatDoNotFit)$$
# These have it too, and they start sandboxes, shells and other programs: the go command may not take an earlier result for today's.
RACED_LIVE := ./sandbox/inside/supervise ./developer/shell ./sandbox/outbound/egress ./sandbox/unattended/loop
# So do these, without the race detector. Two run at once, in this order, so that the longest do not come last. Most of it
# is waiting, so that check makes other parts beside it.
LIVE := ./conformance/e2e ./sandbox/drivers/local ./cmd/gander ./sandbox/drivers/docker ./sandbox/inside/enforce ./sandbox/unattended/controlplane/dashboard \
  ./cmd/dist ./sandbox/agents/custom ./sandbox/opencode ./sandbox/router/changes ./sandbox/drivers/registry ./sandbox/trials/probe
# These start hundreds of broken agents and servers, which quick does without.
TWINS := ./conformance/acp ./conformance/mcp
# The tests of these need the C code in them.
WITH_C := ./developer ./developer/analyze
# All the others test what is in them and no more.
PURE = $$($(GO) list ./... | grep -vxF $(patsubst ./%,-e gander.dev/gander/%,$(RACED) $(RACED_LIVE) $(LIVE) $(TWINS) $(WITH_C) ./conformance/bench))

# Programs with the detector sleep when they end, a second unless told otherwise; many tests start themselves.
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(TEST) -race

# How long the tests of a package may take.
TIMEOUT ?= 60m

.PHONY: unit
unit: supervisor ## tests of single packages that start nothing, the fuzz targets' seeds among them
	@CGO_ENABLED=0 $(TEST) -timeout $(TIMEOUT) $(TWINS) $(PURE)
	@CGO_ENABLED=0 $(TEST) -timeout $(TIMEOUT) -run '$(UNRACED)' $(RACED)

.PHONY: analyze
analyze: supervisor ## the same for the packages with C in them
	@$(C) $(TEST) -ldflags '$(STATIC)' -timeout $(TIMEOUT) $(WITH_C)

.PHONY: race
race: supervisor ## with the race detector the packages whose concurrency is gander's own
	@$(RACE) -timeout $(TIMEOUT) -skip '$(UNRACED)' $(RACED)

.PHONY: shells
shells: supervisor ## the same for those that start shells, supervisors and downloads
	@$(RACE) -timeout $(TIMEOUT) -count=1 -skip '$(ALONE)' $(RACED_LIVE)

# These run by themselves, without the race detector: they use up the processes of a user, or measure what they need.
ALONE := ^(TestLimits|TestFilesInMemory|TestNoGrowth)$$

.PHONY: limits
limits: supervisor ## what uses up what a sandbox may have, one test after the other
	@CGO_ENABLED=0 $(TEST) -timeout $(TIMEOUT) -count=1 -p 1 -run '$(ALONE)|^TestAsOrdinaryUser$$' ./sandbox/drivers/local ./developer/shell

.PHONY: live
live: images $(CLIENTS) ## what starts sandboxes and agents: drivers, rules, the catalogue of escapes, the page, scripts, e2e
	@mkdir -p .cache/pictures
	@$(C) $(TEST) -ldflags '$(STATIC)' -timeout $(TIMEOUT) -count=1 -p 2 -parallel 3 -skip '$(ALONE)' $(KEEP) $(LIVE)

.PHONY: races
races: supervisor # everything with the race detector, as often as check has it
	@$(RACE) -timeout 3h -count=1 -skip '$(ALONE)|^TestProbe$$|^TestKills$$' $$($(GO) list ./... | grep -v -e /conformance/e2e$$ -e /conformance/bench$$)

.PHONY: e2e
e2e: images $(CLIENTS) ## of these bin/gander between real clients and real agents
	@mkdir -p .cache/pictures
	@CGO_ENABLED=0 $(TEST) -timeout $(TIMEOUT) -count=1 $(KEEP) ./conformance/e2e

.PHONY: proofs
proofs: export GANDER_RACE_ROUNDS := 10000
proofs: export GANDER_SANDBOX_KILLS := 10000
proofs: export GANDER_SHELL_CANCELS := 10000
proofs: export GANDER_SHELL_CALLS := 1000000
proofs: export GANDER_STORE_KILLS := 1900
proofs: export GANDER_POWER_LOSSES := 200
proofs: export GANDER_LOOP_EVENTS := 1000000
proofs: export GANDER_LIVE_SECONDS := 60
proofs: export GANDER_CANCEL_RUNS := 2000
proofs: export GANDER_CRASH_RUNS := 100
proofs: export GANDER_CRASH_LOSSES := 40
proofs: export GANDER_MODEL_DOWN_SECONDS := 180
proofs: # without the race detector what check has with it or seldom: thousands of cancels, calls, kills and races
	$(MAKE) -k limits live TIMEOUT=12h LIVE='$(LIVE) $(RACED) $(RACED_LIVE)'

.PHONY: acp
acp: images # every check of ACP for gander with each agent in each sandbox: ten minutes with opencode; and those for the orchestrator
	for agent in goose opencode; do for sandbox in local docker; do \
	  GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' \
	    bin/gander conformance acp -- "$$PWD/bin/gander" acp --agent "$$agent" --sandbox "$$sandbox"; \
	done; done
	GANDER_GOOSE_CMD='$(GOOSE)' GANDER_OPENCODE_CMD='$(OPENCODE)' \
	  bin/gander conformance acp --expected-failures conformance/acp/orchestrator.txt -- "$$PWD/bin/gander" acp --agent orchestrator

.PHONY: podman
podman: images # the docker sandbox with Podman in Docker's place, and an image that is built twice
	$(NEEDS) .ci/podman $(GO) test -tags $(TAGS) -count=1 -timeout 3h -skip '^(TestProbe|TestKills)$$' ./sandbox/drivers/docker
	.ci/podman bash -c 'id() { docker image inspect -f "{{.Id}}" goku-sandbox-goose; }; \
	  bin/gander sandbox build --context sandbox goose; first="$$(id)"; bin/gander sandbox build --context sandbox --no-cache goose; test "$$first" = "$$(id)"'

.PHONY: bench
bench: images ## medians of side-by-side runs: start, memory, latency, throughput, cancel
	$(NEEDS) GANDER_BENCH=1 $(GO) test -tags $(TAGS) -count=1 -v -timeout 2h ./conformance/bench

FUZZTIME ?= 600

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME seconds (600), as many at once as there are processors
	@grep -rHo --exclude-dir=node_modules --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort \
	  | sed -E 's|^(.*)/[^/]*:func (.*)|\1 \2 $(FUZZTIME)|' | GO='$(GO)' xargs -P "$$(nproc)" -n 3 .ci/fuzz

##@ What they need

.PHONY: changed
changed: # gofumpt, vet and staticcheck of the packages that differ from main
	@files="$$({ git diff --name-only --diff-filter=d "$$(git merge-base HEAD main 2>/dev/null || echo HEAD)" -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; })"; \
	[ -n "$$files" ] || exit 0; \
	packages="$$(xargs -n 1 dirname <<<"$$files" | sort -u | sed 's|^|./|')"; \
	badly="$$($(GO) run $(GOFUMPT) -l $$files)"; test -z "$$badly" || { echo "gofumpt: $$badly" >&2; exit 1; }; \
	set -x; CGO_ENABLED=0 $(GO) vet $$packages; CGO_ENABLED=0 $(GO) run $(STATICCHECK) $$packages

.PHONY: images
images: build docker $(AGENTS) ## the agents' container images, goku-sandbox-goose and goku-sandbox-opencode
	bin/gander sandbox build --context sandbox

.PHONY: plain-images
plain-images: images # the same images without gander's help, as a person may build them
	for agent in goose opencode; do \
	  docker build -q -t "goku-sandbox-$$agent:latest" -f "sandbox/$$agent/Dockerfile" sandbox/; \
	done

.PHONY: docker
docker: ## a Docker daemon that answers, with the base image; installed and started where there is none
	.ci/docker

.PHONY: deps
deps: debian docker $(AGENTS) $(CLIENTS) ## install what check needs, and for soak what that needs

.PHONY: agents
agents: $(AGENTS) ## the pinned agents, in sandbox/node_modules

.PHONY: debian
debian: # the Debian packages that are missing
	@command -v $(GO) >/dev/null || { echo 'Go is missing: install it from go.dev/dl' >&2; exit 1; }
	@command -v $(NPM) >/dev/null || { echo 'Node is missing: install Node 20 or newer, with npm' >&2; exit 1; }
	@packages='$(DEBIAN)'; [ -z "$${GANDER_EVERYWHERE:-}" ] || packages+=' $(DEBIAN_SOAK)'; \
	command -v dpkg-query >/dev/null || { echo "not a Debian machine: make sure it has $$packages" >&2; exit 0; }; \
	missing=$$(for p in $$packages; do \
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
