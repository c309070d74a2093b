"""``drpu verify``: checks a saved classifier without loading it."""

from __future__ import annotations

from typing import Annotated

import drpu
from drpu.cli.options import Saved, option
from drpu.cli.show import Result, about, size


def verify(
    saved: Saved,
    max_bytes: Annotated[
        int | None, option(help="Maximum bytes of the file and its content.", min=1)
    ] = None,
) -> Result:
    """Check a saved classifier without loading it: sizes, names, digests, types, states and trees.

    Digests inside the file detect accidental damage only. To detect a file that was changed on
    purpose, give the digest that you expect.

    Examples
    --------
    drpu verify fraud.drpu
    drpu verify fraud.drpu --sha256 DIGEST --json
    """
    from drpu.files.archive import MAX_BYTES

    if max_bytes is None:
        max_bytes = MAX_BYTES
    with about(saved.artifact):
        summary = drpu.verify(
            saved.artifact, trusted=saved.trusted, max_bytes=max_bytes, expected_sha256=saved.sha256
        )
    values = {"artifact": str(saved.artifact), "verified": True} | summary.as_dict()
    lines = {"verified": str(saved.artifact)} | summary.lines()
    return Result(values, lines | {"size": size(summary.bytes)})
