"""Small charts as SVG text, with the colours of the page and without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape

from drpu._typing import FloatArray

__all__ = ["Chart", "percent", "plain"]

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 12, 42


def percent(value: float) -> str:
    """A share in percent, with the digits that it needs."""
    return f"{100 * value:.4g}%"


def plain(value: float) -> str:
    """A number as text."""
    return f"{value:g}"


class Chart:
    """A frame with two axes, to which marks are added; :meth:`draw` returns the SVG element.

    Parameters
    ----------
    title, description : str
        Read out by screen readers.
    x, y : tuple of float
        Ranges of the axes.
    x_label, y_label : str
        Their names.
    name : str
        Identifier, for scripts in the page.
    """

    def __init__(
        self,
        title: str,
        description: str,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        x_label: str,
        y_label: str,
        name: str,
    ) -> None:
        self.title, self.description, self.name = title, description, name
        self.x, self.y, self.x_label, self.y_label = x, y, x_label, y_label
        self._marks: list[str] = []

    # -- places ------------------------------------------------------------------------

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Position of a point in the drawing; points outside are moved to the frame."""
        share_x = (min(max(x, self.x[0]), self.x[1]) - self.x[0]) / (self.x[1] - self.x[0])
        share_y = (min(max(y, self.y[0]), self.y[1]) - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + share_x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share_y * (HEIGHT - TOP - BOTTOM)

    # -- marks -------------------------------------------------------------------------

    def line(self, x: Iterable[float] | FloatArray, y: Iterable[float] | FloatArray, kind: str) -> Chart:
        """A line through points."""
        path = _path(self.at(float(a), float(b)) for a, b in zip(x, y, strict=True))
        return self._add(f'<path class="line {kind}" d="{path}"/>')

    def steps(self, edges: FloatArray, heights: FloatArray, kind: str) -> Chart:
        """A histogram outline over ``edges``, filled lightly."""
        points = [self.at(float(edges[0]), 0)]
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            points += [self.at(float(left), float(height)), self.at(float(right), float(height))]
        points.append(self.at(float(edges[-1]), 0))
        return self._add(f'<path class="area {kind}" d="{_path(points)}"/>')

    def band(self, low: float, high: float, kind: str) -> Chart:
        """A horizontal band."""
        (x0, y0), (x1, y1) = self.at(self.x[0], high), self.at(self.x[1], low)
        size = f'width="{x1 - x0:.1f}" height="{max(y1 - y0, 1):.1f}"'
        return self._add(f'<rect class="band {kind}" x="{x0:.1f}" y="{y0:.1f}" {size}/>')

    def bar(self, x: float, low: float, high: float, kind: str) -> Chart:
        """A vertical interval."""
        (px, y0), (_, y1) = self.at(x, high), self.at(x, low)
        return self._add(f'<path class="bar {kind}" d="M{px:.1f} {y0:.1f}V{y1:.1f}"/>')

    def dot(self, x: float, y: float, kind: str, *, name: str = "") -> Chart:
        """A point."""
        px, py = self.at(x, y)
        identity = f' id="{name}"' if name else ""
        return self._add(f'<circle{identity} class="dot {kind}" cx="{px:.1f}" cy="{py:.1f}" r="5"/>')

    def rule(self, x: float, kind: str, *, name: str) -> Chart:
        """A vertical line over the full height, which a script may move."""
        px, floor = self.at(x, self.y[0])
        place = f'x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{floor:.1f}"'
        return self._add(f'<line id="{name}" class="rule {kind}" {place}/>')

    def text(self, x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> Chart:
        """Text at a point."""
        return self._add(_text(f"note {kind}", *self.at(x, y), words, anchor))

    def _add(self, mark: str) -> Chart:
        self._marks.append(mark)
        return self

    # -- the chart ---------------------------------------------------------------------

    def draw(
        self,
        x_format: Callable[[float], str] = plain,
        y_format: Callable[[float], str] = plain,
        *,
        x_ticks: Iterable[float] | None = None,
    ) -> str:
        """The chart as an SVG element; ticks at round numbers unless places are given."""
        places = ticks(*self.x) if x_ticks is None else x_ticks
        frame = "".join([*self._x_ticks(places, x_format), *self._y_ticks(y_format)])
        return (
            f'<svg id="{self.name}" role="img" aria-labelledby="{self.name}-t {self.name}-d" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" data-x="{self.x[0]!r} {self.x[1]!r} {LEFT} {WIDTH - RIGHT}" '
            f'data-y="{self.y[0]!r} {self.y[1]!r} {HEIGHT - BOTTOM} {TOP}">'
            f'<title id="{self.name}-t">{escape(self.title)}</title>'
            f'<desc id="{self.name}-d">{escape(self.description)}</desc>'
            f"{frame}{''.join(self._marks)}"
            f"{_text('axis', (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x_label, 'middle')}"
            f'<text class="axis" transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text></svg>'
        )

    def _x_ticks(self, places: Iterable[float], form: Callable[[float], str]) -> Iterable[str]:
        for value in places:
            px, py = self.at(value, self.y[0])
            yield f'<path class="grid" d="M{px:.1f} {TOP}V{py:.1f}"/>'
            yield _text("tick", px, py + 16, form(value), "middle")

    def _y_ticks(self, form: Callable[[float], str]) -> Iterable[str]:
        for value in ticks(*self.y):
            px, py = self.at(self.x[0], value)
            yield f'<path class="grid" d="M{px:.1f} {py:.1f}H{WIDTH - RIGHT}"/>'
            yield _text("tick", px - 6, py + 4, form(value), "end")


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers between ``low`` and ``high``: steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def _text(kind: str, x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
