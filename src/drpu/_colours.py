"""The colours of plots and of HTML pages, each in this place only."""

from __future__ import annotations

# Of plots.
POSITIVE = "#d55e00"
UNLABELED = "#6b7680"
NEW = "#0072b2"
DECISION = "#8a1c7c"
EVEN = "#b3b3b3"
INK = "#000000"
SHEET = "#ffffff"

# Of pages, as variables of their style sheets; those of texts are darker than in plots.
LIGHT = {
    "page": "#fbfbf9",
    "sheet": SHEET,
    "ink": "#1d2327",
    "soft": "#5a646b",
    "edge": "#dcdfe0",
    "even": "#9aa3a9",
    "positive": "#b84a00",
    "unlabeled": "#65707a",
    "new": "#0063a3",
    "decision": DECISION,
    "care": "#fff4dc",
    "care-edge": "#c98a00",
    "refused": "#b00020",
}
DARK = {
    "page": "#14181b",
    "sheet": "#1c2226",
    "ink": "#e8ecee",
    "soft": "#a5b0b7",
    "edge": "#363f45",
    "even": "#77828a",
    "positive": "#ff9a57",
    "unlabeled": "#a9b4bc",
    "new": "#62b8f5",
    "decision": "#f08be0",
    "care": "#33290f",
    "care-edge": "#d9a021",
    "refused": "#ff8a9a",
}
PRINTED = {"page": SHEET, "sheet": SHEET, "ink": INK, "soft": "#444444", "edge": "#bbbbbb"}

# Colours of plots as variables, which differ between light and dark pages.
IN_PAGES = {
    POSITIVE: "var(--positive)",
    UNLABELED: "var(--unlabeled)",
    NEW: "var(--new)",
    DECISION: "var(--decision)",
    EVEN: "var(--even)",
    INK: "var(--ink)",
    SHEET: "var(--sheet)",
}


def page_colours() -> str:
    """The beginning of the style sheet of a page: its colours, by light, dark and print."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"@media print {{ :root {{ {_variables(PRINTED)} }} }}\n"
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
