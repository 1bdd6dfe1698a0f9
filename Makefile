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

# Packages on the hot path compare bare errno with == (style rule 10).
BAREERRNO := (dataplane/(sys|splice|loop|end|listener|dial|relay)|bench/(load|bare))$$

# Not root: a user namespace with a private /run, where namespaces get names.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,unshare -Urnm sh -c 'mount -t tmpfs lab /run && exec "$$0" "$$@"')

NEED_DEMO := ip=iproute2 curl=curl nginx=nginx-light iperf3=iperf3 socat=socat
NEED_TEST := $(NEED_DEMO) gcc=gcc /usr/include/stdlib.h=libc6-dev nft=nftables \
	iptables-restore=iptables conntrack=conntrack strace=strace haproxy=haproxy openssl=openssl \
	/usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream

.PHONY: build build-checked demo test check fmt vet lint layers fuzz-once bench-once \
	bench-micro bench-quick bench bench-gate arm64 lab fuzz soak deps clean

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
	$(LINT) exhaustive -d -constignore '(^|\.)(Paths|Reasons|kinds|nuisances)$$' -typeignore '(\.|^)(Errno|Kind)$$' ./...

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
# BASE=commit compares with another commit, by turns.
bench-micro:
ifdef BASE
	tools/benchbase $(BASE) out/micro
	for i in 1 2 3 4 5; do for side in base head; do \
		(if [ $$side = base ]; then cd out/micro/tree; fi; \
		$(GO) test -vet=off -run '^$$' -bench . -benchmem -count 2 ./...) >> out/micro/$$side.txt; done; done
	git worktree remove --force out/micro/tree
	$(GO) run golang.org/x/perf/cmd/benchstat out/micro/base.txt out/micro/head.txt
else
	$(GO) test -vet=off -run '^$$' -bench . -benchmem -count 10 ./...
endif

# The whole machine: a look in under 3 minutes, and everything in under 30. Two
# rounds show where to look; `sluice-bench report` makes one of several results.
bench-quick: deps build
	bin/sluice-bench run --quick
bench: deps build
	bin/sluice-bench run --mode direct --rounds 2 --length 400ms -o out/bench-direct.json
	bin/sluice-bench run --mode redirect --subject 'sluice,haproxy*,nginx*' --rounds 2 --length 400ms -o out/bench-redirect.json

# Does this tree cost more than commit BASE? What one run suspects a second one
# has to confirm.
GATERUN = bin/sluice-bench run --build base=out/gate/base --build head=out/gate/head --subject base,head \
	--scenario bulk-1-up,bulk-8-down,churn-32-client --path node --mode direct \
	--rounds 6 --turns 10 --warm 60ms --length 250ms --strace each
bench-gate: deps build
	@[ -n "$(BASE)" ] || { echo "bench-gate: say BASE=commit"; exit 1; }
	tools/benchbase $(BASE) out/gate
	cd out/gate/tree && CGO_ENABLED=0 $(GO) build -trimpath -o ../base/ ./cmd/sluice ./cmd/sluice-redirect
	git worktree remove --force out/gate/tree
	mkdir -p out/gate/head && cp bin/sluice bin/sluice-redirect out/gate/head/
	$(GO) build -o out/gate/ ./tools/benchgate
	$(GATERUN) --seed 1 -o out/gate/1.json > out/gate/1.txt
	out/gate/benchgate out/gate/1.json || { [ $$? = 3 ] && \
		$(GATERUN) --seed 2 -o out/gate/2.json > out/gate/2.txt && \
		out/gate/benchgate out/gate/1.json out/gate/2.json; }

arm64:
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...

clean:
	rm -rf bin out
