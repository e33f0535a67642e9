#!/usr/bin/env python3
"""Installs the Debian package in a clean root, starts the host as its systemd unit does, and uses it.

Usage: scripts/test-dist.py DIST_DIR, as root. Also checks the checksums, the tarball, the OCI image
and the SBOM.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parent
START_TIMEOUT = 120

# Starts the host, then runs the lines of stdin; at their end the host is stopped.
SERVE = """
"$@" & host=$!
echo $host
while read -r line; do eval "$line"; echo "exit $?"; done
kill -TERM $host 2>/dev/null && wait $host
"""

# pivot_root rather than chroot: the kernel refuses new user namespaces in a chroot.
ENTER = """
set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmp "$1/tmp"
cd "$1"
mkdir -p .old
pivot_root . .old
cd /
umount -l /.old
shift
exec "$@"
"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def output(*command):
    return run(*command, stdout=subprocess.PIPE).stdout


def check(condition, message):
    if not condition:
        sys.exit(f"test-dist: error: {message}")
    print(f"test-dist: {message}: ok", flush=True)


class CleanRoot:
    """A Debian root of its own, entered in new mount and pid namespaces."""

    def __init__(self, directory):
        self.path = directory / "root"
        self.path.mkdir()
        archive = directory / "root.tar"
        run(SCRIPTS / "clean-root.sh", archive)
        run("tar", "--extract", "--file", archive, "--directory", self.path)
        archive.unlink()

    def command(self, *command):
        return [
            *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL"),
            *("sh", "-c", ENTER, "enter", str(self.path), *command),
        ]

    def install(self, deb):
        shutil.copy(deb, self.path / "sandbar.deb")
        run(*self.command("dpkg", "--install", "/sandbar.deb"))

    def unit(self):
        return (self.path / "usr/lib/systemd/system/sandbar.service").read_text()

    def exec_start(self):
        unit = self.unit()
        lines = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
        check(len(lines) == 1, "the unit has one ExecStart line")
        check("Type=notify" in unit and "Delegate=yes" in unit, "the unit is Type=notify and delegated a cgroup")
        return lines[0].removeprefix("ExecStart=").split()


def test_host(root):
    # The host and its clients share one set of namespaces.
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(root.path / "run/notify"))
    notify.settimeout(START_TIMEOUT)
    host = subprocess.Popen(
        root.command("sh", "-c", SERVE, "host", *root.exec_start()),
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": "/run/notify"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        pid = int(host.stdout.readline())

        def ask(line):
            host.stdin.write(line + "\n")
            host.stdin.flush()
            lines = []
            for answer in host.stdout:
                if answer.startswith("exit "):
                    return answer.strip(), "".join(lines)
                lines.append(answer)
            sys.exit("test-dist: error: the clean root ended early")

        check(notify.recv(64) == b"READY=1", "the host reports READY=1")
        check(ask("sandbar run -- echo hello") == ("exit 0", "hello\n"), "sandbar run -- echo hello prints hello")
        check(ask("id=$(sandbar new) && sandbar exec $id -- sh -c 'echo one > /workspace/f' && sandbar snapshot $id a"
                  " && sandbar exec $id -- rm /workspace/f && sandbar rollback $id a"
                  " && sandbar exec $id -- cat /workspace/f && sandbar rm $id >/dev/null")[1].endswith("one\n"),
              "a sandbox is snapshotted and rolled back")  # fmt: skip
        check(ask("sandbar doctor >/dev/null")[0] == "exit 0", "sandbar doctor succeeds")
        ask(f"kill -TERM {pid}")
        check(notify.recv(64) == b"STOPPING=1", "the host reports STOPPING=1 on SIGTERM")
        check(ask(f"wait {pid}")[0] == "exit 0", "the host stops with exit code 0")
    finally:
        host.stdin.close()
        try:
            host.wait(30)
        except subprocess.TimeoutExpired:
            host.send_signal(signal.SIGKILL)
            host.wait()
        notify.close()


def test_files(dist):
    run("sha256sum", "--quiet", "--check", "SHA256SUMS", cwd=dist)
    check(True, "checksums match")
    [tarball] = dist.glob("*.tar.zst")
    names = output("tar", "--list", "--zstd", "--file", tarball).splitlines()
    for wanted in ["sandbar", "LICENSE-MIT", "share/man/sandbar-run.1.gz", "share/completions/sandbar.bash",
                   "share/systemd/sandbar.service"]:  # fmt: skip
        check(any(name.endswith("/" + wanted) for name in names), f"the tarball has {wanted}")
    [image] = dist.glob("*.oci.tar")
    config = json.loads(output("skopeo", "inspect", "--config", f"oci-archive:{image}"))["config"]
    check(config["Entrypoint"] == ["/usr/bin/sandbar"] and config["Cmd"] == ["up"], "the OCI image starts a host")
    [sbom] = dist.glob("*.spdx.json")
    packages = {package["name"] for package in json.loads(sbom.read_text())["packages"]}
    check({"sandbar", "tokio", "rusqlite"} <= packages, f"the SBOM lists {len(packages)} packages")
    with tarfile.open(image) as archive:
        check("./oci-layout" in archive.getnames(), "the OCI image is a layout")


def main():
    dist = pathlib.Path(sys.argv[1]).resolve()
    test_files(dist)
    [deb] = dist.glob("*.deb")
    with tempfile.TemporaryDirectory(prefix="sandbar-dist-") as directory:
        root = CleanRoot(pathlib.Path(directory))
        root.install(deb)
        for path in ["usr/bin/sandbar", "etc/sandbar/sandbar.toml", "usr/share/man/man1/sandbar-run.1.gz",
                     "usr/share/bash-completion/completions/sandbar"]:  # fmt: skip
            check((root.path / path).exists(), f"the package has /{path}")
        if shutil.which("systemd-analyze"):
            # Checked against this machine's systemd: the clean root has none.
            unit = pathlib.Path(directory) / "sandbar.service"
            unit.write_text(root.unit().replace("/usr/bin/sandbar", str(root.path / "usr/bin/sandbar")))
            run("systemd-analyze", "verify", "--man=no", unit)
            check(True, "systemd-analyze accepts the unit")
        test_host(root)
        run(*root.command("dpkg", "--purge", "sandbar"))
        check(not (root.path / "usr/bin/sandbar").exists(), "the package can be removed")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("test-dist: error: a clean root needs root — run: sudo make test-dist")
    main()
