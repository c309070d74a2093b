"""Detached signatures, which prove who wrote an artifact.

A signature is Ed25519 over the bytes of the file, by the ``cryptography`` package. The private key
signs and must be kept secret; the public key verifies and may be published. Keys are PEM
files, so other tools can make and read them::

    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out key.pub.pem
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import Any

from drpu._optional import require
from drpu._output import check_output, output_file, path_of, write_output
from drpu.exceptions import ArtifactError, ParameterError
from drpu.files.archive import MAX_BYTES, read_bytes

HEADER = b"drpu signature, Ed25519\n"
MOST_KEY = 16_384


def make_keys(private: str | os.PathLike[str], public: str | os.PathLike[str]) -> None:
    """Write a new pair of keys as PEM files; the private one can be read by its owner only.

    Parameters
    ----------
    private, public : path-like
        Two different files. A private key that exists already is not replaced.
    """
    serialization = _crypto("hazmat.primitives.serialization")
    if Path(private).exists():
        raise ParameterError(f"private must be new, got {os.fspath(private)!r}: keys are not replaced.")
    if os.path.realpath(private) == os.path.realpath(public):
        raise ParameterError(f"private and public must be two files, got {os.fspath(private)!r} twice.")
    check_output(public)  # before a private key exists without its public one
    key = _crypto("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    pem, raw = serialization.Encoding.PEM, serialization.NoEncryption()
    with output_file(private) as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), 0o600)
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, raw))
    write_output(public, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))


def sign(
    path: str | os.PathLike[str],
    private_key: str | os.PathLike[str],
    *,
    signature: str | os.PathLike[str] | None = None,
    password: bytes | None = None,
) -> Path:
    """Write a detached signature of an artifact.

    Parameters
    ----------
    path : path-like
        The artifact.
    private_key : path-like
        PEM file of an Ed25519 key.
    signature : path-like, optional
        File for the signature; the default is ``path`` followed by ``.sig``.
    password : bytes, optional
        Password of the key.

    Returns
    -------
    signature : Path
        The file that was written.

    See Also
    --------
    verify : Checks an artifact and, with a public key, its signature.
    """
    content = read_bytes(path, max_bytes=MAX_BYTES)
    key = _read_key(private_key, private=True, password=password)
    target = Path(f"{os.fspath(path)}.sig") if signature is None else Path(signature)
    line = base64.b64encode(key.sign(content)) + b"\n"
    write_output(target, HEADER + line, inputs=[path, private_key])
    return target


def check_signature(
    content: bytes, signature: str | os.PathLike[str], public_key: str | os.PathLike[str] | None
) -> None:
    """Raise ``ArtifactError`` unless ``signature`` is a signature of ``content`` for ``public_key``."""
    if public_key is None:
        raise ParameterError(
            "public_key must be given to check a signature: the public key of the expected signer.",
            command="--public-key must be given to check a signature: the public key of the expected signer.",
        )
    key = _read_key(public_key, private=False)
    text = _read_small(signature, "signature")
    try:
        if not text.startswith(HEADER):
            raise ValueError("its first bytes are not those of a signature")
        value = base64.b64decode(text.removeprefix(HEADER).strip(), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ArtifactError(f"{os.fspath(signature)!r} is not a signature: {error}.") from error
    invalid = _crypto("exceptions").InvalidSignature
    try:
        key.verify(value, content)
    except invalid as error:
        raise ArtifactError(
            "the signature does not belong to this file and this key: the file was changed, or somebody else "
            "signed it."
        ) from error


def _read_key(path: str | os.PathLike[str], *, private: bool, password: bytes | None = None) -> Any:
    serialization = _crypto("hazmat.primitives.serialization")
    ed25519 = _crypto("hazmat.primitives.asymmetric.ed25519")
    kind = ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey
    name = "private" if private else "public"
    pem = _read_small(path, f"{name} key")
    try:
        if private:
            key = serialization.load_pem_private_key(pem, password)
        else:
            key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError, _crypto("exceptions").UnsupportedAlgorithm) as error:
        raise ArtifactError(f"{os.fspath(path)!r} is not a {name} key: {error!s:.200}") from error
    if not isinstance(key, kind):
        raise ArtifactError(f"{os.fspath(path)!r} must be an Ed25519 {name} key, got {type(key).__name__}.")
    return key


def _read_small(path: str | os.PathLike[str], name: str) -> bytes:
    with open(path_of(path), "rb") as file:
        content = file.read(MOST_KEY + 1)
    if len(content) > MOST_KEY:
        raise ArtifactError(f"{os.fspath(path)!r} is not a {name}: it has more than {MOST_KEY} bytes.")
    return content


def _crypto(module: str) -> Any:
    return require(f"cryptography.{module}", extra="sign", for_="signing")
