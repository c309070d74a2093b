"""Artifacts with changes inside, whose digests are right."""

from benchmarks._fuzz import repacked, unpacked


def rewrite(path, change):
    """Apply ``change(manifest, parts)`` to an artifact and make every digest right again."""
    manifest, parts = unpacked(path.read_bytes())
    change(manifest, parts)
    path.write_bytes(repacked(manifest, parts))


def setting(*keys):
    """The change that sets the last of these values at the place that the others name in the manifest."""
    *way, last, value = keys

    def change(manifest, parts):
        place = manifest
        for key in way:
            place = place[key]
        assert place[last] != value
        place[last] = value

    return change
