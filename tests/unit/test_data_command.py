"""`companion data`: what is listed, what is found, and fetching from a server on this machine."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tiny_data
from companion.cli.app import app
from companion.study import Context, Study, Tables, downloads, find_exhibit, inputs, measurement
from reconrisk import datasets

IMAGES = "t10k-images-idx3-ubyte.gz"


class Server:
    """Serves ``files``, from the byte asked for if ``resumes``.

    ``cut`` closes connections half-way, ``stuck`` leaves them open there until ``released`` is set;
    ``asked`` lists the requests, ``starts`` their first bytes.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.stuck: set[str] = set()
        self.released = threading.Event()
        self.asked: list[str] = []
        self.starts: list[int] = []
        self.resumes = True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                outer.asked.append(name)
                if name not in outer.files:
                    self.send_error(404)
                    return
                start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
                start = start if outer.resumes else 0
                outer.starts.append(start)
                whole = len(outer.files[name])
                if start >= whole:
                    self.send_error(416)
                    return
                data = outer.files[name][start:]
                self.send_response(206 if start else 200)
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if name in outer.stuck:  # half of it, then nothing until the reader is gone
                    self.wfile.write(data[: len(data) // 2])
                    self.wfile.flush()
                    outer.released.wait(60)
                    return
                self.wfile.write(data[: len(data) // 2] if name in outer.cut else data)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/data/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of tiny files that are taken for MNIST's."""
    tiny_data.publish_mnist(monkeypatch)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    running = Server()
    running.files = {f"{k}.gz": tiny_data.packed(v) for k, v in tiny_data.mnist_files().items()}
    yield running
    running.close()


def run(*arguments: object):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def fetched(root: Path, server: Server, *more: str):
    return run("fetch", "MNIST", "--to", root, "--mirror", server.address, "--yes", *more)


def everything(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))


def test_a_set_is_fetched_whole_and_can_be_read(server: Server, tmp_path: Path):
    root = tmp_path / "new" / "data"
    done = fetched(root, server)
    assert done.exit_code == 0, done.output
    assert everything(root / "MNIST" / "raw") == sorted(server.files)
    assert len(datasets.classified("MNIST", root, "all")) == 17
    assert "CC BY-SA 3.0" in done.stderr and "4 files, 0.0 MB, from http://127" in done.stderr
    # again: verified and kept, nothing asked for
    server.asked.clear()
    assert "already, as published" in fetched(root, server).stdout and server.asked == []
    # one is missing: that one is fetched
    (root / "MNIST" / "raw" / IMAGES).unlink()
    assert fetched(root, server).exit_code == 0 and server.asked == [IMAGES]


def test_nothing_is_fetched_unasked(server: Server, tmp_path: Path):
    done = run("fetch", "MNIST", "--to", tmp_path, "--mirror", server.address)
    assert done.exit_code == 1 and "no terminal to ask on; --yes" in done.stderr
    assert server.asked == [] and everything(tmp_path) == []


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_asks(server: Server, tmp_path: Path, monkeypatch, answer, code):
    from companion.cli import data

    monkeypatch.setattr(data, "_on_terminal", lambda: True)
    arguments = ["data", "fetch", "MNIST", "--to", str(tmp_path), "--mirror", server.address]
    done = CliRunner().invoke(app, arguments, input=answer)
    assert done.exit_code == code and "Fetch? [y/N]" in done.stderr
    assert len(server.asked) == (4 if code == 0 else 0)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda server: server.files.pop(IMAGES), "404 Not Found"),
        (
            lambda server: server.files.update({IMAGES: b"x" * 10**6}),
            "found more than the expected",
        ),
        (
            lambda server: server.files.update({IMAGES: server.files[IMAGES][:-1] + b"x"}),
            "found md5 [0-9a-f]{32}, expected",
        ),
    ],
)
def test_a_wrong_answer_leaves_nothing_behind(server: Server, tmp_path: Path, spoil, said):
    root = tmp_path / "data"
    spoil(server)
    file = next(f for f in datasets.DATA_SETS["MNIST"].packed if f.path.endswith(IMAGES))
    with pytest.raises(downloads.DownloadError, match=f"{IMAGES} could not be fetched.*{said}"):
        downloads.fetch(file, root, (server.address,))
    assert not root.exists()
    done = fetched(root, server)
    assert done.exit_code == 1 and "could not be fetched" in done.stderr
    # the files before it are whole, and a second call fetches the rest
    kept = everything(root / "MNIST" / "raw")
    assert kept == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    server.files[IMAGES] = tiny_data.packed(tiny_data.mnist_files()[IMAGES[:-3]])
    server.asked.clear()
    assert fetched(root, server).exit_code == 0
    assert server.asked == [IMAGES, "t10k-labels-idx1-ubyte.gz"]


@pytest.mark.parametrize("resumes", [True, False])
def test_a_broken_download_is_resumed(server: Server, tmp_path: Path, resumes: bool):
    server.resumes = resumes
    server.cut.add(IMAGES)
    content = server.files[IMAGES]
    done = fetched(tmp_path, server)
    assert done.exit_code == 1 and "same command goes on" in done.stderr
    assert f"found {len(content) // 2:,} bytes, expected {len(content):,}" in done.stderr
    part = tmp_path / "MNIST" / "raw" / f".{IMAGES}.part"
    assert part.read_bytes() == content[: len(content) // 2]
    server.cut.clear()
    server.starts.clear()
    assert fetched(tmp_path, server).exit_code == 0
    assert server.starts[0] == (len(content) // 2 if resumes else 0)
    assert part.with_name(IMAGES).read_bytes() == content and not part.exists()


@pytest.mark.parametrize(
    ("kept", "starts"),
    [
        (lambda content: content, []),  # whole: only the name was missing
        (lambda content: b"x" * 10, [10, 0]),  # not the beginning of the file
        (lambda content: content + b"x", [None, 0]),  # too long: the server refuses
    ],
)
def test_a_part_that_is_none_is_fetched_anew(server: Server, tmp_path: Path, kept, starts):
    file = next(f for f in datasets.DATA_SETS["MNIST"].packed if f.path.endswith(IMAGES))
    content = server.files[IMAGES]
    part = tmp_path / Path(file.path).with_name(f".{IMAGES}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(kept(content))
    path = downloads.fetch(file, tmp_path, (server.address,))
    assert path.read_bytes() == content and everything(path.parent) == [IMAGES]
    assert server.starts == [len(content) + 1 if s is None else s for s in starts]


def test_the_next_address_is_tried(server: Server, tmp_path: Path):
    file = datasets.DATA_SETS["MNIST"].packed[0]
    seen: list[int] = []
    mirrors = ("ftp://nowhere/", "http://127.0.0.1:9/", server.address)
    path = downloads.fetch(file, tmp_path, mirrors, seen.append)
    assert path.read_bytes() == server.files[path.name]
    assert seen[-1] == file.size and seen.count(0) == 2
    with pytest.raises(downloads.DownloadError, match="starts with https.*refused") as caught:
        downloads.fetch(file, tmp_path / "b", mirrors[:2])
    assert str(caught.value).count("127.0.0.1:9") == 1


@pytest.mark.parametrize("after", [0, 1])
def test_stopping_keeps_what_was_received(server: Server, tmp_path: Path, after: int):
    file = datasets.DATA_SETS["MNIST"].packed[0]
    name = Path(file.path).name

    def stop(done: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        downloads.fetch(file, tmp_path / "data", (server.address,), stop)
    kept = ["data", "data/MNIST", "data/MNIST/raw", f"data/MNIST/raw/.{name}.part"]
    assert everything(tmp_path) == (kept if after else [])


_FETCH = """
import pathlib, sys
from companion.study import downloads
from reconrisk.datasets import KnownFile
path, md5, size, root, address = sys.argv[1:]
downloads.fetch(KnownFile(path, md5, size=int(size)), pathlib.Path(root), (address,))
"""


def test_a_killed_download_is_resumed_by_the_next_call(server: Server, tmp_path: Path):
    """A process that no exception ends: what it had received counts."""
    content = np.random.default_rng(3).bytes(1_000_000)
    file = datasets.KnownFile("big", hashlib.md5(content).hexdigest(), size=len(content))
    server.files["big"] = content
    server.stuck.add("big")
    given = (file.path, file.md5, file.size, tmp_path, server.address)
    fetching = subprocess.Popen([sys.executable, "-c", _FETCH, *map(str, given)])
    part = tmp_path / ".big.part"
    try:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
            assert fetching.poll() is None
            time.sleep(0.02)
    finally:
        fetching.kill()
        fetching.wait()
    kept = part.stat().st_size
    assert 0 < kept < len(content) and not (tmp_path / "big").exists()
    server.stuck.clear()
    assert downloads.fetch(file, tmp_path, (server.address,)).read_bytes() == content
    assert server.starts == [0, kept] and not part.exists()


def test_other_files_are_not_written_over(server: Server, tmp_path: Path):
    raw = tiny_data.write_mnist(tmp_path)
    mine = raw / "train-labels-idx1-ubyte"
    mine.write_bytes(b"mine")
    done = fetched(tmp_path, server)
    assert done.exit_code == 2 and "is not the official file" in done.stderr
    assert "Move it away" in done.stderr and mine.read_bytes() == b"mine" and server.asked == []


def test_what_cannot_be_fetched(tmp_path: Path):
    done = run("fetch", "photographs", "--to", tmp_path, "--yes")
    assert done.exit_code == 2 and "image-net.org" in done.stderr
    done = run("fetch", "SVHN", "--to", tmp_path)
    assert done.exit_code == 2 and "one of MNIST, FashionMNIST, CIFAR-10" in done.stderr


def test_the_list_says_terms_sizes_and_readers():
    text = run("list").stdout
    for part in ("MIT licence", "170.5 MB", "cifar-10-batches-py/", "non-commercial"):
        assert part in text
    sets = {s["name"]: s for s in json.loads(run("list", "--json").stdout)}
    assert set(sets) == set(datasets.DATA_SETS)
    assert "hayes2023/alg2" in sets["MNIST"]["exhibits"]
    assert "ziller2024/fig1" in sets["photographs"]["exhibits"]
    assert sets["MNIST"]["bytes"] == 11_594_722 and len(sets["MNIST"]["files"]) == 4
    assert not sets["photographs"]["addresses"]


def test_a_folder_is_checked_file_by_file(tmp_path: Path, monkeypatch):
    tiny_data.publish_mnist(monkeypatch)
    tiny_data.publish_cifar(monkeypatch)
    raw = tiny_data.write_mnist(tmp_path)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(tiny_data.cifar_archive())
    done = run("check", "--data-root", tmp_path, "--json")
    states = {f["file"]: f["state"] for f in json.loads(done.stdout)}
    assert done.exit_code == 0
    assert states["MNIST/raw/t10k-labels-idx1-ubyte"] == "found"
    assert states["cifar-10-python.tar.gz"] == "found"
    assert states["FashionMNIST/raw/t10k-labels-idx1-ubyte"] == "missing"
    (raw / "t10k-labels-idx1-ubyte").write_bytes(b"other")
    (tmp_path / "cifar-10-python.tar.gz").unlink()
    tiny_data.write_cifar(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"")
    done = run("check", "--data-root", tmp_path, "--json")
    assert done.exit_code == 1 and "2 of 19 files are damaged" in done.stderr
    details = {f["file"]: f["detail"] for f in json.loads(done.stdout)}
    labels = "MNIST/raw/t10k-labels-idx1-ubyte"
    said = f"{labels} is not the official file: found 5 bytes, expected 13."
    assert details[labels] == said
    assert "damaged" in run("check", "--data-root", tmp_path).stdout
    assert run("check", "--data-root", tmp_path / "no").exit_code == 2


def test_damaged_data_are_named_before_anything_is_computed(tmp_path: Path, monkeypatch):
    known = find_exhibit("hayes2023/alg2")

    def computed(study: Context) -> Tables:
        pytest.fail("computed")

    computed.__module__ = known.file.__name__
    never = measurement(computed)
    context = Study(profile="paper", data_root=tmp_path).context(known.id)
    with pytest.raises(FileNotFoundError, match="holds nothing of MNIST, which is read.*fetch MN"):
        never(context)
    tiny_data.publish_mnist(monkeypatch)
    raw = tiny_data.write_mnist(tmp_path)
    (raw / IMAGES).unlink()  # the run may need training images only
    inputs.verify(known, context)
    (raw / "train-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(ValueError, match="train-labels.*found 0 bytes, expected 20.*fetch MNIST"):
        never(context)


def test_the_data_of_recorded_runs_are_known():
    """The official files are known by the very checksums that the loader verifies."""
    for name in ("MNIST", "FashionMNIST"):
        for file, known in datasets.DATA_SETS[name].unpacked.items():
            assert inputs.KNOWN_CHECKSUMS[f"{name}/{file}"] == known.sha256
    assert len(inputs.KNOWN_CHECKSUMS) == 10 + len(datasets.SAMPLES)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in inputs.KNOWN_CHECKSUMS.values())
