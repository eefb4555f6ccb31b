"""The part that all builders of published datasets share: where the original files come from."""

import abc
import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds
from absl import logging

from doap_tf.errors import InputError
from doap_tf.files import contents_sha256
from doap_tf.progress import progress
from doap_tf.readers import original_files


def _disk_refused(error: Exception) -> bool:
    """Returns whether an error says that the disk could not be written to."""
    if isinstance(error, OSError):
        return True
    import tensorflow as tf  # only now, because it takes seconds

    # TFDS wraps some of what TensorFlow's file system says.
    refusals = (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError)
    return isinstance(error, refusals) or isinstance(error.__cause__, refusals)


class PreparedOnceBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A builder whose preparation appears whole or not at all.

    One process prepares at a time; the fingerprint of the source is kept with the records.

    Args:
        source: where the original files are, if that is known.
        **kwargs: `data_dir`, `config` and `version` of every TFDS builder.

    Attributes:
        OPTIONS: names of the options that `for_training` takes, beside `data_dir`.
        HAS_VALIDATION: whether the builder holds out a part for validation itself.
        magnification: what patches are cut at, if that is known.
        details: how patches are cut, for records.
    """

    OPTIONS: ClassVar[tuple[str, ...]] = ("source",)
    HAS_VALIDATION: ClassVar[bool] = False
    magnification: float | None = None
    details: str = ""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # TFDS would look for README.md and dummy_data in doap_tf/datasets, which only a wheel has.
        cls.code_path = tfds.core.Path(sys.modules[cls.__module__].__file__)
        cls.pkg_dir_path = cls.code_path.parent

    def __new__(cls, **kwargs: Any):
        builder = super().__new__(cls)
        builder._arguments = kwargs  # what makes the builder again from a pickle
        return builder

    def __init__(self, *, source: str | os.PathLike | None = None, **kwargs: Any):
        config = kwargs.get("config")
        names = [config.name for config in self.BUILDER_CONFIGS]
        if isinstance(config, str) and config not in names:
            raise InputError(
                f"unknown config {config!r} of {self.name}; known are {', '.join(names) or 'none'}"
            )
        if source is not None and not os.fspath(source):
            raise InputError(f"the source of {self.name} is empty; name a folder or leave it out")
        self._source = None if source is None else pathlib.Path(source).expanduser()
        self._downloads: pathlib.Path | None = None
        super().__init__(**kwargs)

    def __reduce__(self) -> tuple:
        return functools.partial(type(self), **self._arguments), ()

    @classmethod
    def for_training(
        cls, part: str, size: int, validation_fraction: float, **options: Any
    ) -> "PreparedOnceBuilder":
        """Returns the builder that one part of the training data is read from.

        Args:
            part: `train`, or `validation` where `HAS_VALIDATION`.
            size: pixels along a side of the patches that are needed. Published patches have their
                own size.
            validation_fraction: share of the data in the part `validation`.
            **options: those of `OPTIONS`, and `data_dir`.
        """
        return cls(**options)

    def part_splits(self, part: str) -> list[str]:
        """Returns the TFDS splits that make up a part, after preparation."""
        return [part]

    @abc.abstractmethod
    def _fingerprint(self, source: pathlib.Path) -> str:
        """Tells other original files from those that were prepared."""

    def _dataset_info(self, **kwargs: Any) -> tfds.core.DatasetInfo:
        # Tasks and samplers refer to the order of the files.
        return self.dataset_info_from_configs(
            metadata=tfds.core.MetadataDict(), disable_shuffling=True, **kwargs
        )

    def _group_info(
        self, views: int | None, size: int, homepage: str | None = None, **features: Any
    ) -> tfds.core.DatasetInfo:
        """Describes examples of `patches`, uint8 [views, size, size, 1], and further features."""
        # As bytes: TFDS would write every pixel as a 64-bit number.
        patches = tfds.features.Tensor(
            shape=(views, size, size, 1), dtype=np.uint8, encoding="bytes"
        )
        examples = tfds.features.FeaturesDict({"patches": patches, **features})
        return self._dataset_info(features=examples, homepage=homepage)

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
            with self._alone(root):
                # Another process may have prepared it while this one waited for the lock.
                if reuse and self._is_complete():
                    self._use_prepared()
                    return
                for leftover in pathlib.Path(self.data_path).parent.glob("incomplete.*"):
                    shutil.rmtree(leftover)
                tfds.disable_progress_bar()  # builders have their own
                try:
                    super().download_and_prepare(download_config=config, **kwargs)
                finally:
                    tfds.enable_progress_bar()
        except InputError:
            # What a mirror gave and the readers refused must not be used again.
            if self._downloads is not None:
                shutil.rmtree(self._downloads, ignore_errors=True)
            raise
        except Exception as error:
            if not _disk_refused(error):
                raise
            raise InputError(
                f"cannot prepare {self.name} in {root}: {error}; give a data_dir that can be "
                "written and has room"
            ) from error

    def _log_download_bytes(self) -> None:
        # In place of TFDS's line on sizes that it does not know.
        about = f" ({self.builder_config.description})" if self.builder_config else ""
        print(f"preparing {self.name}{about} in {self.data_dir_root}", flush=True)

    def _log_download_done(self) -> None:
        pass

    def _is_complete(self) -> bool:
        # Unlike TFDS's `is_prepared`, without a warning if it is not.
        return (pathlib.Path(self.data_path) / "dataset_info.json").exists()

    @contextlib.contextmanager
    def _alone(self, root: pathlib.Path) -> Iterator[None]:
        """Waits for other processes that prepare the dataset; makes a folder to unpack archives."""
        root.mkdir(parents=True, exist_ok=True)
        with (root / f".{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logging.info("waiting for another process that prepares %s in %s", self.name, root)
                fcntl.flock(lock, fcntl.LOCK_EX)
            self._scratch = root / f".{self.name}.scratch"
            shutil.rmtree(self._scratch, ignore_errors=True)  # what a killed run left
            self._scratch.mkdir()
            try:
                yield
            finally:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _use_prepared(self) -> None:
        # It may have appeared after this builder was made.
        self.info.read_from_directory(self.data_path)
        if self._source is None:
            return
        if self.info.metadata.get("fingerprint") != self._fingerprint(self._source):
            raise InputError(
                f"{self.data_path} was prepared from other files than {self._source}, or by "
                "an earlier version of doap_tf; remove it or give another data_dir"
            )


class CutPatchesBuilder(PreparedOnceBuilder, skip_registration=True):
    """A builder that cuts its patches itself: `_settings` say how, `_hash` is of all they hold.

    Its arguments are `settings`, `validation_fraction`, `parts`, the splits that are cut, and those
    of `OPTIONS` that are no fields of `SETTINGS`.
    """

    HAS_VALIDATION = True
    SETTINGS: ClassVar[type]
    _settings: Any
    _hash: str

    @classmethod
    def for_training(
        cls, part: str, size: int, validation_fraction: float, **options: Any
    ) -> "CutPatchesBuilder":
        """See the base class; patches are cut at the size that is needed."""
        names = {field.name for field in dataclasses.fields(cls.SETTINGS)} & options.keys()
        settings = {name: options.pop(name) for name in names}
        return cls(
            settings=cls.SETTINGS(patch_size=size, **settings),
            validation_fraction=validation_fraction,
            parts=(part,),
            **options,
        )

    @property
    def magnification(self) -> float:
        return self._settings.magnification

    @property
    def details(self) -> str:
        return str(self._settings)

    def _fingerprint(self, source: pathlib.Path) -> str:
        return self._hash


def hash_file(path: pathlib.Path) -> bytes:
    """Returns the SHA-256 of a file's contents."""
    try:
        return bytes.fromhex(contents_sha256(path))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; make it readable, or take it away."
        ) from error


class SourceBuilder(PreparedOnceBuilder, skip_registration=True):
    """A builder that reads original files from a given place, the manual folder or a mirror.

    Contents are checked by the readers; no publisher gives checksums, and mirrors packed archives
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
            raise InputError(f"source {source} of {self.name} does not exist; {self._remedy()}")
        return original_files.fingerprint(
            original_files.find_folder(self._original(), source) or source
        )

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        original = self._original()
        if self._source is not None:
            # Before reading, so that files changed meanwhile are noticed later.
            self.info.metadata["fingerprint"] = self._fingerprint(self._source)
            folder = original_files.open_source(original, self._source, self._scratch)
            if folder is None:
                raise InputError(
                    f"source {self._source} does not hold {original.folder}, packed or unpacked; "
                    f"{self._remedy()}"
                )
            return self._with_bars(folder)
        try:
            manual = pathlib.Path(dl_manager.manual_dir)
        except AssertionError:  # raised by TFDS if the folder is empty
            manual = pathlib.Path(self._manual_dir or dl_manager.download_dir / "manual")
        folder = original_files.find_original(original, manual, self._scratch)
        if folder is None:
            downloads = pathlib.Path(dl_manager.download_dir) / self.name
            try:
                original_files.download(original, downloads)
            except InputError as error:
                names = ", ".join(original.files)
                raise InputError(
                    f"the files of {self.name} are missing and {error}. Put {names}, or the "
                    f"unpacked folder {original.folder}, into {manual}, or give their place as "
                    "source"
                ) from error
            self._downloads = downloads
            folder = original_files.open_source(original, downloads, self._scratch)
            if folder is None:
                raise InputError(f"the files downloaded to {downloads} are not {self.name}")
        self.info.metadata["fingerprint"] = self._fingerprint(folder)
        return self._with_bars(folder)

    def _remedy(self) -> str:
        place = original_files.where_to_get(self._original())
        return f"download {place}, and give the file or its folder as source"

    def _with_bars(self, folder: pathlib.Path) -> dict[str, Any]:
        return {
            split: progress(examples, f"{self.name} {split}", unit=" examples", leave=False)
            for split, examples in self._splits(folder).items()
        }
