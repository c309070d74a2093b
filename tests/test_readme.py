from pathlib import Path

import pytest

from benchmarks.readme import filled

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.checkout
def test_the_readme_quotes_its_result_files():
    assert filled(README.read_text()) == README.read_text()


@pytest.mark.checkout
def test_the_picture_is_there():
    assert (README.parent / "docs" / "images" / "shift.png").stat().st_size > 10_000
