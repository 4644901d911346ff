"""`make release` in a clone, without network: what it changes, what it refuses, and whether its files are valid.

A check whose program is not installed is skipped. The group `release` of pyproject.toml names them, and CI installs it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.conftest import PROJECT
from tests.project.test_lock_files import pins

pytestmark = pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="needs a checkout of git")
VERSION = "9.1.0"
REPOSITORY = "ada/memsync"
MODEL = "memsync/embed/minilm/model.onnx"
FORMS = sorted(path for path in (PROJECT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")

# What memsync's entry says, and the limits of the registry's schema of 2025-12-11.
SERVER = {
    "type": "object",
    "required": ["$schema", "name", "title", "description", "version", "repository", "packages"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "maxLength": 200, "pattern": "^io\\.github\\.[a-zA-Z0-9-]+/memsync$"},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"const": VERSION},
        "repository": {"required": ["url", "source"], "properties": {"source": {"const": "github"}}},
        "packages": {
            "minItems": 1,
            "items": {
                "required": ["registryType", "identifier", "version", "transport"],
                "properties": {
                    "registryType": {"const": "pypi"},
                    "identifier": {"const": "memsync"},
                    "version": {"const": VERSION},
                    "runtimeHint": {"const": "uvx"},
                    "transport": {"const": {"type": "stdio"}},
                    "packageArguments": {"const": [{"type": "positional", "value": "mcp"}]},
                },
            },
        },
    },
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/release.py", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=120, check=False)


def state(clone: Path) -> tuple[str, str, str, bool]:
    """Return what a refused or failed release must leave as it was."""
    status = git(clone, "status", "--porcelain", "--ignored")
    return git(clone, "rev-parse", "HEAD"), git(clone, "tag"), status, (clone / "dist").exists()


def write(clone: Path, name: str, text: str) -> None:
    (clone / name).write_text(text)
    git(clone, "commit", "-qam", name)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with what a release reads, and a model of a few bytes, so that the build is quick."""
    source = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith(("tests/", "memory-files/", "benchmarks/")) and (PROJECT / name).is_file():
            (place := source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, place)
    (source / MODEL).write_bytes(b"weights")
    git(source, "init", "-qb", "main")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "x")
    return source


@pytest.fixture
def clone(checkout: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", str(checkout), "clone")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org"), ("core.hooksPath", "/dev/null")):
        git(tmp_path / "clone", "config", name, value)
    return tmp_path / "clone"


@pytest.fixture(scope="session")
def released(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone in which a release was made. Tests only read it."""
    folder = tmp_path_factory.mktemp("released")
    git(folder, "clone", "-q", str(checkout), "clone")
    clone = folder / "clone"
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org"), ("core.hooksPath", "/dev/null")):
        git(clone, "config", name, value)
    done = make_release(clone, VERSION, "--repository", REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"git push --atomic https://github.com/{REPOSITORY} main v{VERSION}" in done.stdout
    return clone


def file_of(released: Path, pattern: str) -> Path:
    (file,) = (released / "dist").glob(pattern)
    return file


# What a release changes


def test_release_is_one_commit_with_an_annotated_tag(released: Path) -> None:
    """Nothing else changed, and the clone is clean afterwards."""
    assert git(released, "log", "-1", "--format=%s %an") == f"Release {VERSION} Ada"
    assert git(released, "rev-list", "--count", "origin/main..HEAD") == "1"
    assert git(released, "cat-file", "-t", f"v{VERSION}") == "tag"
    assert git(released, "rev-parse", f"v{VERSION}^{{commit}}") == git(released, "rev-parse", "HEAD")
    assert git(released, "status", "--porcelain") == ""
    changed = git(released, "diff", "--name-only", "HEAD~1").split()
    others = [name for name in changed if not name.startswith("integrations/")]
    assert others == ["CHANGELOG.md", "CITATION.cff", "README.md", "memsync/__init__.py", "pyproject.toml"]


def test_version_and_changelog_are_turned(released: Path) -> None:
    """What was under Unreleased is under the version with its day; links lead to the repository."""
    before = (PROJECT / "CHANGELOG.md").read_text().partition("## [Unreleased]\n")[2].split("\n## [")[0]
    day = git(released, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d")
    changelog = (released / "CHANGELOG.md").read_text()
    heading = re.search(rf"^## \[Unreleased\]\n\n## \[{VERSION}\] - (\d{{4}}-\d\d-\d\d)\n", changelog, re.MULTILINE)
    assert heading and heading[1][:4] == day[:4]
    assert before.strip() in changelog[heading.end() :]
    assert f"[{VERSION}]: https://github.com/{REPOSITORY}/releases/tag/v{VERSION}" in changelog
    assert f'__version__ = "{VERSION}"' in (released / "memsync/__init__.py").read_text()
    urls = tomllib.loads((released / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Homepage"] == f"https://github.com/{REPOSITORY}"
    assert yaml.safe_load((released / "CITATION.cff").read_text())["version"] == VERSION
    assert "<!-- mcp-name: io.github.ada/memsync -->" in (released / "README.md").read_text()


def test_next_release_needs_new_changes_and_changes_each_place_once(released: Path, tmp_path: Path) -> None:
    """A second release finds links, addresses and the registry's line of the first one, and replaces them."""
    git(tmp_path, "clone", "-q", str(released), "clone")
    clone = tmp_path / "clone"
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        git(clone, "config", name, value)
    assert "Unreleased is empty" in make_release(clone, "9.2.0", "--repository", REPOSITORY).stderr
    changelog = (clone / "CHANGELOG.md").read_text()
    write(clone, "CHANGELOG.md", changelog.replace("[Unreleased]\n", "[Unreleased]\n\n### Fixed\n\n- A fault.\n", 1))
    assert make_release(clone, "9.2.0", "--repository", "bob/memsync").returncode == 0
    assert (clone / "dist/release-notes.md").read_text() == "### Fixed\n\n- A fault.\n"
    plugins = [
        path for path in (clone / "integrations").rglob("*.json") if path.name not in (".mcp.json", "hooks.json")
    ]
    assert [json.loads(path.read_text())["version"] for path in plugins] == ["9.2.0"] * 6
    assert git(clone, "status", "--porcelain") == ""
    for name, text, count in (
        ("README.md", "mcp-name: io.github.bob/memsync", 1),
        ("README.md", "mcp-name", 1),
        ("pyproject.toml", "[project.urls]", 1),
        ("CHANGELOG.md", "[Unreleased]: https://github.com/bob/memsync/compare/v9.2.0...HEAD", 1),
        ("CHANGELOG.md", f"\n[{VERSION}]: https://github.com/ada", 1),
        ("CITATION.cff", "date-released", 1),
    ):
        assert ((clone / name).read_text().count(text), name) == (count, name)


# What is refused


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.2.x", "no version in the form of PEP 440"),
        ("9.01", "write the version as 9.1"),
        ("9.1.0+local", "write the version as 9.1.0"),
        ("0.0.1", "0.0.1 is older than"),
        ("8.0.0", "8.0.0 is not newer than 9.0.0"),
        ("9.0.0", "the tag v9.0.0 exists already"),
    ],
)
def test_version_that_is_wrong_or_not_newer_is_refused(clone: Path, version: str, said: str) -> None:
    """Compared with the tags, and with the version that the code has."""
    if version != "0.0.1":
        git(clone, "tag", "v9.0.0")
    before = state(clone)
    done = make_release(clone, version, "--repository", REPOSITORY)
    assert said in done.stderr and done.returncode == 1
    assert state(clone) == before


@pytest.mark.parametrize("section", ["", "\n### Added\n\n### Fixed\n"])
def test_empty_section_is_refused(clone: Path, section: str) -> None:
    """Headings alone say nothing to users."""
    write(clone, "CHANGELOG.md", f"# Changelog\n\n## [Unreleased]\n{section}\n## [0.0.1] - 2020-01-01\n\n- Old.\n")
    before = state(clone)
    assert "the section Unreleased is empty" in make_release(clone, VERSION, "--repository", REPOSITORY).stderr
    assert state(clone) == before


@pytest.mark.parametrize("name", ["README.md", "new.txt"])
def test_changed_tree_is_refused(clone: Path, name: str) -> None:
    """A file that git does not know counts, too: it could be missing from the release."""
    (clone / name).write_text("changed\n")
    before = state(clone)
    assert "the working tree has changes" in make_release(clone, VERSION, "--repository", REPOSITORY).stderr
    assert state(clone) == before


def test_repository_comes_from_origin_or_must_be_named(clone: Path) -> None:
    """A folder is no repository on GitHub, and no origin is none at all."""
    module = load_release()
    assert (
        "names no repository on GitHub. Run: make release … REPOSITORY=owner/name"
        in make_release(clone, VERSION).stderr
    )
    assert "form owner/name" in make_release(clone, VERSION, "--repository", "ada").stderr
    for address in ("https://github.com/ada/notes.git", "git@github.com:ada/notes.git", "https://github.com/ada/notes"):
        git(clone, "remote", "set-url", "origin", address)
        assert module.find_repository(clone, None) == "ada/notes"
    git(clone, "remote", "remove", "origin")
    assert "git has no origin" in make_release(clone, VERSION).stderr


def test_commit_without_an_author_is_refused(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is built."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    git(clone, "config", "--unset", "user.email")
    assert "git has no user.email" in make_release(clone, VERSION, "--repository", REPOSITORY).stderr


def load_release() -> Any:
    spec = importlib.util.spec_from_file_location("release", PROJECT / "tools/release.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("tools/build_hook.py", "class CommitHook", "raise OSError('no')\nclass CommitHook", "the build failed"),
        ("memsync/__main__.py", "from memsync", "raise OSError('no')\nfrom memsync", "the built command says"),
        ("tools/release/memsync.rb", "{{version}}", "{{unknown}}", "the unknown field {{unknown}}"),
        ("CITATION.cff", "version: ", "Version: ", "CITATION.cff: expected one line"),
    ],
)
def test_failure_at_any_step_changes_nothing(clone: Path, name: str, old: str, new: str, said: str) -> None:
    """Neither branch nor tag, tree or dist/: the commit is made elsewhere, and comes back last."""
    text = (clone / name).read_text()
    assert old in text
    write(clone, name, text.replace(old, new))
    before = state(clone)
    done = make_release(clone, VERSION, "--repository", REPOSITORY)
    assert said in done.stderr and done.returncode == 1
    assert state(clone) == before


def test_branch_that_moves_during_the_build_gets_no_release(clone: Path) -> None:
    """The last step is all or nothing: without the branch there is no tag and no dist/."""
    module, other = load_release(), git(clone, "rev-parse", "HEAD")
    git(clone, "commit", "-q", "--allow-empty", "-m", "release")
    commit = git(clone, "rev-parse", "HEAD")
    git(clone, "reset", "-q", "--hard", other)
    git(clone, "commit", "-q", "--allow-empty", "-m", "another")
    before = state(clone)
    (files := clone.parent / "files").mkdir()
    with pytest.raises(module.Refused, match="git merge failed"):
        module.keep(clone, files, f"v{VERSION}", commit)
    assert state(clone) == before


def test_full_disk_leaves_no_half_of_dist(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the tag nor a file stays."""
    module, before = load_release(), state(clone)
    (files := clone.parent / "files").mkdir()
    for name in ("a", "b"):
        (files / name).write_text("x")

    def copied(source: Path, target: Path, **_: Any) -> None:
        target.mkdir()
        (target / "a").write_text("x")
        raise shutil.Error([(str(source), str(target), "No space left on device")])

    monkeypatch.setattr(module.shutil, "copytree", copied)
    with pytest.raises(module.Refused, match=r"dist/ cannot be written.*No space left"):
        module.keep(clone, files, f"v{VERSION}", git(clone, "rev-parse", "HEAD"))
    assert state(clone) == before


def test_nothing_is_pushed_or_published() -> None:
    """The script runs git and the build; no command of it reaches another machine."""
    text = (PROJECT / "tools/release.py").read_text()
    commands = set(re.findall(r'git\((?:source|clone), "([a-z-]+)"', text))
    assert commands == {"status", "rev-parse", "tag", "show", "clone", "config", "commit", "fetch", "merge"}
    assert not re.search(r"urllib|http\.client|twine|requests\b", text.replace("requirements", ""))


# The files


def test_checksums_are_right_and_complete(released: Path) -> None:
    """Each file of dist/ but the list itself."""
    lines = (released / "dist/SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.name: path for path in (released / "dist").iterdir() if path.name != "SHA256SUMS"}
    assert listed == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def test_files_of_the_tag_are_the_same_bytes(released: Path, tmp_path: Path) -> None:
    """What CI builds of the tag is what `make release` built. Another commit has no files of a release."""
    git(tmp_path, "clone", "-q", str(released), "clone")
    made = make_release(tmp_path / "clone", "--files", "--repository", REPOSITORY, "--into", str(tmp_path / "files"))
    assert (made.returncode, made.stderr) == (0, "")
    names = sorted(path.name for path in (released / "dist").iterdir())
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == names
    for name in names:
        assert (tmp_path / "files" / name).read_bytes() == (released / "dist" / name).read_bytes()
    git(tmp_path / "clone", "tag", "-d", f"v{VERSION}")
    refused = make_release(tmp_path / "clone", "--files", "--repository", REPOSITORY, "--into", str(tmp_path / "no"))
    assert f"has no tag v{VERSION}" in refused.stderr


def test_wheel_and_sdist_carry_what_installers_read(released: Path) -> None:
    """Version, addresses and licences; the formula installs what the sdist's lock file names."""
    with zipfile.ZipFile(file_of(released, "*.whl")) as wheel:
        metadata = wheel.read(f"memsync-{VERSION}.dist-info/METADATA").decode()
        names = wheel.namelist()
    assert f"Project-URL: Homepage, https://github.com/{REPOSITORY}" in metadata
    assert "mcp-name: io.github.ada/memsync" in metadata
    assert any(name.endswith("licenses/memsync/embed/minilm/LICENSE") for name in names)
    with tarfile.open(file_of(released, "*.tar.gz")) as sdist:
        assert f"memsync-{VERSION}/requirements.txt" in sdist.getnames()


def test_bill_of_materials_lists_each_locked_package_and_the_model(released: Path) -> None:
    """With all digests of the lock file, and the licence of the model."""
    bill = json.loads(file_of(released, "*.cdx.json").read_text())
    packages = [each for each in bill["components"] if each["type"] == "library"]
    locked = [(name, version) for name, versions in pins("requirements.txt").items() for version in versions]
    assert sorted((each["name"], each["version"]) for each in packages) == sorted(locked)
    digests = [hashed["content"] for each in packages for hashed in each["externalReferences"][0]["hashes"]]
    assert sorted(digests) == sorted(re.findall(r"sha256:(\w+)", (PROJECT / "requirements.txt").read_text()))
    (model,) = [each for each in bill["components"] if each["type"] == "machine-learning-model"]
    assert model["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    digest = hashlib.sha256((released / MODEL).read_bytes()).hexdigest()
    assert model["hashes"] == [{"alg": "SHA-256", "content": digest}]
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len(refs) == len(set(refs)) and bill["dependencies"][0]["dependsOn"] == refs


def test_bill_of_materials_keeps_to_its_schema(released: Path) -> None:
    """The schema comes with cyclonedx-python-lib[validation]."""
    schemas = pytest.importorskip("cyclonedx.validation.json", reason="cyclonedx-python-lib[validation] is missing")
    from cyclonedx.schema import SchemaVersion  # type: ignore[import-not-found, unused-ignore]

    validator = schemas.JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(file_of(released, "*.cdx.json").read_text()) is None


def test_entry_for_the_registry_of_mcp_servers(released: Path) -> None:
    """Within the registry's limits; the release workflow compares it with the registry's own schema."""
    entry = json.loads((released / "dist/server.json").read_text())
    jsonschema.validate(entry, SERVER)
    assert f"<!-- mcp-name: {entry['name']} -->" in (released / "README.md").read_text()


def test_formula_names_the_sdist_and_parses(released: Path) -> None:
    """Its address is the one of the release on GitHub, which has the file before any registry."""
    formula, sdist = (released / "dist/memsync.rb"), file_of(released, "*.tar.gz")
    text = formula.read_text()
    assert f'url "https://github.com/{REPOSITORY}/releases/download/v{VERSION}/{sdist.name}"' in text
    assert f'sha256 "{hashlib.sha256(sdist.read_bytes()).hexdigest()}"' in text
    if not (ruby := shutil.which("ruby")):
        pytest.skip("ruby is missing")
    subprocess.run([ruby, "-c", str(formula)], check=True, capture_output=True)


def test_metadata_passes_the_check_of_the_upload_tool(released: Path) -> None:
    """Including the README as PyPI renders it."""
    pytest.importorskip("twine", reason="twine is missing")
    files = [str(file_of(released, pattern)) for pattern in ("*.whl", "*.tar.gz")]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True, capture_output=True)


# Workflows, forms, citation, image


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", sorted((PROJECT / ".github/workflows").glob("*.yml"))),
        ("custom.github-workflows-require-timeout", sorted((PROJECT / ".github/workflows").glob("*.yml"))),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [PROJECT / ".github/ISSUE_TEMPLATE/config.yml"]),
        ("vendor.citation-file-format", [PROJECT / "CITATION.cff"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_for_github_keep_to_their_schemas(schema: str, files: list[Path]) -> None:
    """With the schemas that check-jsonschema brings, in this process: a process for each would take longer."""
    checker = pytest.importorskip("check_jsonschema", reason="check-jsonschema is missing")
    done = CliRunner().invoke(checker.main, ["--builtin-schema", schema, *map(str, files)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", sorted((PROJECT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflow_asks_for_no_more_than_it_needs(path: Path) -> None:
    """No right is for all jobs but reading; only PyPI's job may prove who it is; each action has a version."""
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] in ({}, {"contents": "read"})
    rights = {name: job.get("permissions", {}) for name, job in workflow["jobs"].items()}
    assert [name for name, right in rights.items() if "id-token" in right] == ["pypi"] * (path.stem == "release")
    assert [name for name, right in rights.items() if right.get("contents") == "write"] == (
        ["github"] * (path.stem == "release")
    )
    used = re.findall(r"uses: (\S+)", path.read_text())
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", each) for each in used)
    assert "${{ github.event" not in path.read_text(), "text of strangers in a script"
    for name in re.findall(r"[\w./-]+/[\w-]+\.(?:py|yml)|tools/release/Dockerfile", path.read_text()):
        assert (PROJECT / name).exists(), name


@pytest.mark.parametrize("path", sorted((PROJECT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_scripts_of_workflows_parse(path: Path) -> None:
    """By the shell that runs them."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    for script in [step["run"] for job in jobs for step in job["steps"] if "run" in step]:
        assert "${{" not in script, "a value goes into a script by a variable only"
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, capture_output=True)


def test_workflow_runs_every_python_that_the_package_supports() -> None:
    """On Linux and macOS, as the classifiers say."""
    matrix = yaml.safe_load((PROJECT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]["strategy"]["matrix"]
    classifiers = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [each.rpartition(" ")[2] for each in classifiers if re.search(r"Python :: 3\.\d", each)]
    assert (matrix["python"], matrix["os"]) == (versions, ["ubuntu-latest", "macos-latest"])


def test_image_copies_what_exists_and_runs_as_nobody_special() -> None:
    """The lock file and the wheel alone; a user of its own; paths of notes and state as the documentation says."""
    text = (PROJECT / "tools/release/Dockerfile").read_text()
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert 'VOLUME ["/notes", "/state"]' in text and "--require-hashes" in text
    allowed = (PROJECT / "tools/release/Dockerfile.dockerignore").read_text().split()
    copied = re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE)[0].split()
    assert allowed == ["*", *(f"!{name}" for name in copied)]
    for step in re.findall(r'CMD (\["python".*\])$', text, re.MULTILINE):
        compile(json.loads(step)[2], "healthcheck", "exec")
    if hadolint := shutil.which("hadolint"):
        subprocess.run([hadolint, str(PROJECT / "tools/release/Dockerfile")], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ".github/pull_request_template.md"])
def test_pages_for_contributors_name_what_exists(name: str) -> None:
    """Each file, each link and each target of make."""
    text = (PROJECT / name).read_text()
    named = re.findall(r"`((?:memsync|tests|tools|docs|\.github)/[\w./-]+)`", text.replace("NAME", "codex"))
    links = [target for target in re.findall(r"\]\(([^)#]+)", text) if not target.startswith("https:")]
    assert [place for place in (*named, *links) if not (PROJECT / place).exists()] == []
    targets = set(re.findall(r"^(\S+):", (PROJECT / "Makefile").read_text().replace("$(VENV)", ".venv"), re.MULTILINE))
    assert {word for words in re.findall(r"`make ([a-z./ -]+)`", text) for word in words.split()} <= targets
