"""The part that all builders of published datasets share: where the original files come from."""

import abc
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets.public_api as tfds
from absl import logging
from etils import epath

from doap_tf.errors import InputError
from doap_tf.readers import original_files


def _is_of_disk(error: Exception) -> bool:
    """Whether the disk refused to write."""
    if isinstance(error, OSError):
        return True
    import tensorflow as tf  # only now, because it takes seconds

    # TFDS wraps some of what TensorFlow's file system says.
    refusals = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)
    return isinstance(error, refusals) or isinstance(error.__cause__, refusals)


class PreparedOnceBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A builder whose preparation appears whole or not at all.

    It is done by one process at a time, and remembers the fingerprint of its source.

    Args:
        source: where the original files are, if that is known.
        **kwargs: `data_dir`, `config` and `version` of every TFDS builder.
    """

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # TFDS would look for README.md in doap_tf/datasets, which only a wheel has.
        cls.pkg_dir_path = epath.Path(sys.modules[cls.__module__].__file__).parent

    def __init__(self, *, source: str | os.PathLike | None = None, **kwargs: Any):
        config = kwargs.get("config")
        names = [config.name for config in self.BUILDER_CONFIGS]
        if isinstance(config, str) and config not in names:
            raise InputError(
                f"unknown config {config!r} of {self.name}; known are {', '.join(names) or 'none'}"
            )
        self._source = None if source is None else pathlib.Path(source).expanduser()
        self._downloads: pathlib.Path | None = None
        super().__init__(**kwargs)
        self._original_state["source"] = source

    @abc.abstractmethod
    def _fingerprint(self, source: pathlib.Path) -> str:
        """Tells other original files from those that were prepared."""

    def _dataset_info(self, **kwargs: Any) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(metadata=tfds.core.MetadataDict(), **kwargs)

    def download_and_prepare(self, *, download_config: Any = None, **kwargs: Any) -> None:
        """Prepares the dataset unless that was done before; see TFDS for the arguments.

        Raises:
            InputError: if files are missing or damaged, if the data folder cannot be written, or if
                it holds a preparation of other files than `source`.
        """
        config = download_config or tfds.download.DownloadConfig()
        reuse = not config.download_mode.overwrite_dataset
        if reuse and self._is_complete():
            self._use_prepared()
            return
        self._manual_dir = config.manual_dir
        # Google's bucket does not hold these datasets.
        config = dataclasses.replace(config, try_download_gcs=False)
        root = pathlib.Path(self.data_dir_root)
        try:
            with self._locked(root), self._scratch_folder(root / f".{self.name}.scratch"):
                # Another process may have prepared it while this one waited for the lock.
                if reuse and self._is_complete():
                    self._use_prepared()
                    return
                for leftover in pathlib.Path(self.data_path).parent.glob("incomplete.*"):
                    shutil.rmtree(leftover)
                super().download_and_prepare(download_config=config, **kwargs)
        except InputError:
            # What a mirror gave and the readers refused must not be used again.
            if self._downloads is not None:
                shutil.rmtree(self._downloads, ignore_errors=True)
            raise
        except Exception as error:
            if not _is_of_disk(error):
                raise
            raise InputError(
                f"cannot prepare {self.name} in {root}: {error}; give a data_dir that can be "
                "written and has room"
            ) from error

    def _is_complete(self) -> bool:
        # Unlike TFDS's `is_prepared`, without a warning if it is not.
        return (pathlib.Path(self.data_path) / "dataset_info.json").exists()

    @contextlib.contextmanager
    def _locked(self, root: pathlib.Path) -> Iterator[None]:
        root.mkdir(parents=True, exist_ok=True)
        with (root / f".{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logging.info("waiting for another process that prepares %s in %s", self.name, root)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _scratch_folder(self, folder: pathlib.Path) -> Iterator[None]:
        """Makes the folder for unpacking archives, and empties it of what a killed run left."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._scratch = folder
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _use_prepared(self) -> None:
        # It may have appeared after this builder was made.
        self.info.read_from_directory(self.data_path)
        if self._source is None:
            return
        if self.info.metadata.get("fingerprint") != self._fingerprint(self._source):
            raise InputError(
                f"{self.data_path} was prepared from other files than {self._source}; remove it or "
                "give another data_dir"
            )


class SourceBuilder(PreparedOnceBuilder, skip_registration=True):
    """A builder that reads original files from a given place, the manual folder or a mirror.

    Contents are checked by the readers, not by checksums of archives, because mirrors packed them
    anew.

    Args:
        source: folder or archive with the original files. If it is not given, they are looked for
            in TFDS's manual folder, among earlier downloads and on the mirrors.
        **kwargs: `data_dir`, `config` and `version` of every TFDS builder.
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Put the published files, packed or unpacked, into the manual folder; README.md names them."
    )

    @abc.abstractmethod
    def _original(self) -> original_files.Original:
        """What is distributed, for the builder's config."""

    @abc.abstractmethod
    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator]:
        """The generator of examples of every split, from the unpacked folder."""

    def _fingerprint(self, source: pathlib.Path) -> str:
        if not source.exists():
            raise InputError(f"source {source} of {self.name} does not exist")
        return original_files.fingerprint(
            original_files.find_folder(source, self._original().holds) or source
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        original = self._original()
        names = ", ".join(file.name for file in original.files)
        if self._source is not None:
            # Before reading, so that files changed meanwhile are noticed later.
            self.info.metadata["fingerprint"] = self._fingerprint(self._source)
            folder = original_files.open_source(original, self._source, self._scratch)
            if folder is None:
                raise InputError(
                    f"source {self._source} holds neither {names} nor their unpacked folder"
                )
            return self._splits(folder)
        try:
            manual = pathlib.Path(dl_manager.manual_dir)
        except AssertionError:  # TFDS's way to say that the folder is empty
            manual = pathlib.Path(self._manual_dir or dl_manager.download_dir / "manual")
        folder = original_files.find_original(original, manual, self._scratch)
        if folder is None:
            downloads = pathlib.Path(dl_manager.download_dir) / self.name
            try:
                folder = original_files.fetch_original(original, downloads, self._scratch)
            except InputError as error:
                raise InputError(
                    f"{self.name} is not there: {error}; put {names}, or the unpacked folder "
                    f"{original.folder}, into {manual}, or give their place as source"
                ) from error
            self._downloads = downloads
        self.info.metadata["fingerprint"] = self._fingerprint(folder)
        return self._splits(folder)
