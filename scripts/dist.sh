#!/usr/bin/env bash
# Builds what a release consists of: a tarball, a Debian package, an OCI image, an SBOM and
# checksums.
#
# The files go to $SANDBAR_DIST_DIR, by default $CARGO_TARGET_DIR/dist. File times are those of the
# commit, so that the same commit gives the same tarball.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/sandbar/target}"
PATH="$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

out="${SANDBAR_DIST_DIR:-$CARGO_TARGET_DIR/dist}"
target=$(rustc --print host-tuple)
version=$(cargo pkgid --package sandbar | sed 's/.*[#@]//')
name="sandbar-$version-$target"
# cargo-deb finds generated files below `target/release`; see the assets in
# crates/sandbar/Cargo.toml.
stage="$CARGO_TARGET_DIR/$target/release/packaging"

say() { printf 'dist: %s\n' "$*" >&2; }

# Manual pages and completions come out of the binary itself.
stage_files() {
    local sandbar=$1
    rm -rf "$stage"
    mkdir -p "$stage/man" "$stage/completions"
    "$sandbar" man "$stage/man"
    gzip --no-name --best "$stage"/man/*.1
    for shell in bash zsh fish; do
        "$sandbar" completion "$shell" >"$stage/completions/sandbar.$shell"
    done
}

make_tarball() {
    local tree="$work/$name"
    mkdir -p "$tree/share"
    install -m 755 bin/sandbar "$tree/sandbar"
    install -m 644 README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE "$tree"
    cp -r "$stage/man" "$stage/completions" packaging/systemd packaging/sandbar.toml "$tree/share"
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --directory "$work" "$name" | zstd -q -19 -T0 -o "$out/$name.tar.zst"
}

make_deb() {
    cargo deb --package sandbar --target "$target" --no-build --no-strip --quiet \
        --output "$out/sandbar_${version}_$(dpkg --print-architecture).deb"
}

# Debian's smallest root with the package installed, as one layer. No container daemon is involved.
make_image() {
    local root="$work/root.tar" layout="$work/oci" bundle="$work/bundle" deb
    deb=$(ls "$out"/*.deb)
    scripts/clean-root.sh "$root"
    umoci init --layout "$layout"
    umoci new --image "$layout:$version"
    umoci unpack --image "$layout:$version" "$bundle"
    tar --extract --file "$root" --directory "$bundle/rootfs"
    install -m 644 "$deb" "$bundle/rootfs/tmp/sandbar.deb"
    unshare --mount --propagation private chroot "$bundle/rootfs" dpkg --install /tmp/sandbar.deb >&2
    rm "$bundle/rootfs/tmp/sandbar.deb"
    umoci repack --image "$layout:$version" "$bundle"
    umoci config --image "$layout:$version" --clear=config.entrypoint --clear=config.cmd \
        --config.entrypoint /usr/bin/sandbar --config.cmd up \
        --config.volume /var/lib/sandbar --config.exposedports 9100/tcp \
        --config.label org.opencontainers.image.title=sandbar \
        --config.label "org.opencontainers.image.version=$version" \
        --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0"
    tar --create --sort=name --owner=0 --group=0 --directory "$layout" --file "$out/$name.oci.tar" .
}

[ "$(id -u)" -eq 0 ] || { say "error: the OCI image needs root — run: sudo make dist"; exit 1; }
work=$(mktemp --directory /var/tmp/sandbar-dist-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
stage_files "$(realpath bin/sandbar)"
make_tarball
make_deb
make_image
cargo sbom --cargo-package sandbar --output-format spdx_json_2_3 >"$out/$name.spdx.json"
(cd "$out" && sha256sum -- * >SHA256SUMS)
say "made in $out:"
ls -sh "$out" >&2
