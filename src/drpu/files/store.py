"""save, load, verify and inspect_file: a classifier as one file that contains no code.

The file holds the record of the classifier, see :mod:`drpu.state.record`. ``verify`` decodes it,
``load`` decodes it and lets the classifier score a few rows, and ``inspect_file`` returns the
record.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from drpu._arrays import FloatArray
from drpu._checks import check_flag, check_integer
from drpu._codec import KINDS, decode, encode
from drpu._output import output_file
from drpu._process import default_errors
from drpu.exceptions import ArtifactError, MissingExtraError
from drpu.files.archive import MAX_BYTES, SCHEMA, Archive, open_archive, read_bytes, write_archive
from drpu.models import registry
from drpu.state.record import Record, record_of

StrPath = str | os.PathLike[str]

# The modules that declare kinds, imported until those of a file are known. They import torch and
# LightGBM when used; the last ones import scikit-learn.
KIND_MODULES = (
    "drpu.classifier.records",
    "drpu.state.population",
    "drpu.state.costs",
    "drpu.state.labels",
    "drpu.state.reference",
    "drpu.state.fitted",
    "drpu.state.record",
    "drpu.priors.calibration",
    "drpu.priors.estimate",
    "drpu.priors.tails",
    "drpu.tables.values",
    "drpu.tables.columns",
    "drpu.tables.text",
    "drpu.tables.encoder",
    "drpu.tables.notes",
    "drpu.periods.read",
    "drpu.periods.counts",
    "drpu.decisions.point",
    *registry.KIND_MODULES,
    "drpu.decisions.budget",
    "drpu.pipelines",
    "drpu.rivals.rival",
)

_CLOSE = 1e-3  # networks may be loaded to another device than they were saved from


@default_errors
def save(classifier: Any, path: StrPath, *, keep_rows: bool = False) -> None:
    """Write a fitted classifier to ``path``, without training rows and without pickle.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier, a pipeline that ends in one, or counts
        Fitted, or counts of rows from ``classifier.count`` or :func:`drpu.count_batches`, which can
        be sent from where the rows are. A file with estimators of scikit-learn, such as steps of a
        pipeline, is read only by those who trust it; see :func:`load`.
    path : path-like
        The file to write, with exactly this name. It appears complete or not at all.
    keep_rows : bool, default=False
        Whether a model that contains training rows may be written: nearest neighbours, support
        vectors, kernels centred on rows, encoders with the values of columns.

    See Also
    --------
    load : Reads the file, also on another machine.

    Notes
    -----
    The file is a zip archive of a JSON manifest, numeric arrays (safetensors) and, for estimators
    of scikit-learn, archives of skops. It holds the scores of the held-out positives, which
    adaptation needs, the counts of rows in a few ranges of each column, and the levels of
    categories that at least five training rows have. Trees and weights are learnt from the rows.
    Equal classifiers give equal files, except in the archives of skops, which differ between
    processes.
    """
    check_flag("keep_rows", keep_rows)
    _import_kinds(None)  # among them are those that record_of needs
    record = record_of(classifier)
    facts = record.facts()
    if not keep_rows and facts["values_of_rows"]:
        parts = [f"{part} ({values})" for part, values in facts["values_of_rows"].items()]
        raise ArtifactError(
            "the model keeps values of its training rows, which would be written: "
            f"{'; '.join(parts)}. Choose a model that does not (kernel, boosted, network, trees, "
            "linear), or allow it by name: save(..., keep_rows=True)."
        )
    encoded = encode(record)
    with output_file(path) as file:
        write_archive(file, encoded, facts)
        file.seek(0)
        written_file = _File(os.fspath(path), file.read(), max_bytes=sys.maxsize, trusted=True)
        with written_file.guarded():
            written = written_file.record()
            read_back = written.classifier(record.module())
            _compare(_trial_scores(written, classifier), _trial_scores(written, read_back))


@default_errors
def load(
    path: StrPath,
    *,
    module: Any = None,
    trusted: bool = False,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
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
        Whether the file may contain estimators of scikit-learn. They are code in the form of data,
        so they are read only if this is True, or the file has the expected digest.
    max_bytes : int, default=1073741824
        Maximum size in bytes of the file, and of its content after decompression.
    expected_sha256 : str, optional
        SHA-256 digest that the file must have, in hexadecimal. The digests in the file
        itself detect accidental damage only: anyone who changes a part can change its digest.

    Returns
    -------
    classifier : DRPUClassifier, AdaptedClassifier, ScoreTails or GroupCounts

    Raises
    ------
    ArtifactError
        If the file is not an artifact, or is truncated, changed, too large, of another schema, or
        holds estimators of scikit-learn and is not trusted.

    See Also
    --------
    verify : The same checks without making a classifier.
    """
    file = _read(path, max_bytes, trusted, expected_sha256)
    with file.guarded():
        file.check_trust()
        record = file.record()
        classifier = record.classifier(module)
        _trial_scores(record, classifier)
    record.warn_of_prior(classifier)
    return classifier


@dataclass(frozen=True, slots=True, repr=False)
class FileSummary:
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
    """

    sha256: str
    bytes: int
    kind: str
    schema: int
    versions: dict[str, str]
    contents: dict[str, Any]
    estimators: bool

    def as_dict(self) -> dict[str, Any]:
        """The facts as plain values, for JSON."""
        return asdict(self)

    def lines(self) -> dict[str, str]:
        """The facts as short texts by name."""
        lines = {
            "kind": f"{self.kind}, schema {self.schema}",
            "sha256": self.sha256,
            "size": f"{self.bytes:,} bytes",
        }
        for name, value in self.contents.items():
            lines[name.replace("_", " ")] = _as_text(value)
        trust = "yes: load needs trust" if self.estimators else "no"
        lines["estimators of scikit-learn"] = trust
        packages = [f"{package} {number}" for package, number in self.versions.items()]
        lines["written by"] = ", ".join(packages)
        return lines

    def __repr__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())


def _as_text(value: Any) -> str:
    """A value of the contents of a file in one line; texts from the file are escaped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name!r} ({item!r})" for name, item in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(value) or "none"
    return str(value)


@default_errors
def verify(
    path: StrPath,
    *,
    trusted: bool = False,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
) -> FileSummary:
    """Check an artifact without making a classifier.

    Sizes, names, digests and all values are checked as by :func:`drpu.load`. No model is made,
    nothing is scored, and scikit-learn estimators, torch and LightGBM are not used.

    Parameters
    ----------
    path, trusted, max_bytes, expected_sha256
        As in :func:`drpu.load`.

    Returns
    -------
    summary : FileSummary
        Facts about the file, with its digest; it prints itself.

    Raises
    ------
    ArtifactError
        If anything is wrong with the file, or it holds estimators of scikit-learn and is not
        trusted.
    """
    file = _read(path, max_bytes, trusted, expected_sha256)
    with file.guarded():
        file.check_trust()
        return file.facts(file.record())


@default_errors
def inspect_file(path: StrPath, *, max_bytes: int = MAX_BYTES) -> tuple[FileSummary, Record]:
    """Facts about an artifact and its record, whose attributes are all numbers that the file holds.

    Estimators of scikit-learn are not read: in the record their bytes are empty. So nothing in the
    file needs to be trusted.
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

    @cached_property
    def archive(self) -> Archive:
        return open_archive(self.content, max_bytes=self.max_bytes, trusted=self.trusted)

    def check_trust(self) -> None:
        """Refuse estimators of other libraries unless the file is trusted."""
        if self.archive.blobs and not self.trusted:
            harm = (
                "contains estimators of scikit-learn, which can harm this process if somebody made "
                "them for that purpose. If you know who wrote the file,"
            )
            raise ArtifactError(
                f"{self.name!r} {harm} pass its digest (expected_sha256=...) or trusted=True.",
                command=f"it {harm} give its digest (--sha256) or --trusted.",
            )

    def record(self) -> Record:
        """The record; without trust the bytes of estimators are empty."""
        tree = self.archive.tree
        stated = self.archive.facts
        if isinstance(tree, dict) and tree.get("kind") == "monitor":
            raise ArtifactError(
                "the file holds the counts of a monitor: read it with PriorMonitor.load."
            )
        _import_kinds(tree)
        record: Record = decode(tree, self.archive.arrays, self.archive.blobs, Record)
        if json.dumps(record.facts(), sort_keys=True) != json.dumps(stated, sort_keys=True):
            raise ArtifactError("the facts in the manifest must be those of the classifier.")
        return record

    def facts(self, record: Record) -> FileSummary:
        return FileSummary(
            sha256=hashlib.sha256(self.content).hexdigest(),
            bytes=len(self.content),
            kind=record.title,
            schema=SCHEMA,
            versions=self.archive.versions,
            contents=record.facts(),
            estimators=bool(self.archive.blobs),
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


def _import_kinds(tree: Any) -> None:
    """Import the modules that declare the kinds in ``tree``; all of them if it is None."""
    wanted = None if tree is None else _kinds_in(tree)
    for module in KIND_MODULES:
        if wanted is not None and wanted <= KINDS.keys():
            return
        import_module(module)


def _kinds_in(tree: Any) -> set[str]:
    """The kinds of all objects in the tree of a file."""
    kinds = set()
    parts = [tree]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if part.keys() == {"kind", "fields"}:
                kinds.add(str(part["kind"]))
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return kinds


def _read(
    path: StrPath, max_bytes: int, trusted: bool = False, expected_sha256: str | None = None
) -> _File:
    """The file, after its digest has been compared; an expected digest makes it trusted."""
    check_flag("trusted", trusted)
    limit = check_integer("max_bytes", max_bytes, low=1)
    content = read_bytes(path, max_bytes=limit, expected_sha256=expected_sha256)
    return _File(os.fspath(path), content, limit, trusted=trusted or expected_sha256 is not None)


def _trial_scores(record: Record, classifier: Any) -> FloatArray | None:
    """Scores of artificial rows; raises ``ArtifactError`` if they get no score or probability."""
    try:
        with np.errstate(all="ignore"):
            scores = record.trial(classifier)
    except MissingExtraError:
        raise
    except Exception as error:  # a backend can raise any error if parts do not fit together
        raise ArtifactError(f"the classifier cannot score rows: {error!s:.300}") from error
    if scores is not None and not np.isfinite(scores).all():
        raise ArtifactError("the classifier cannot score rows: its scores must be finite.")
    return scores


def _compare(before: FloatArray | None, after: FloatArray | None) -> None:
    """Raise unless the classifier that was read back has the scores of the one that was written."""
    if before is None or after is None:
        return
    if before.shape != after.shape or not np.allclose(before, after, rtol=_CLOSE, atol=_CLOSE):
        raise ArtifactError(
            "the written file does not reproduce the scores of the classifier, so nothing was "
            "saved."
        )
