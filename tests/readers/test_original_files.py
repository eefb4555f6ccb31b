import errno
import http.server
import io
import os
import tarfile
import threading
import zipfile

import pytest

from doap_tf.errors import InputError
from doap_tf.readers import original_files

WANTED = original_files.Original(
    files=(), folder="wanted", holds=lambda folder: (folder / "data.txt").is_file()
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
@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "C:\\evil"])
def test_paths_outside_the_archive_are_refused(tmp_path, make, name):
    archive = make(tmp_path / "a", {name: "1"})
    with pytest.raises(InputError, match="a path outside the archive"):
        original_files.extract(archive, tmp_path / "in" / "out")
    assert files_below(tmp_path) == ["a"]


def test_links_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")
    for name in ("a.tar", "a.zip"):
        with pytest.raises(InputError, match="'link', which is no plain file"):
            original_files.extract(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_damaged_archives_are_refused(tmp_path, make):
    archive = make(tmp_path / "a", {"data.txt": "".join(map(str, range(20_000)))})
    contents = bytearray(archive.read_bytes())
    contents[len(contents) // 2] ^= 255
    archive.write_bytes(contents)
    with pytest.raises(InputError, match="is damaged"):
        original_files.extract(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("names", [["n" * 300], ["a", "a/b"]], ids=["too long", "file as folder"])
def test_names_that_the_system_refuses_are_damage(tmp_path, make, names):
    archive = make(tmp_path / "a", dict.fromkeys(names, "1"))
    with pytest.raises(InputError, match="is damaged"):
        original_files.extract(archive, tmp_path / "out")


def test_zip_archives_with_wild_offsets_and_names_are_refused(tmp_path):
    contents = make_zip(tmp_path / "a", {"data.txt": "1"}).read_bytes()
    directory = contents.index(b"PK\1\2")
    for start, changed in ((28, b"\0\0"), (42, b"\xff\xff\xff\x7f")):  # length of name, offset
        place = directory + start
        (tmp_path / "a").write_bytes(contents[:place] + changed + contents[place + len(changed) :])
        with pytest.raises(InputError):
            original_files.extract(tmp_path / "a", tmp_path / "out")


def test_a_full_disk_is_not_called_damage(tmp_path, monkeypatch):
    archive = make_zip(tmp_path / "a", {"data.txt": "1"})

    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(original_files.shutil, "copyfileobj", no_room)
    with pytest.raises(OSError, match="No space"):
        original_files.extract(archive, tmp_path / "out")


@pytest.mark.parametrize(
    "source", ["wanted.zip", "folder", "folder/inner", "archives"], ids=str.upper
)
def test_a_source_is_an_archive_a_folder_or_a_folder_around_either(tmp_path, source):
    original = original_files.Original(
        (original_files.OriginalFile("wanted.tar.gz", ()),), WANTED.folder, WANTED.holds
    )
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "data.txt").write_text("1")
    (tmp_path / "archives").mkdir()
    make_zip(tmp_path / "wanted.zip", {"data.txt": "1"})
    make_zip(tmp_path / "archives" / "wanted.zip", {"data.txt": "1"})
    found = original_files.open_source(original, tmp_path / source, tmp_path / "scratch")
    assert files_below(found) == ["data.txt"]


def test_among_other_datasets_only_known_names_count(tmp_path):
    for name in ("other", "wanted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
    assert original_files.find_original(WANTED, tmp_path, tmp_path / "scratch").name == "wanted"
    (tmp_path / "wanted" / "data.txt").unlink()
    assert original_files.find_original(WANTED, tmp_path, tmp_path / "scratch") is None


@pytest.fixture
def mirrors(tmp_path):
    """Addresses of a dead link, a web page in place of the file, and the file."""
    folder = tmp_path / "mirrors"
    folder.mkdir()
    (folder / "page.zip").write_text("<html>moved</html>")
    make_zip(folder / "good.zip", {"data.txt": "1"})
    return [(folder / name).as_uri() for name in ("dead.zip", "page.zip", "good.zip")]


def test_mirrors_are_tried_in_turn(tmp_path, mirrors):
    original = original_files.Original(
        (original_files.OriginalFile("wanted.zip", tuple(mirrors)),), WANTED.folder, WANTED.holds
    )
    downloads, scratch = tmp_path / "downloads", tmp_path / "scratch"
    folder = original_files.fetch_original(original, downloads, scratch)
    assert files_below(folder) == ["data.txt"] and files_below(downloads) == ["wanted.zip"]
    # What was downloaded is not downloaded again.
    (tmp_path / "mirrors" / "good.zip").unlink()
    assert original_files.fetch_original(original, downloads, tmp_path / "again").is_dir()
    assert files_below(downloads) == ["wanted.zip"]


def test_all_failures_are_told_and_nothing_stays(tmp_path, mirrors):
    original = original_files.Original(
        (original_files.OriginalFile("wanted.zip", tuple(mirrors[:2])),),
        WANTED.folder,
        WANTED.holds,
    )
    with pytest.raises(InputError, match=r"no mirror gives wanted.zip: .*dead.zip .*page.zip "):
        original_files.fetch_original(original, tmp_path / "downloads", tmp_path / "scratch")
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
        url = f"http://127.0.0.1:{server.server_port}/data.txt"
        original = original_files.Original(
            (original_files.OriginalFile("data.txt", (url,)),), WANTED.folder, WANTED.holds
        )
        with pytest.raises(InputError, match=r"no mirror gives data\.txt"):
            original_files.fetch_original(original, tmp_path / "downloads", tmp_path / "scratch")
        thread.join()
    assert files_below(tmp_path / "downloads") == []


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
    ]
    assert len({base, *others}) == 5
