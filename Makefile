# Entry points for builds, tests and checks. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Build results live outside the tree, so that several clones share them; an exported value wins.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/sandbar/target
CARGO ?= cargo

.PHONY: help setup setup-tests tools build run test test-full test-rest dist test-dist soak chaos hostile fuzz fuzz-seeds bench lint msrv fmt docs deny machete

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install missing dependencies of the program (root), or list them (not root)
	@scripts/setup.sh program

setup-tests: ## The same for the dependencies of the tests
	@scripts/setup.sh program tests

tools: ## Install missing cargo tools of the lints
	@scripts/setup.sh tools

build: setup ## Build ./bin/sandbar, release mode, one static binary
	@scripts/build.sh

run: build ## Start a host in the foreground, and print the next steps
	@./bin/sandbar up

test: setup-tests ## Run every case on real backends, then check for leaks; under ten minutes
	@scripts/test.sh quick

test-full: setup-tests ## Run every case on every backend, long tests at full length
	@scripts/test.sh full

dist: build ## Build the release files: tarball, .deb, OCI image, SBOM, checksums
	@scripts/setup.sh dist
	@scripts/dist.sh

test-dist: dist ## Install the .deb in a clean Debian root and use the host it starts
	@scripts/in-test-run.sh scripts/test-dist.py "$${SANDBAR_DIST_DIR:-$$CARGO_TARGET_DIR/dist}"

test-rest: setup-tests ## Run the part of `test-full` that `test` leaves out
	@scripts/test.sh rest

soak: setup-tests ## Compare host and model over thousands of random sequences, about an hour
	@scripts/soak.sh

chaos: setup-tests ## Kill a host under load 200 times on every storage; SANDBAR_CHAOS_ROUNDS and SANDBAR_CHAOS_SEED
	@SANDBAR_CHAOS_ROUNDS=$${SANDBAR_CHAOS_ROUNDS:-200} \
		$(CARGO) nextest run --profile chaos -p sandbar --test kill -E 'test(under_load)' --no-capture

hostile: setup-tests ## Attack a host in every way of the suite hostile-session; prints the latency of another session
	@scripts/hostile.sh

fuzz: ## Run every parser under libFuzzer and AddressSanitizer; SANDBAR_FUZZ_SECONDS for each (30), SANDBAR_FUZZ_SEED
	@scripts/setup.sh program fuzz
	@scripts/fuzz.sh

fuzz-seeds: ## Run every parser over its seeds, without mutations and without a sanitizer
	@scripts/setup.sh program fuzz-seeds
	@SANDBAR_FUZZ_SECONDS=0 scripts/fuzz.sh

bench: setup-tests ## Measure this machine: one run, ratios to raw baselines
	@$(CARGO) bench --workspace --bench '*'

lint: ## Formatting, clippy with warnings denied, links and paths in the documents
	@$(CARGO) fmt --all --check
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@$(CARGO) clippy --workspace --all-targets -- -D warnings
	@RUSTFLAGS="--cfg fuzzing" $(CARGO) clippy --manifest-path fuzz/Cargo.toml --locked --target-dir $$CARGO_TARGET_DIR/fuzz \
		-- -D warnings
	@scripts/check-contract.py
	@scripts/check-words.py
	@scripts/check-unsafe.py
	@scripts/check-links.py

msrv: ## Check the workspace with the oldest Rust version it supports
	@scripts/msrv.sh

fmt: ## Format the code
	@$(CARGO) fmt --all
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml

docs: ## Build the documentation as a book with search, links checked
	@scripts/setup.sh docs
	@scripts/docs.sh

deny: tools ## Check licences, bans and sources of the dependencies
	@$(CARGO) deny --workspace check --allow license-exception-not-encountered bans licenses sources
	@$(CARGO) deny --manifest-path fuzz/Cargo.toml --config deny.toml check \
		--allow unmatched-skip --allow unnecessary-skip bans licenses sources

machete: tools ## Find unused dependencies
	@$(CARGO) machete
