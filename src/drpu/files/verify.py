"""verify: the checks of load, without making a classifier."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drpu._checks import check_integer
from drpu._state import ModelState, class_of
from drpu.classifier.fitted import FittedRatio
from drpu.classifier.kept import KeptClassifier
from drpu.exceptions import ArtifactError
from drpu.files.container import MAX_BYTES, read_bytes
from drpu.files.signature import check_signature
from drpu.files.store import read_state
from drpu.functions._bridge import function_of

__all__ = ["Verified", "verify"]


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
        What the file keeps of the training rows, as stated in the file.
    signed : bool
        Whether a signature was checked and is valid.
    """

    sha256: str
    bytes: int
    kind: str
    schema: int
    versions: dict[str, str]
    contents: dict[str, Any]
    signed: bool

    def as_dict(self) -> dict[str, Any]:
        """The facts as plain values, for JSON."""
        return asdict(self)


def verify(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    expected_sha256: str | None = None,
    signature: str | os.PathLike[str] | None = None,
    public_key: str | os.PathLike[str] | None = None,
) -> Verified:
    """Check an artifact without making a classifier.

    Sizes, names, digests, types, states, trees and estimators are checked as by
    :func:`drpu.load`. No model is made, nothing is scored, and torch and LightGBM are not used.

    Parameters
    ----------
    path : path-like
        The artifact.
    max_bytes : int, default=1073741824
        Maximum size in bytes of the file, and of its content after decompression.
    expected_sha256 : str, optional
        SHA-256 digest that the file must have, in hexadecimal.
    signature : path-like, optional
        Signature that :func:`drpu.sign` wrote. With a ``public_key`` the default is ``path`` followed by
        ``.sig``.
    public_key : path-like, optional
        Public key of the expected signer. Needs the ``sign`` extra.

    Returns
    -------
    verified : Verified

    Raises
    ------
    ArtifactError
        If anything is wrong with the file or its signature.

    Examples
    --------
    >>> import tempfile
    >>> from drpu import DRPUClassifier, make_gaussian_pu, save, verify
    >>> data = make_gaussian_pu(200, 500, prior=0.4, separation=3, random_state=0)
    >>> path = Path(tempfile.mkdtemp()) / "toy.drpu"
    >>> save(DRPUClassifier("kernel", random_state=0).fit(*data.X_y()), path)
    >>> found = verify(path)
    >>> found.kind, found.contents["training_rows"], found.signed
    ('DRPUClassifier', False, False)
    """
    content = read_bytes(
        path, max_bytes=check_integer("max_bytes", max_bytes, low=1), expected_sha256=expected_sha256
    )
    if public_key is not None or signature is not None:
        check_signature(content, signature or Path(f"{os.fspath(path)}.sig"), public_key)
    try:
        manifest, state = read_state(content, max_bytes=max_bytes)
        _check_classifier(state)
    except ArtifactError:
        raise
    except Exception as error:  # a damaged file can cause any error
        raise ArtifactError(f"{os.fspath(path)!r} is damaged: {error!s:.500}") from error
    return Verified(
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        kind=state.kind,
        schema=manifest["schema"],
        versions=_texts(manifest.get("versions")),
        contents=manifest["contents"] if isinstance(manifest.get("contents"), dict) else {},
        signed=public_key is not None,
    )


def _check_classifier(state: ModelState) -> None:
    class_of("drpu.classifier", state, KeptClassifier)
    for name, part in state.parts.items():
        if name == "fitted":
            FittedRatio.check_state(part)
        elif name == "model":
            function_of(part)


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {name[:40]: text[:40] for name, text in found.items() if isinstance(text, str)}
