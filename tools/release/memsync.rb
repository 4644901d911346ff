class Memsync < Formula
  desc "Search Markdown notes by meaning and by word, for you and your agents"
  homepage "https://github.com/{{repository}}"
  url "https://github.com/{{repository}}/releases/download/v{{version}}/memsync-{{version}}.tar.gz"
  sha256 "{{sdist_sha256}}"
  license "Apache-2.0"

  depends_on "python@3.13"

  # The libraries in wheels have no room for the longer names that Homebrew would write into them.
  preserve_rpath

  # Homebrew asks for a resource for each package, built from source. Some packages have no source on PyPI
  # (onnxruntime) or need another compiler, so this installs the wheels that requirements.txt locks by their hashes.
  def install
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    pip = [libexec/"bin/python", "-m", "pip", "install", "--no-deps"]
    system(*pip, "--require-hashes", "--requirement", buildpath/"requirements.txt")
    system(*pip, "--no-index", "--no-build-isolation", buildpath)
    bin.install_symlink libexec/"bin/memsync"
  end

  test do
    (testpath/"notes").mkpath
    (testpath/"notes/birds.md").write "The heron nests in the reeds.\n"
    system bin/"memsync", "init", testpath/"notes"
    assert_match "birds.md", shell_output("#{bin}/memsync --root #{testpath}/notes search heron")
  end
end
