"""``drpu verify``: checks a saved classifier without loading it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["verify"]


def verify(
    artifact: given.Artifact,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 digest that the file must have.", show_default=False)
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Public key of the expected signer.", show_default=False)
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option(help="The signature; ARTIFACT.sig if left out.", show_default=False),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(help="Maximum bytes of the file and of its content.", min=1, show_default=False),
    ] = None,
    json: given.Json = False,
) -> None:
    """Check a saved classifier without loading it: sizes, names, digests, types, states and trees.

    Digests inside the file detect accidental damage only. To detect a file that was changed on purpose, give
    the digest that you expect, or the public key of the signer.

    Examples
    --------
    drpu verify fraud.drpu

    drpu verify fraud.drpu --public-key team.pub --json
    """
    from drpu.exceptions import ArtifactError
    from drpu.files.archive import MAX_BYTES
    from drpu.files.store import verify as check

    try:
        found = check(
            artifact,
            expected_sha256=sha256,
            signature=signature,
            public_key=public_key,
            max_bytes=MAX_BYTES if max_bytes is None else max_bytes,
        )
    except ArtifactError as error:
        raise error if str(artifact) in str(error) else ArtifactError(f"{artifact}: {error}") from error
    if json:
        show.as_json({"artifact": str(artifact), "verified": True} | found.as_dict())
        return
    signed = "yes, by the holder of that key" if found.signed else "not checked: give --public-key"
    show.facts(
        {
            "verified": str(artifact),
            "kind": f"{found.kind}, schema {found.schema}",
            "sha256": found.sha256,
            "size": show.size(found.bytes),
            "signed": signed,
            "keeps": ", ".join(f"{name}: {value}" for name, value in found.contents.items()) or "not stated",
            "written by": ", ".join(f"{name} {number}" for name, number in found.versions.items()),
        }
    )
