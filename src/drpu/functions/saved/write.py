"""scikit-learn estimators written as bytes; equal estimators give equal bytes.

The archive is a zip file with ``schema.json``, a tree of typed nodes, and one ``.npy`` file for each
array. skops writes it. Here the identities of objects, which skops uses as names, are replaced by
numbers, and values that predictions do not need are left out: random states, optimisers, search trees.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from drpu.exceptions import ArtifactError
from drpu.functions.saved.allowed import TYPES, parts_of, type_name
from drpu.functions.saved.nodes import NONE, SCHEMA, is_dropped

__all__ = ["write_estimators"]


def write_estimators(estimators: list[Any]) -> bytes:
    """An archive of fitted estimators; the same estimators give the same bytes."""
    strange = sorted({type_name(part) for part in parts_of(estimators)} - TYPES)
    if strange:
        raise ArtifactError(
            f"an artifact cannot contain {strange[0]}, which is not among the types that can be read back "
            "safely: choose another estimator, or keep this classifier in the process that fitted it."
        )
    from skops import io as skops

    with zipfile.ZipFile(io.BytesIO(skops.dumps(estimators))) as archive:
        writer = _Writer(archive)
        schema = writer.node(json.loads(archive.read(SCHEMA)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # not compressed, because the artifact that contains it is
        for name, content in {SCHEMA: json.dumps(schema).encode(), **writer.files}.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


class _Writer:
    """Copies nodes and numbers identities and files in the order of their occurrence."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.files: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self.nodes = 0

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.node(item) for item in node]
        if not isinstance(node, dict):
            return node
        if is_dropped(node):
            node = NONE
        copy = {
            key: self.node(value) for key, value in node.items() if key not in ("__id__", "_skops_version")
        }
        if "__loader__" in node:
            self.nodes += 1
            copy["__id__"] = self.nodes
            if isinstance(node.get("file"), str):
                copy["file"] = self.file(_without_padding(self.archive.read(node["file"])))
        return copy

    def file(self, content: bytes) -> str:
        if content not in self.names:
            self.names[content] = f"{len(self.names)}.npy"
            self.files[self.names[content]] = content
        return self.names[content]


def _without_padding(content: bytes) -> bytes:
    """The array with zeros in the padding between the fields of its records, which is undefined in memory."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean = np.frombuffer(bytearray(array.nbytes), dtype=array.dtype).reshape(array.shape)
    for name in array.dtype.names:
        clean[name] = array[name]
    out = io.BytesIO()
    np.lib.format.write_array(out, clean, allow_pickle=False)
    return out.getvalue()
