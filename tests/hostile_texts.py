"""Texts that harm a page, a terminal, a spreadsheet or a plot if they are not escaped."""

FORMULAS = (
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1+1",
    "\u200b=1+1",
    "\xa0=1+1",
    "\ufeff@SUM(A1)",
    "\uff1d1+1",
    "\uff0b1+1",
    "\uff20SUM(A1)",
    "\u200e\u2212A1",
)
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;",
    "'\">",
    "\x1b[31m",
    "{0}",
    "{value}",
    "$\\frac{$",
    "\u202eevil",
    *FORMULAS,
)
