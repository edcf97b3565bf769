"""Builds the image of docker/Dockerfile without a container engine, for `make image` and for the tests that run it.

    python -m tests.docker.building [FOLDER]

buildah (Debian's package) runs the Dockerfile's own steps in chroots, as root. Its base, python:slim, comes from no
registry: mmdebstrap makes it from Debian's packages, with the Python of that release of Debian. The folder
(build/image) gets `minibroker.tar.gz`, which `docker load` takes. It is Docker's own format: an OCI archive would lose
the health check.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = ("buildah", "mmdebstrap")
ARCHIVE: Final = "minibroker.tar.gz"
_CACHE: Final = Path.home() / ".cache" / "minibroker"
_DEBIAN: Final = {"3.13": "trixie"}
"""The release of Debian that has a release of Python."""
_LEFT_OUT: Final = ("man", "doc", "locale", "info", "lintian", "groff")
"""The folders of /usr/share that Debian's own slim images, which python:slim is made from, leave out."""
_START_INTERVAL: Final = re.compile(r"--start-interval=([\d.]+)s ")
"""A flag that buildah refuses before its release 1.34; what it sets is added to the archive."""
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


def missing() -> str | None:
    """Return what is missing for a build, or None if an image can be built."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)} missing; Debian has both as packages"
    return None if os.geteuid() == 0 else "only root may make the chroots of a build"


def main(folder: str = "build/image") -> int:
    """Build the image into a folder, and return the exit status."""
    problem = missing()
    if problem is not None:
        print(f"make image: {problem}", file=sys.stderr)  # noqa: T201 - for whoever builds
        return 1
    print("make image: this takes two minutes or more", flush=True)  # noqa: T201 - as above
    archive = build(ROOT / folder) / ARCHIVE
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")  # noqa: T201 - as above
    return 0


def build(target: Path) -> Path:
    """Build the image into a folder, and return the folder.

    Raises:
        subprocess.CalledProcessError: a step of the build fails.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as place:
        store = Path(place)
        _base(store)
        binds = [
            "--volume",
            f"{_CERTIFICATES}:{_CERTIFICATES}:ro",
            "--volume",
            f"{_pip_config(store)}:/etc/pip.conf:ro",
        ]
        text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
        dockerfile = store / "Dockerfile"
        dockerfile.write_text(_START_INTERVAL.sub("", text), encoding="utf-8")
        _buildah(
            store, "build", "--pull-never", "--isolation", "chroot", *binds, "--format", "docker",
            "--file", str(dockerfile), "--tag", "minibroker:latest", str(ROOT),
        )  # fmt: skip
        pushed, archive = store / "pushed.tar", store / ARCHIVE.removesuffix(".gz")
        _buildah(store, "push", "--quiet", "minibroker:latest", f"docker-archive:{pushed}:minibroker:latest")
        (flag,) = _START_INTERVAL.findall(text)
        (target / "id").write_text(_add_start_interval(pushed, archive, float(flag)), encoding="utf-8")
        subprocess.run(["gzip", "-9", str(archive)], check=True)
        (store / ARCHIVE).rename(target / ARCHIVE)
    (target / "fingerprint").write_text(fingerprint(), encoding="utf-8")
    return target


def _buildah(store: Path, *arguments: str) -> str:
    """Run buildah with a store of its own, and return its output."""
    command = ["buildah", "--root", str(store / "store"), "--runroot", str(store / "run"), "--storage-driver", "vfs"]
    completed = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if completed.returncode:
        sys.stderr.write(completed.stdout[-4000:] + completed.stderr[-4000:])
        completed.check_returncode()
    return completed.stdout.strip()


def _base(store: Path) -> None:
    """Create the Dockerfile's base image in the store, under the name that the Dockerfile uses."""
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    match = re.search(r"^ARG PYTHON_VERSION=(\S+)", text, re.MULTILINE)
    assert match is not None
    release = _DEBIAN[match[1]]
    archive = _CACHE / f"python-{match[1]}-{release}-slim.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(f".{os.getpid()}.tar")
        packages = "python3,python3-venv,ca-certificates"
        clean = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
        link = '--customize-hook=ln -s /usr/bin/python3 "$1/usr/local/bin/python"'
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}", *clean, link, release,
             str(unfinished), "http://deb.debian.org/debian"],
            check=True,
        )  # fmt: skip
        unfinished.rename(archive)
    context = store / "base"
    context.mkdir()
    os.symlink(archive, context / "link")
    shutil.copyfile(archive, context / "base.tar")
    (context / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n", encoding="utf-8")
    tag = f"docker.io/library/python:{match[1]}-slim"
    _buildah(store, "build", "--isolation", "chroot", "--tag", tag, str(context))


def _pip_config(store: Path) -> Path:
    """Make the build's pip trust the certificates that this machine trusts."""
    path = store / "pip.conf"
    path.write_text(f"[global]\ncert = {_CERTIFICATES}\n", encoding="utf-8")
    return path


def _add_start_interval(source: Path, target: Path, seconds: float) -> str:
    """Copy an archive, and set the start interval of its health check. Return the image's id, as an engine shows it."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        parts = {member.name: old.extractfile(member) for member in old.getmembers()}
        manifest = json.loads(_read(parts.pop("manifest.json")))
        config = json.loads(_read(parts.pop(manifest[0]["Config"])))
        del parts["repositories"]  # the names again, with another host
        config["config"]["Healthcheck"]["StartInterval"] = int(seconds * 1e9)
        content = json.dumps(config).encode()
        digest = hashlib.sha256(content).hexdigest()
        manifest[0] |= {"Config": f"{digest}.json", "RepoTags": ["minibroker:latest"]}
        for name, part in parts.items():
            new.addfile(old.getmember(name), part)
        for name, data in ((f"{digest}.json", content), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return f"sha256:{digest}"


def _read(part: IO[bytes] | None) -> bytes:
    assert part is not None
    return part.read()


def fingerprint() -> str:
    """Return a digest of all files in the image, which shows whether an existing image is up to date."""
    found = hashlib.sha256()
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in (*kept, "docker/Dockerfile"):
        path = ROOT / name
        for file in sorted(each for each in (path.rglob("*") if path.is_dir() else [path]) if each.is_file()):
            if "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(ROOT)} {file.stat().st_mode}\n".encode() + file.read_bytes())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
