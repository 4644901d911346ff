"""Make a release: commit and tag it, and build its files into dist/. Nothing is pushed, uploaded or published.

    python tools/release.py 0.1.0 --repository owner/name    # what `make release VERSION=0.1.0` does
    python tools/release.py --files                          # only the files, of the release that is checked out

The release is made in a clone in a temporary folder. The commit comes back, and the tag is set, only after every file
was built and checked: until then nothing here has changed. The second form is what CI runs for a tag: its files are the
same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from pathlib import Path
from typing import Any

from packaging.metadata import Metadata
from packaging.version import InvalidVersion, Version

PROJECT = Path(__file__).resolve().parent.parent
GIT = shutil.which("git") or "git"
TEMPLATES = "tools/release"
VERSION_LINE = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## \[|^\[|\Z)", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([^\s;]+)(?: ; ([^\\\n]+?))? *((?:\\\n +--hash=\S+ *)*)$", re.MULTILINE)
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[:/](.+?/.+?)(?:\.git)?/?")

NEXT_STEPS = """
Release {version} is on {branch}, on this machine alone. Look at it with git show v{version}, then publish it:

    git push --atomic https://github.com/{repository} {branch} v{version}

The tag starts .github/workflows/release.yml, which publishes to PyPI, GitHub and its container registry. Then, with the
files of the release on GitHub: mcp-publisher publish server.json, and memsync.rb into the Formula folder of your tap.

To take it back before the push: git tag -d v{version} && git reset --keep HEAD^ && rm -r dist"""


class Refused(Exception):
    """The release cannot be made; the message says why, and what to do."""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run([GIT, "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"git {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def read_config(folder: Path, name: str) -> str:
    """Return a value of git's configuration; empty if there is none."""
    command = [GIT, "-C", str(folder), "config", name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def replace_once(text: str, pattern: str, new: str, name: str) -> str:
    """Replace the only match of `pattern`. A text without exactly one is not what this script was written for."""
    changed, count = re.subn(pattern, lambda _: new, text, flags=re.MULTILINE)
    if count != 1:
        raise Refused(f"{name}: expected one line that matches {pattern}, found {count}")
    return changed


# What a release needs


def read_version(source: Path) -> str:
    match = VERSION_LINE.search((source / "memsync/__init__.py").read_text())
    if not match:
        raise Refused('memsync/__init__.py has no line __version__ = "…"')
    return match[1]


def read_unreleased(source: Path) -> str:
    """Return the text of the changelog's Unreleased section. An empty one, or one of headings alone, is refused."""
    match = UNRELEASED.search((source / "CHANGELOG.md").read_text())
    if not match:
        raise Refused("CHANGELOG.md has no section ## [Unreleased]")
    if not any(line.strip() and not line.startswith("#") for line in match[1].splitlines()):
        raise Refused(
            "CHANGELOG.md: the section Unreleased is empty. Write what changed for users, then run this again"
        )
    return match[1].strip("\n")


def check_version(version: str, source: Path) -> None:
    """Refuse a version that is not in the form of PEP 440, or not newer than what was released."""
    try:
        wanted = Version(version)
    except InvalidVersion:
        raise Refused(f"{version} is no version in the form of PEP 440, such as 0.1.0 or 1.0.0rc1") from None
    if str(wanted) != version or wanted.local:
        raise Refused(f"write the version as {wanted.public}")
    tags = git(source, "tag", "--list", "v*").split()
    if f"v{version}" in tags:
        raise Refused(f"the tag v{version} exists already. Choose a newer version")
    released = [Version(tag[1:]) for tag in tags if re.match(r"v\d", tag) and _is_version(tag[1:])]
    if released and wanted <= max(released):
        raise Refused(f"{version} is not newer than {max(released)}, the newest tag")
    if wanted < Version(read_version(source)):
        raise Refused(f"{version} is older than {read_version(source)} in memsync/__init__.py")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def find_repository(source: Path, given: str | None) -> str:
    """Return owner/name on GitHub: as given, or as git's origin has it."""
    if not given:
        address = read_config(source, "remote.origin.url")
        if not (match := GITHUB.fullmatch(address)):
            origin = f"git's origin is {address}" if address else "git has no origin"
            raise Refused(f"{origin}, which names no repository on GitHub. Run: make release … REPOSITORY=owner/name")
        given = match[1]
    if not REPOSITORY.fullmatch(given):
        raise Refused(f"{given} is no repository in the form owner/name")
    return given


# What the commit of a release changes


def write_release(clone: Path, version: str, repository: str, day: str) -> None:
    """Set the version, and name the repository, in every file that says them."""

    def edit(name: str, pattern: str, new: str) -> None:
        file = clone / name
        file.write_text(replace_once(file.read_text(), pattern, new, name))

    home = f"https://github.com/{repository}"
    edit("memsync/__init__.py", VERSION_LINE.pattern, f'__version__ = "{version}"')
    edit("CHANGELOG.md", r"^## \[Unreleased\]$", f"## [Unreleased]\n\n## [{version}] - {day}")
    changelog = (clone / "CHANGELOG.md").read_text()
    links = {link[0]: link[1] for link in re.findall(r"^\[(.+?)\]: (.+)$", changelog, re.MULTILINE)}
    links |= {"Unreleased": f"{home}/compare/v{version}...HEAD", version: f"{home}/releases/tag/v{version}"}
    text = re.sub(r"^\[.+?\]: .+\n?", "", changelog, flags=re.MULTILINE).rstrip("\n")
    listed = "".join(f"[{name}]: {address}\n" for name, address in links.items())
    (clone / "CHANGELOG.md").write_text(f"{text}\n\n{listed}")

    urls = {"Homepage": home, "Changelog": f"{home}/blob/main/CHANGELOG.md", "Issues": f"{home}/issues"}
    table = "[project.urls]\n" + "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    text = re.sub(r"^\[project\.urls\]\n(?:\w.*\n)*\n", "", (clone / "pyproject.toml").read_text(), flags=re.MULTILINE)
    (clone / "pyproject.toml").write_text(text)
    edit("pyproject.toml", r"^\[project\.scripts\]$", f"{table}\n[project.scripts]")

    edit("CITATION.cff", r"^version: .*$", f"version: {version}")
    cff = re.sub(
        r"^(?:date-released|repository-code): .*\n", "", (clone / "CITATION.cff").read_text(), flags=re.MULTILINE
    )
    (clone / "CITATION.cff").write_text(f"{cff}date-released: {day}\nrepository-code: {home}\n")

    # The registry of MCP servers compares this line, in the README on PyPI, with the name in server.json.
    readme = re.sub(r"\n*<!-- mcp-name: .* -->\n", "\n", (clone / "README.md").read_text())
    (clone / "README.md").write_text(f"{readme}\n<!-- mcp-name: {server_name(repository)} -->\n")
    write_plugins(clone)


def write_plugins(clone: Path) -> None:
    """Write the plugins of agents anew, which have the version."""
    command = [sys.executable, "-P", "tools/integrations.py"]
    environ = {**os.environ, "PYTHONPATH": str(clone)}
    done = subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"tools/integrations.py failed:\n{done.stderr}")


def server_name(repository: str) -> str:
    return f"io.github.{repository.split('/')[0]}/memsync"


# The files of a release


def make_files(source: Path, repository: str, folder: Path) -> None:
    """Build and check all files of the release that `source` has checked out."""
    version, commit = read_version(source), git(source, "rev-parse", "HEAD")
    committed = int(git(source, "show", "--no-patch", "--format=%ct", "HEAD"))
    wheel, sdist = build(source, folder, committed)
    check_wheel(wheel, version, commit)
    values = {
        "version": version,
        "repository": repository,
        "server_name": server_name(repository),
        "sdist_sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
    }
    for name in ("memsync.rb", "server.json"):
        (folder / name).write_text(fill((source / TEMPLATES / name).read_text(), values))
    json.loads((folder / "server.json").read_text())
    bill = list_components(source, version, commit, committed)
    (folder / f"memsync-{version}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n")
    shutil.copyfile(source / "requirements.txt", folder / "requirements.txt")
    (folder / "release-notes.md").write_text(read_notes(source, version))
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def build(source: Path, folder: Path, committed: int) -> tuple[Path, Path]:
    """Return the wheel and the sdist. Equal commits give equal bytes: no time but the commit's is in them."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(committed)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"the build failed:\n{done.stdout}{done.stderr}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def check_wheel(wheel: Path, version: str, commit: str) -> None:
    """Compare the metadata with the version, and run the command, which names version and commit."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        metadata = Metadata.from_email(archive.read(f"memsync-{version}.dist-info/METADATA"), validate=True)
        if metadata.version != Version(version):
            raise Refused(f"the wheel has the version {metadata.version} instead of {version}")
        archive.extractall(folder)
        environ = {**os.environ, "PYTHONPATH": folder}
        command = [sys.executable, "-P", "-m", "memsync", "--version"]
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if (said := done.stdout.strip()) != f"memsync, version {version}, commit {commit[:12]}":
        raise Refused(f"the built command says: {said or done.stderr}")


def fill(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    if left := re.findall(r"\{\{\w+\}\}", template):
        raise Refused(f"a template has the unknown field {left[0]}")
    return template


def read_notes(source: Path, version: str) -> str:
    """Return the changelog's section about `version`."""
    section = re.compile(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|^\[.+\]: |\Z)", re.MULTILINE | re.DOTALL)
    match = section.search((source / "CHANGELOG.md").read_text())
    if not match:
        raise Refused(f"CHANGELOG.md has no section ## [{version}]")
    return match[1].strip("\n") + "\n"


# The bill of materials


def read_pins(source: Path) -> list[tuple[str, str, str, list[str]]]:
    """Return name, version, marker and SHA-256 digests of each package in requirements.txt."""
    found = PIN.findall((source / "requirements.txt").read_text())
    return [
        (name, version, marker, re.findall(r"sha256:([0-9a-f]{64})", hashes)) for name, version, marker, hashes in found
    ]


def list_components(source: Path, version: str, commit: str, committed: int) -> dict[str, Any]:
    """Return the bill of materials in CycloneDX 1.6: memsync, the locked packages, and the built-in model."""
    purl = f"pkg:pypi/memsync@{version}"
    moment = datetime.datetime.fromtimestamp(committed, datetime.UTC).isoformat().replace("+00:00", "Z")
    licence = [{"license": {"id": "Apache-2.0"}}]
    model = model_component(source, licence)
    packages = [package_component(*pin) for pin in read_pins(source)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{purl}?commit={commit}").urn,
        "version": 1,
        "metadata": {
            "timestamp": moment,
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": "memsync",
                "version": version,
                "purl": purl,
                "licenses": licence,
            },
        },
        "components": [*packages, model],
        "dependencies": [{"ref": purl, "dependsOn": [each["bom-ref"] for each in [*packages, model]]}],
    }


def package_component(name: str, version: str, marker: str, digests: list[str]) -> dict[str, Any]:
    """Describe a package. Its digests are of all its wheels, so they belong to where these are, not to the package."""
    component = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{name}/{version}/#files",
                "comment": "one SHA-256 for each wheel",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
            }
        ],
    }
    return component | ({"properties": [{"name": "memsync:marker", "value": marker}]} if marker else {})


def model_component(source: Path, licence: list[dict[str, Any]]) -> dict[str, Any]:
    weights = source / "memsync/embed/minilm/model.onnx"
    return {
        "type": "machine-learning-model",
        "bom-ref": "built-in-model",
        "name": "sentence-transformers/all-MiniLM-L6-v2",
        "description": "The built-in model, quantised to int8; see memsync/embed/minilm/PROVENANCE.md",
        "licenses": licence,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(weights.read_bytes()).hexdigest()}],
        "externalReferences": [
            {"type": "website", "url": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"}
        ],
    }


# The release


def release(source: Path, version: str, given_repository: str | None) -> None:
    """Commit, tag and build. A failure before the end leaves branch, tags, working tree and dist/ as they were."""
    if git(source, "status", "--porcelain"):
        raise Refused("the working tree has changes. Commit or remove them, then run this again")
    branch = git(source, "rev-parse", "--abbrev-ref", "HEAD")
    if branch == "HEAD":
        raise Refused("no branch is checked out. Run: git switch main")
    check_version(version, source)
    read_unreleased(source)
    repository = find_repository(source, given_repository)
    author = {name: read_config(source, name) for name in ("user.name", "user.email")}
    for name, value in author.items():
        if not value:
            raise Refused(f"git has no {name}, which a commit needs. Run: git config {name} …")
    dist = source / "dist"
    if dist.exists() and any(dist.iterdir()):
        raise Refused("dist/ has files already. Remove them, then run this again")
    with tempfile.TemporaryDirectory() as folder:
        clone, files = Path(folder, "memsync"), Path(folder, "dist")
        git(source, "clone", "--quiet", "--shared", str(source), str(clone))
        for name, value in author.items():
            git(clone, "config", name, value)
        write_release(clone, version, repository, datetime.datetime.now(datetime.UTC).date().isoformat())
        git(clone, "commit", "--quiet", "--all", "--message", f"Release {version}")
        files.mkdir()
        make_files(clone, repository, files)
        git(source, "fetch", "--quiet", str(clone), "HEAD")
        keep(source, files, f"v{version}", git(clone, "rev-parse", "HEAD"))
    print((dist / "SHA256SUMS").read_text(), end="")
    print(NEXT_STEPS.format(version=version, branch=branch, repository=repository))


def keep(source: Path, files: Path, tag: str, commit: str) -> None:
    """Put the files into dist/, tag the commit and move the branch to it: all three, or none."""
    dist = source / "dist"
    try:
        shutil.copytree(files, dist, dirs_exist_ok=True)
        git(source, "tag", "--annotate", tag, "--message", f"memsync {tag[1:]}", commit)
        try:
            git(source, "merge", "--quiet", "--ff-only", commit)
        except Refused:
            git(source, "tag", "--delete", tag)
            raise
    except (Refused, OSError) as error:  # of shutil, too: a full disk
        shutil.rmtree(dist, ignore_errors=True)
        raise error if isinstance(error, Refused) else Refused(f"dist/ cannot be written: {error}") from error


def make_files_of_tag(source: Path, given_repository: str | None, folder: Path) -> None:
    """Write the files of the release that is checked out. Its commit must have the tag of its version."""
    tag = f"v{read_version(source)}"
    if tag not in git(source, "tag", "--points-at", "HEAD").split():
        raise Refused(f"the commit that is checked out has no tag {tag}")
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Refused(f"{folder} has files already. Remove them, then run this again")
    make_files(source, find_repository(source, given_repository), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="version of the release, such as 0.1.0")
    parser.add_argument("--repository", help="owner/name on GitHub [default: git's origin]")
    parser.add_argument("--files", action="store_true", help="only write the files of the release that is checked out")
    parser.add_argument("--into", type=Path, default=PROJECT / "dist", help="folder of --files [default: dist]")
    chosen = parser.parse_args()
    if bool(chosen.version) == chosen.files:
        parser.error("name a version, or give --files")
    try:
        if chosen.files:
            make_files_of_tag(PROJECT, chosen.repository, chosen.into)
        else:
            release(PROJECT, chosen.version, chosen.repository)
    except Refused as refused:
        sys.exit(f"release: {refused}.")


if __name__ == "__main__":
    main()
