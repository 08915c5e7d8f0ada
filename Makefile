# make check is what a change must pass. Only Go is needed; the linter is a
# tool of its own module, so it never becomes a dependency of the library.

GO        ?= go
FUZZTIME  ?= 10s
PLATFORMS ?= linux/arm64 linux/386 darwin/arm64 windows/amd64

.PHONY: check rest fmt vet lint tidy walls test race cross readme readme-test fuzz bench profile interop interop-short

check: fmt vet lint tidy test race cross

# What check does beside the tests, which readme-test has run already.
rest: fmt vet lint tidy race cross

fmt:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted: $$files"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(GO) tool -modfile=tools/go.mod staticcheck ./...

tidy:
	$(GO) mod tidy -diff
	$(GO) -C tools mod tidy -diff

# The rules of the tree alone: imports, sizes, documentation, links. They are
# part of test as well.
walls:
	$(GO) test ./internal/lint

test:
	$(GO) test ./...

race:
	$(GO) test -race -timeout 20m ./...

# Tests are compiled too, so that a platform's own files stay testable there. The
# profile of the command is left out: it would compile everything once more.
cross:
	@for p in $(PLATFORMS); do echo "build and vet $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -pgo=off ./... && \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./... || exit 1; done

# The commands are taken from the README, so that it cannot go stale.
README_COMMANDS = sed -n '/^<!-- commands -->$$/,/^<!-- end of commands -->$$/s/^\(go .*\)$$/\1/p' README.md

readme:
	@test "$$($(README_COMMANDS) | wc -l)" -eq 2 || { echo "README.md should have two commands"; exit 1; }
	@$(README_COMMANDS) | while read -r c; do echo "+ $$c"; sh -c "$$c" </dev/null || exit 1; done

readme-test:
	@c=$$($(README_COMMANDS) | grep '^go test '); [ -n "$$c" ] || { echo "no test command in README.md"; exit 1; }; \
		echo "+ $$c"; sh -c "$$c" </dev/null

# Every fuzz target for FUZZTIME, one after the other.
fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r f; do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$f"); do \
			echo "fuzz $$name in $$(dirname "$$f")"; \
			$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) "$$(dirname "$$f")" </dev/null || exit 1; \
		done; done

# Every benchmark once, to see that it runs; see docs/performance.md for how to
# measure.
bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

# The profile that the command is built with: see docs/decisions/0012-profile.md.
# Write it anew when the data path has changed; 10 s for each workload.
profile:
	$(GO) test -run '^$$' -bench '^BenchmarkWorkloads$$' -benchtime 50x -o /dev/null \
		-cpuprofile cmd/gantry/default.pgo ./internal/perf

# Gantry and the Linux kernel's own RoCEv2, in a small virtual machine; see
# test/interop/README.md. All rows with both kernels take about 20 minutes, and
# the result is written down; captures stay in INTEROP_OUT. The short form needs
# 2 minutes, and passes where there can be no such machine.
INTEROP_OUT ?= $(abspath bin/interop)

interop:
	GANTRY_INTEROP=full $(GO) -C test/interop test -v -count=1 -timeout 60m . \
		-interop.out $(INTEROP_OUT) -interop.report $(abspath docs/interop.md)

interop-short:
	GANTRY_INTEROP=short $(GO) -C test/interop test -count=1 -timeout 15m
