# The front door. `make` alone lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Build results live outside the tree, so that several clones share them; an exported value wins.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/sandbar/target
CARGO ?= cargo

.PHONY: help setup setup-tests tools build run test test-full test-rest soak chaos fuzz fuzz-seeds bench lint fmt deny machete

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what the program needs, where it is missing (root), or name it (not root)
	@scripts/setup.sh program

setup-tests: ## The same for what the tests need
	@scripts/setup.sh program tests

tools: ## Install the cargo tools the lints need, where they are missing
	@scripts/setup.sh tools

build: setup ## Build ./bin/sandbar, release mode, one static binary
	@scripts/build.sh

run: build ## Start a host here, in the foreground, and say what to type next
	@./bin/sandbar up

test: setup-tests ## Run every case on real backends, then look for anything left behind; under ten minutes
	@scripts/test.sh quick

test-full: setup-tests ## Run every case on every backend, long tests at full length
	@scripts/test.sh full

test-rest: setup-tests ## Run what `test-full` has and `test` has not
	@scripts/test.sh rest

soak: setup-tests ## The long runs: host and model over thousands of random sequences, about an hour
	@scripts/soak.sh

chaos: setup-tests ## Kill a host under load 200 times on every storage; SANDBAR_CHAOS_ROUNDS and SANDBAR_CHAOS_SEED
	@SANDBAR_CHAOS_ROUNDS=$${SANDBAR_CHAOS_ROUNDS:-200} \
		$(CARGO) nextest run --profile chaos -p sandbar --test kill -E 'test(under_load)' --no-capture

fuzz: ## Every parser under libFuzzer and AddressSanitizer; SANDBAR_FUZZ_SECONDS for each (30), SANDBAR_FUZZ_SEED
	@scripts/setup.sh program fuzz
	@scripts/fuzz.sh

fuzz-seeds: ## Every parser over its seeds, without libFuzzer's mutations and without a sanitizer
	@scripts/setup.sh program fuzz-seeds
	@SANDBAR_FUZZ_SECONDS=0 scripts/fuzz.sh

bench: setup-tests ## Measure this machine: one run, ratios to raw baselines
	@$(CARGO) bench --workspace --bench '*'

lint: ## Formatting, clippy with warnings denied, and the paths named in docs/contract.md
	@$(CARGO) fmt --all --check
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@$(CARGO) clippy --workspace --all-targets -- -D warnings
	@RUSTFLAGS="--cfg fuzzing" $(CARGO) clippy --manifest-path fuzz/Cargo.toml --locked --target-dir $$CARGO_TARGET_DIR/fuzz \
		-- -D warnings
	@scripts/check-contract.py

fmt: ## Format the code
	@$(CARGO) fmt --all
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml

deny: tools ## Check licences, bans and sources of the dependencies
	@$(CARGO) deny --workspace check --allow license-exception-not-encountered bans licenses sources
	@$(CARGO) deny --manifest-path fuzz/Cargo.toml --config deny.toml check \
		--allow unmatched-skip --allow unnecessary-skip bans licenses sources

machete: tools ## Look for dependencies nobody uses
	@$(CARGO) machete
