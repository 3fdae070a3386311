# sonde. `make` alone lists what there is. Users' builds do not come through here: rebar3 calls
# c_src/build.sh itself.

# Our own builds want the native side, and no warnings.
export SONDE_REQUIRE_NATIVE := 1
export WERROR := -Werror

CORES   := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
C_FILES := $(wildcard c_src/*/*.c c_src/*/*.h)
# A library of the tests, which does what ours must not.
FOREIGN := $(wildcard test/*_data/*.c)
EBIN    := _build/default/lib/sonde/ebin
INCLUDE  = $(shell erl -noshell -eval \
             'io:format("~ts/erts-~ts/include", [code:root_dir(), erlang:system_info(version)]), halt().')

# It does not see the other branch of an #if, nor what the assembler part uses.
CPPCHECK_BLIND := --suppress=knownConditionTrueFalse --suppress=unusedStructMember

.PHONY: help soak mutants bench-small bench-check compile all demo pictures shell test test-otp test-matrix test-rabbitmq test-binaries test-compat test-observer test-snapshot stress check check-musl prebuilt release publish fuzz valgrind check-aarch64 test-aarch64-vm lint format dialyzer docs bench disturbance sanitize clean test-top escript test-attach test-healthy watcher-figures test-prometheus report-bundle test-report test-web test-variants test-musl-vm

help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: ## see it find five real leaks on a running node (under a minute)
	@scripts/setup build
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@sh demo/run

pictures: compile escript ## doc/pictures, from a run of the demo's node
	@scripts/setup top report
	@scripts/pictures

shell: compile ## an Erlang shell with sonde loaded
	@erl -pa $(EBIN) -eval 'io:format("~n  sonde:proc_count(memory, 5).   sonde:bin_leak(5).   sonde:native().~n  h(sonde).   h(sonde, bin_leak).   to leave: q().~n~n")'

compile: ## build the library, and the documentation into it
	@scripts/setup build
	@rebar3 compile

all: compile

escript: ## the command `sonde`, one file that looks into any node: _build/escript/sonde
	@scripts/setup build
	@log=$$(SONDE_REQUIRE_NATIVE= rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@scripts/escript $(EBIN) _build/escript/sonde
	@echo "_build/escript/sonde: $$(($$(wc -c <_build/escript/sonde) / 1024)) kB, for this system"

test: ## what a change breaks most easily, native and portable (under five minutes)
	@scripts/test

soak: ## everything that .ci/run leaves out, with a table at the end (hours): make soak STEPS="fuzz plants"
	@scripts/soak $(STEPS)

test-matrix: ## every suite on OTP 25, 27 and 29 (chroots are made when needed; as root)
	@scripts/matrix

mutants: ## break each promise once, and see the test that is named for it fail (ten minutes)
	@scripts/mutants

test-otp: # one side: make test-otp SIDE=native SUITES="peek_SUITE other_SUITE:case"
	@scripts/setup test
	@scripts/suite $(or $(SIDE),native)

test-rabbitmq: ## a live broker under load, beside the recon it ships (minutes; RABBITMQ_SECONDS=1: less)
	@scripts/setup rabbitmq
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/rabbitmq.sh

test-binaries: ## where a live broker's binary memory is (under a minute; RABBITMQ_SECONDS=1: less)
	@scripts/setup rabbitmq
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@LOOK=binaries test/live/rabbitmq.sh

test-observer: ## observer_cli on compat/recon, in a real terminal, view by view (RECON=real: on recon)
	@scripts/setup rabbitmq observer
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/observer_cli.sh

test-top: ## sonde:top in real terminals, key by key (three minutes)
	@scripts/setup top
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/top.sh

test-snapshot: ## what Chrome's own reader makes of heap snapshots (in Node)
	@scripts/setup snapshot
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/snapshot.sh

watcher-figures: ## how soon the watcher finds leaks, on simulated nodes of fresh seeds (an hour)
	@scripts/suite build
	@erl -noinput -pa _build/suite/test -pa _build/suite/sonde/ebin -s sonde_watch_figures main

# Where scripts/setup page puts the packages of the page.
PAGE_MODULES = $${SONDE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/sonde}/report-page-$$(sha256sum src/report/page/package-lock.json | cut -c1-12)/node_modules

report-bundle: ## build the pages anew: priv/report.html and priv/live.html, from src/report/page/
	@scripts/setup page
	@node src/report/page/build.mjs "$(PAGE_MODULES)" priv/report.html
	@node src/report/page/build.mjs "$(PAGE_MODULES)" priv/live.html live

test-report: ## the page of reports in headless Chromium (three minutes)
	@scripts/setup report
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@MODULES="$(PAGE_MODULES)" test/live/report.sh

test-web: ## the live page in headless Chromium (two minutes)
	@scripts/setup report
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@MODULES="$(PAGE_MODULES)" test/live/web.sh

test-prometheus: ## what Prometheus' own checker makes of our metrics
	@scripts/setup prometheus
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/prometheus.sh

test-compat: ## a live broker with compat/recon in the place of its recon (a minute)
	@scripts/setup rabbitmq
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@RECON=ours test/live/rabbitmq.sh

test-attach: ## the command `sonde` against RabbitMQ and yaws, which do not have it (a minute)
	@scripts/setup rabbitmq attach
	@$(MAKE) -s --no-print-directory escript >/dev/null
	@test/live/attach.sh

test-healthy: ## diagnoses of RabbitMQ, yaws and ejabberd: nothing healthy is accused (15 minutes)
	@scripts/setup rabbitmq healthy
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@test/live/healthy.sh

test-variants: ## VMs started and built otherwise: every value equal, or off by a named check (45 minutes)
	@scripts/otp-variant

test-musl-vm: ## a whole VM that is built with musl, and all suites on it, natively (20 minutes)
	@scripts/otp-variant musl

stress: ## a node under fire, with witnesses in it: make stress SECONDS=60 OTP=27
	@STRESS_SECONDS=$(or $(SECONDS),60) SUITES=stress_SUITE SONDE_SIDES=native scripts/matrix \
	    $(or $(stress_$(OTP)),host)

stress_27 := trixie
stress_29 := sid

sanitize: ## the native suites, with AddressSanitizer and UBSan inside the VM
	@scripts/setup test
	@SONDE_SANITIZE=1 SONDE_BUILD=_build/sanitize scripts/suite native

check: ## the C unit tests, plain and under sanitizers
	@scripts/setup build
	@$(MAKE) -s --no-print-directory -j $(CORES) -C c_src check

fuzz: ## the walkers, and the reader of core files, against hostile memory: make fuzz SECONDS=600
	@scripts/setup fuzz
	@$(MAKE) -s --no-print-directory -C c_src fuzz FUZZ_SECONDS=$(or $(SECONDS),60)
	@$(MAKE) -s --no-print-directory -C c_src fuzz FUZZ=core FUZZ_SECONDS=10

valgrind: ## the C unit tests under valgrind
	@scripts/setup valgrind
	@$(MAKE) -s --no-print-directory -C c_src valgrind

check-aarch64: ## the C unit tests of the reader, cross-compiled, under an emulator
	@scripts/setup cross
	@$(MAKE) -s --no-print-directory -C c_src check-aarch64

test-aarch64-vm: ## native suites on whole VMs of aarch64, OTP 25, 27 and 29, in an emulator (hours on a busy machine)
	@scripts/aarch64-vm

check-musl: ## the C unit tests that depend on the C library, with musl; and the library, without a warning
	@scripts/setup build musl
	@$(MAKE) -s --no-print-directory -j $(CORES) -C c_src check-musl
	@$(MAKE) -s --no-print-directory -j $(CORES) -C c_src all TARGET=musl CC=musl-gcc PRIV_DIR=obj/musl
	@echo "the library of musl: ok"

prebuilt: ## the library for x86-64 and aarch64, glibc and musl: c_src/prebuilt, and an archive of it in _build/prebuilt
	@scripts/setup build prebuilt
	@scripts/prebuilt

release: prebuilt ## that, and the command `sonde` with all four libraries: _build/escript/sonde
	@log=$$(rebar3 compile 2>&1) || { echo "$$log"; exit 1; }
	@scripts/escript $(EBIN) _build/escript/sonde c_src/prebuilt

publish: release # Hex asks for the account; the package has the prebuilt libraries in it
	@rebar3 as publish hex publish

lint: ## clang-format, clang-tidy, cppcheck, xref, layers
	@scripts/setup lint
	clang-format --dry-run -Werror $(C_FILES) $(FOREIGN)
	printf '%s\n' $(filter %.c,$(C_FILES)) | xargs -P $(CORES) -n 9 sh -c \
	    'clang-tidy --quiet "$$@" -- -std=c11 -Ic_src -D_GNU_SOURCE -DSONDE_BUILD_ID="\"\"" -isystem $(INCLUDE)' sh
	cppcheck -j $(CORES) --enable=warning,style,performance,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem $(CPPCHECK_BLIND) --std=c11 -Ic_src -D_GNU_SOURCE -q $(C_FILES)
	rebar3 xref
	scripts/layers $(EBIN)

format: ## let clang-format have its way with c_src
	@scripts/setup lint
	clang-format -i $(C_FILES) $(FOREIGN)

dialyzer: ## Dialyzer (a minute the first time)
	@scripts/setup dialyzer
	rebar3 dialyzer

docs: ## check the documentation and put it into the beams
	@scripts/setup build
	@rebar3 edoc
	@scripts/embed_docs $(EBIN)

bench: ## measure against recon and write the tables of doc/benchmarks.md
	@scripts/setup bench
	@$(MAKE) -s --no-print-directory escript >/dev/null
	@sh bench/run --write

bench-small: # each bench once, a hundred times smaller: that it runs, and no figure
	@scripts/setup test bench
	@BENCH_SCALE=0.01 BENCH_OTP=this sh bench/run
	@DISTURB_PROCESSES=1000 DISTURB_WINDOWS=2 DISTURB_MS=200 sh bench/run --disturb

bench-check: ## whether a call became slower than recorded (half a minute; RECORD=1: record anew)
	@scripts/setup test bench
	@sh bench/run $(if $(RECORD),--record,--check)

disturbance: ## what a ping-pong pair notices of sonde, and of a control (ten minutes)
	@scripts/setup test
	@sh bench/run --disturb

clean: ## remove what was built
	rm -rf _build c_src/prebuilt
	@$(MAKE) -s --no-print-directory -C c_src clean
