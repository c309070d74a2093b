from benchmarks.coverage import by_package, lines_by_file

REPORT = """<coverage><class filename="src/drpu/a.py"><lines><line hits="1"/><line hits="0"/></lines></class>
<class filename="src/drpu/b/c.py"><lines><line hits="2"/></lines></class></coverage>"""


def test_lines_are_added_up_and_files_below_the_aim_are_named(tmp_path):
    path = tmp_path / "coverage.xml"
    path.write_text(REPORT)
    files = lines_by_file(path)
    assert files == {"a.py": (2, 1), "b/c.py": (1, 1)}
    *packages, whole = by_package(files)
    assert [(row["package"], row["lines"], row["run"]) for row in packages] == [
        ("b", 1, 1),
        ("modules outside packages", 2, 1),
    ]
    assert (whole["lines"], whole["run"], whole["below"]) == (3, 2, {"a.py": 0.5})
