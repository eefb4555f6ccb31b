import contextlib
import dataclasses
import errno
import hashlib
import http.server
import io
import os
import tarfile
import threading
import zipfile

import pytest

from doap_tf.errors import InputError
from doap_tf.readers import original_files


def wanted(**files):
    """A dataset of one text file, and the addresses of the files that it is distributed as."""
    return original_files.Original(
        {name.replace("_", "."): urls for name, urls in files.items()},
        "wanted",
        lambda folder: (folder / "data.txt").is_file(),
    )


def make_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def make_tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def files_below(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_unpacking_drops_the_folder_around_everything(tmp_path, make):
    archive = make(tmp_path / "a", {"top/data.txt": "1", "top/deep/more.txt": "2"})
    original_files.unpack(archive, tmp_path / "out")
    assert files_below(tmp_path / "out") == ["data.txt", "deep/more.txt"]
    assert sorted(os.listdir(tmp_path)) == ["a", "out"]


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/evil"])
def test_nothing_is_written_outside_the_folder(tmp_path, make, name):
    archive = make(tmp_path / "a", {name: "1"})
    with contextlib.suppress(InputError):
        original_files.unpack(archive, tmp_path / "in" / "out")
    assert all(path == "a" or path.startswith("in/out") for path in files_below(tmp_path))


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_damaged_archives_are_refused(tmp_path, make):
    archive = make(tmp_path / "a", {"data.txt": "".join(map(str, range(20_000)))})
    contents = bytearray(archive.read_bytes())
    contents[len(contents) // 2] ^= 255
    archive.write_bytes(contents)
    with pytest.raises(InputError, match="or is damaged"):
        original_files.unpack(archive, tmp_path / "out")


def test_a_full_disk_is_not_called_damage(tmp_path, monkeypatch):
    archive = make_zip(tmp_path / "a", {"data.txt": "1"})

    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", no_room)
    with pytest.raises(OSError, match="No space"):
        original_files.unpack(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "source", ["wanted.zip", "folder", "folder/inner", "archives"], ids=str.upper
)
def test_a_source_is_an_archive_a_folder_or_a_folder_around_either(tmp_path, source):
    original = wanted(wanted_zip=[])
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "data.txt").write_text("1")
    (tmp_path / "archives").mkdir()
    make_zip(tmp_path / "wanted.zip", {"data.txt": "1"})
    make_tar(tmp_path / "archives" / "wanted.tar.gz", {"data.txt": "1"})
    found = original_files.open_source(original, tmp_path / source, tmp_path / "scratch")
    assert files_below(found) == ["data.txt"]


def test_among_other_datasets_only_known_names_count(tmp_path):
    for name in ("other", "wanted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
    original, scratch = wanted(wanted_zip=[]), tmp_path / "scratch"
    assert original_files.find_original(original, tmp_path, scratch).name == "wanted"
    (tmp_path / "wanted" / "data.txt").unlink()
    assert original_files.find_original(original, tmp_path, scratch) is None


@pytest.fixture
def mirrors(tmp_path):
    """Addresses of a dead link, a web page in place of the file, and the file."""
    folder = tmp_path / "mirrors"
    folder.mkdir()
    (folder / "page.zip").write_text("<html>moved</html>")
    make_zip(folder / "good.zip", {"data.txt": "1"})
    return [(folder / name).as_uri() for name in ("dead.zip", "page.zip", "good.zip")]


def test_mirrors_are_tried_in_turn(tmp_path, mirrors):
    original, downloads = wanted(wanted_zip=mirrors), tmp_path / "downloads"
    original_files.download(original, downloads)
    assert files_below(downloads) == ["wanted.zip"]
    folder = original_files.open_source(original, downloads, tmp_path / "scratch")
    assert files_below(folder) == ["data.txt"]
    # What was downloaded is not downloaded again.
    (tmp_path / "mirrors" / "good.zip").unlink()
    original_files.download(original, downloads)


def test_a_known_checksum_is_compared_and_an_unknown_one_is_said(tmp_path, mirrors, caplog):
    good = tmp_path / "mirrors" / "good.zip"
    sha256 = hashlib.sha256(good.read_bytes()).hexdigest()
    original_files.download(wanted(wanted_zip=mirrors), tmp_path / "unknown")
    (line,) = caplog.messages
    assert mirrors[-1] in line and "no checksum is published" in line and sha256 in line
    caplog.clear()
    make_zip(good.with_name("other.zip"), {"data.txt": "2"})
    others = wanted(wanted_zip=[good.with_name("other.zip").as_uri(), *mirrors])
    pinned = dataclasses.replace(others, sha256={"wanted.zip": sha256})
    original_files.download(pinned, tmp_path / "known")
    assert (tmp_path / "known" / "wanted.zip").read_bytes() == good.read_bytes()
    assert not caplog.messages
    good.unlink()
    with pytest.raises(InputError, match=rf"other.zip \(the SHA-256 is \w+, not {sha256}\)"):
        original_files.download(pinned, tmp_path / "changed")
    assert files_below(tmp_path / "changed") == []


def test_all_addresses_are_named_and_nothing_stays(tmp_path, mirrors):
    with pytest.raises(InputError, match=r"wanted.zip .*dead.zip .*page.zip ") as error:
        original_files.download(wanted(wanted_zip=mirrors[:2]), tmp_path / "downloads")
    assert "\n" not in str(error.value)
    assert files_below(tmp_path / "downloads") == []


def test_a_download_cut_short_is_a_failure(tmp_path):
    class Cut(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half of it")

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Cut) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        original = wanted(data_txt=[f"http://127.0.0.1:{server.server_port}/data.txt"])
        with pytest.raises(InputError, match="10 of 1000 bytes arrived"):
            original_files.download(original, tmp_path)
        thread.join()
    assert files_below(tmp_path) == []


def test_fingerprints_tell_names_sizes_and_contents_apart(tmp_path):
    def written(**files):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        return original_files.fingerprint(folder)

    base = written(a="1" * 9000, b="2")
    assert base == written(b="2", a="1" * 9000)
    others = [
        written(a="1" * 9000, c="2"),
        written(a="1" * 9001, b="2"),
        written(a="1" * 9000, b="3"),
        written(a="1" * 8999 + "0", b="2"),
        written(a="1" * 4500 + "0" + "1" * 4499, b="2"),
    ]
    assert len({base, *others}) == 6
