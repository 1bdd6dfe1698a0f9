# make demo   shows the proxy at work        make test   runs all tests
# make check  is what a merge needs          make build  fills bin/
#
# As root nothing more is needed than Go, git and make: what is missing is
# installed. Otherwise it is named, and `make lab` runs the namespace tests in a
# user namespace.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

GO       ?= go
LINT     := $(GO) tool -modfile=tools/lint/go.mod
GATE     := $(GO) run ./tools/testgate
FUZZTIME ?= 60s
SEED     ?=
RUN      ?=
GATEARGS := $(if $(SEED),-seed $(SEED)) $(if $(RUN),-run '$(RUN)')

# Hot-path packages compare bare errno with == (style rule 10).
BAREERRNO := dataplane/(sys|splice|loop|relay)$$

# Not root: a user namespace with a private /run, where namespaces get names.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,unshare -Urnm sh -c 'mount -t tmpfs lab /run && exec "$$0" "$$@"')

NEED_DEMO := ip=iproute2 curl=curl nginx=nginx-light iperf3=iperf3
NEED_TEST := $(NEED_DEMO) gcc=gcc /usr/include/stdlib.h=libc6-dev nft=nftables \
	iptables-restore=iptables conntrack=conntrack strace=strace

.PHONY: build build-checked demo test check fmt vet lint layers fuzz-once bench-once \
	bench-micro arm64 lab fuzz soak deps clean

# What ships, in bin/; and the same with the race detector and ownership checks,
# in bin/checked/.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...
build-checked:
	$(GO) build -race -tags checked -o bin/checked/ ./cmd/...

deps:
	tools/need $(NEED_TEST)

demo: build
	tools/need $(NEED_DEMO)
	bin/sluicectl lab demo

test: deps build build-checked
	$(GATE) $(GATEARGS)

check: fmt vet lint layers test fuzz-once bench-once arm64

fmt:
	@bad=$$(gofmt -l .); [ -z "$$bad" ] || { echo "gofmt these:"; echo "$$bad"; exit 1; }
	$(GO) fix -diff ./...
	$(GO) mod tidy -diff

vet:
	$(GO) vet ./...
	$(GO) vet -tags checked ./...

lint:
	$(LINT) staticcheck ./...
	$(LINT) staticcheck -tags checked ./...
	$(LINT) go-errorlint $$($(GO) list ./... | grep -Ev '$(BAREERRNO)')
	$(LINT) exhaustive ./...

layers:
	$(GO) run ./tools/layers

# Namespace tests alone; RUN=TestLabName picks some.
lab: build build-checked
	$(AS_ROOT) env LAB_REQUIRED=1 $(GATE) -pass lab,plain $(GATEARGS)

# The long forms of tests; keep the output.
soak: build build-checked
	$(AS_ROOT) env LAB_REQUIRED=1 SLUICE_SOAK=1 $(GATE) -pass lab -timeout 2h $(GATEARGS)
	SLUICE_SOAK=1 $(GO) test -v -timeout 2h ./dataplane/gcm

fuzz-once:
	$(GATE) -fuzz 3s
fuzz:
	$(GATE) -fuzz $(FUZZTIME)

# So that micro benches cannot rot.
bench-once:
	$(GO) test -vet=off -run '^$$' -bench . -benchtime 1x ./...
bench-micro:
	$(GO) test -vet=off -run '^$$' -bench . -benchmem -count 10 ./...

arm64:
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...

clean:
	rm -rf bin out
