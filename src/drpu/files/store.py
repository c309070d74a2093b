"""save, load, verify and inspect_file: a classifier as one file that contains no code.

The file holds the record of the classifier, see :mod:`drpu.state.record`. ``verify`` decodes it,
``load`` decodes it and lets the classifier score two rows, and ``inspect_file`` returns the record itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from drpu._checks import check_flag, check_integer
from drpu._codec import decode, encode
from drpu._output import output_file
from drpu._typing import FloatArray
from drpu.exceptions import ArtifactError, MissingExtraError
from drpu.files.archive import MAX_BYTES, SCHEMA, Archive, open_archive, read_bytes, write_archive
from drpu.files.signature import check_signature
from drpu.state.record import Record, Reduction, record_of

StrPath = str | os.PathLike[str]

# The modules that declare kinds, imported before a file is read. They import torch and LightGBM when used.
KIND_MODULES = (
    "drpu.classifier.adapted",
    "drpu.periods.read",
    "drpu.decisions.budget",
    "drpu.classifier.drpu",
    "drpu.state.fitted",
    "drpu.classifier.pipelines",
    "drpu.state.record",
    "drpu.audits.recalibration",
    "drpu.priors.calibration",
    "drpu.decisions.thresholds",
    "drpu.priors.estimate",
    "drpu.priors.reduction",
    "drpu.scale.alarm",
    "drpu.periods.columns",
    "drpu.periods.moves",
    "drpu.priors.tails",
    "drpu.models.average",
    "drpu.models.estimators",
    "drpu.models.features",
    "drpu.models.folds",
    "drpu.models.trees",
    "drpu.networks.function",
    "drpu.networks.generative",
    "drpu.rivals.base",
    "drpu.tables.columns",
    "drpu.tables.text",
    "drpu.tables.encoder",
    "drpu.tables.notes",
)

_CLOSE = 1e-3  # networks may be loaded to another device than they were saved from


def save(
    classifier: Any,
    path: StrPath,
    *,
    keep_rows: bool = False,
    column_values: str | None = None,
    rare_values: int | None = None,
    column_profiles: bool = True,
    levels: int | None = None,
) -> None:
    """Write a fitted classifier to ``path``, without training rows and without pickle.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier, or a pipeline that ends in one
        Fitted. A file with estimators of scikit-learn, such as steps of a pipeline, is read only by those
        who trust it; see :func:`load`.
    path : path-like
        The file to write, with exactly this name. It appears complete or not at all.
    keep_rows : bool, default=False
        Whether a model that contains training rows may be written: nearest neighbours, support
        vectors, kernels centred on rows, encoders with the values of columns.
    column_values : {"keep", "hash"}, optional
        How to write the levels of categories in a table, which are values of the data: unchanged
        (``keep``), or as salted digests (``hash``), which hide long values but not those that can be
        guessed. By default they are written unchanged, with a warning that names the columns.
    rare_values : int, optional
        Leave out levels with fewer training rows than this. Rows with such a level are then scored like
        rows with a level that training did not have; all other rows keep their scores. If more than a fifth
        of the training rows have one, there is a warning. Levels with fewer than five rows are never kept.
    column_profiles : bool, default=True
        Whether to write the counts of training rows in a few ranges of each column, from which
        ``adapt`` finds the columns that changed.
    levels : int, optional
        Keep at most this many levels instead of the score of every held-out positive. This changes
        curves by at most ``2 / levels``; with 100 the effect on results is small.

    See Also
    --------
    load : Reads the file, also on another machine.

    Notes
    -----
    The file is a zip archive of a JSON manifest, numeric arrays (safetensors) and, for estimators of
    scikit-learn, archives of skops. It holds the scores of the held-out positives, which adaptation needs,
    unless ``levels`` is given. This does not protect the model itself: trees and weights are learnt from
    the rows and written unchanged.
    """
    check_flag("keep_rows", keep_rows)
    reduction = Reduction(column_values, rare_values, column_profiles, levels)
    _know_kinds()  # among them are those that record_of needs
    whole = record_of(classifier)
    record = whole.reduced(reduction)
    facts = record.facts()
    if not keep_rows and facts["values_of_rows"]:
        named = "; ".join(f"{part} ({values})" for part, values in facts["values_of_rows"].items())
        raise ArtifactError(
            f"the model keeps values of its training rows, which would be written: {named}. Choose a model "
            "that does not (kernel, boosted, network, trees, linear), or allow it by name: "
            "save(..., keep_rows=True)."
        )
    encoded = encode(record)
    with output_file(path) as file:
        write_archive(file, encoded, facts)
        file.seek(0)
        again = _File(os.fspath(path), file.read(), max_bytes=sys.maxsize, trusted=True)
        with again.guarded():
            found = again.record()
            _compare(_tried(whole, classifier), _tried(found, found.classifier(whole.module())))


def load(
    path: StrPath,
    *,
    module: Any = None,
    trusted: bool = False,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
    signature: StrPath | None = None,
    public_key: StrPath | None = None,
) -> Any:
    """The classifier that :func:`save` wrote.

    Parameters
    ----------
    path : path-like
        The file. It is read once.
    module : callable, optional
        Returns the torch module of a custom network. The file contains its weights, but not its
        code.
    trusted : bool, default=False
        Whether the file may contain estimators of scikit-learn. They are code in the form of data, so they
        are read only if this is True, or the file has the expected digest, or its signature is valid.
    max_bytes : int, default=1073741824
        Maximum size in bytes of the file, and of its content after decompression.
    expected_sha256 : str, optional
        SHA-256 digest that the file must have, in hexadecimal. The digests in the file
        itself detect accidental damage only: anyone who changes a part can change its digest.
    signature : path-like, optional
        Signature that :func:`drpu.sign` wrote. With a ``public_key`` the default is ``path`` followed by
        ``.sig``.
    public_key : path-like, optional
        Public key of the expected signer. Needs the ``sign`` extra.

    Returns
    -------
    classifier : DRPUClassifier or AdaptedClassifier

    Raises
    ------
    ArtifactError
        If the file is not an artifact, or is truncated, changed, too large, or of another schema, or holds
        estimators of scikit-learn and is not trusted.

    See Also
    --------
    verify : The same checks without making a classifier.
    """
    file = _read(path, max_bytes, trusted, expected_sha256, signed=(signature, public_key))
    with file.guarded():
        file.check_trust()
        record = file.record()
        classifier = record.classifier(module)
        _tried(record, classifier)
        return classifier


@dataclass(frozen=True, slots=True)
class Verified:
    """Facts about an artifact that passed all checks of :func:`verify`.

    Attributes
    ----------
    sha256 : str
        Digest of the file, to be passed to ``load`` as ``expected_sha256``.
    bytes : int
        Size of the file.
    kind : str
        Class of the classifier.
    schema : int
        Version of the format.
    versions : dict of str to str
        Versions of the packages that wrote the file, as stated in the file.
    contents : dict
        What the file keeps of the training rows.
    estimators : bool
        Whether it holds estimators of scikit-learn, which ``load`` reads only with trust.
    signed : bool
        Whether a signature was checked and is valid.
    """

    sha256: str
    bytes: int
    kind: str
    schema: int
    versions: dict[str, str]
    contents: dict[str, Any]
    estimators: bool
    signed: bool

    def as_dict(self) -> dict[str, Any]:
        """The facts as plain values, for JSON."""
        return asdict(self)


def verify(
    path: StrPath,
    *,
    trusted: bool = False,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
    signature: StrPath | None = None,
    public_key: StrPath | None = None,
) -> Verified:
    """Check an artifact without making a classifier.

    Sizes, names, digests and all values are checked as by :func:`drpu.load`. No model is made, nothing is
    scored, and scikit-learn estimators, torch and LightGBM are not used.

    Parameters
    ----------
    path, trusted, max_bytes, expected_sha256, signature, public_key
        As in :func:`drpu.load`.

    Returns
    -------
    verified : Verified

    Raises
    ------
    ArtifactError
        If anything is wrong with the file or its signature, or it holds estimators of scikit-learn and is
        not trusted.
    """
    file = _read(path, max_bytes, trusted, expected_sha256, signed=(signature, public_key))
    with file.guarded():
        file.check_trust()
        return file.facts(file.record())


def inspect_file(path: StrPath, *, max_bytes: int = MAX_BYTES) -> tuple[Verified, Record]:
    """Facts about an artifact and its record, whose attributes are all numbers that the file holds.

    Estimators of scikit-learn are not read: in the record their bytes are empty. So nothing in the file needs
    to be trusted.
    """
    file = _read(path, max_bytes)
    with file.guarded():
        record = file.record()
        return file.facts(record), record


@dataclass(frozen=True)
class _File:
    """A file that was read."""

    name: str
    content: bytes
    max_bytes: int
    trusted: bool = False
    signed: bool = False

    @cached_property
    def archive(self) -> Archive:
        return open_archive(self.content, max_bytes=self.max_bytes, trusted=self.trusted)

    def check_trust(self) -> None:
        """Refuse estimators of other libraries unless the file is trusted."""
        if self.archive.blobs and not self.trusted:
            harm = (
                "contains estimators of scikit-learn, which can harm this process if somebody made them for "
                "that purpose. If you know who wrote the file,"
            )
            raise ArtifactError(
                f"{self.name!r} {harm} pass its digest (expected_sha256=...), its signature and the signer's "
                "key (public_key=...), or trusted=True.",
                command=f"it {harm} give its digest (--sha256) or --trusted.",
            )

    def record(self) -> Record:
        """The record; without trust the bytes of estimators are empty."""
        _know_kinds()
        tree = self.archive.tree
        if isinstance(tree, dict) and tree.get("kind") == "monitor":
            raise ArtifactError("the file holds the counts of a monitor: read it with PriorMonitor.load.")
        found: Record = decode(tree, self.archive.arrays, self.archive.blobs, Record)
        return found

    def facts(self, record: Record) -> Verified:
        return Verified(
            sha256=hashlib.sha256(self.content).hexdigest(),
            bytes=len(self.content),
            kind=record.title,
            schema=SCHEMA,
            versions=self.archive.versions,
            contents=record.facts(),
            estimators=bool(self.archive.blobs),
            signed=self.signed,
        )

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn every error that a damaged file can cause into an ``ArtifactError``."""
        try:
            yield
        except (ArtifactError, MissingExtraError):
            raise
        except Exception as error:
            start = f"{self.name!r} cannot be read as a drpu artifact"
            raise ArtifactError(f"{start}: {error!s:.500}") from error


def _know_kinds() -> None:
    for module in KIND_MODULES:
        import_module(module)


def _read(
    path: StrPath,
    max_bytes: int,
    trusted: bool = False,
    expected_sha256: str | None = None,
    *,
    signed: tuple[StrPath | None, StrPath | None] = (None, None),
) -> _File:
    """The file, after its digest and its signature have been compared; both make it trusted."""
    check_flag("trusted", trusted)
    limit = check_integer("max_bytes", max_bytes, low=1)
    content = read_bytes(path, max_bytes=limit, expected_sha256=expected_sha256)
    signature, public_key = signed
    checked = signature is not None or public_key is not None
    if checked:
        check_signature(content, signature or Path(f"{os.fspath(path)}.sig"), public_key)
    trusted = trusted or checked or expected_sha256 is not None
    return _File(os.fspath(path), content, limit, trusted=trusted, signed=checked)


def _tried(record: Record, classifier: Any) -> FloatArray | None:
    """Scores of two artificial rows; raises ``ArtifactError`` if the classifier cannot score them."""
    try:
        with np.errstate(all="ignore"):
            scores = record.trial(classifier)
    except MissingExtraError:
        raise
    except Exception as error:  # a backend can raise any error if parts do not fit together
        raise ArtifactError(f"the classifier cannot score rows: {error!s:.300}") from error
    if scores is not None and (scores.shape[:1] != (2,) or not np.isfinite(scores).all()):
        raise ArtifactError("the classifier cannot score rows: its scores must be finite, one for each row.")
    return scores


def _compare(before: FloatArray | None, after: FloatArray | None) -> None:
    """Raise unless the classifier read from the file has the same scores as the one that was written."""
    if before is None or after is None:
        return
    if before.shape != after.shape or not np.allclose(before, after, rtol=_CLOSE, atol=_CLOSE):
        raise ArtifactError(
            "the written file does not reproduce the scores of the classifier, so nothing was saved."
        )
