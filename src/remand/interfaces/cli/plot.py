"""The analysis of rejections, drawn as four panels in one SVG or PNG file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from remand.app.analysis.rejection_analysis import UNANSWERED, Analysis, RejectionRow
from remand.app.errors import EnvironmentFault, UsageError
from remand.domain.reasons import DecisionType
from remand.interfaces.cli.output import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


FORMATS = ("svg", "png")
_INK, _FAINT = "#1f2933", "#9aa5b1"
_COLORS = {
    DecisionType.OVERRIDE.name: "#d64545",
    DecisionType.ACCEPT.name: "#2f6690",
    DecisionType.ACCEPT_AND_DEFER.name: "#3a9ec2",
    DecisionType.ACCEPT_AND_DECOMPOSE.name: "#6fb98f",
    DecisionType.ACCEPT_AND_REFORMULATE.name: "#e0b04a",
    UNANSWERED: "#cbd2d9",
    "UNKNOWN": "#9aa5b1",
}
_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    # What agents wrote is text, whatever dollars it holds.
    "text.parse_math": False,
    "text.usetex": False,
    # The same analysis gives the same file.
    "svg.hashsalt": "remand",
    # Text in an SVG stays text: whoever shows it has fonts for scripts that are not installed here.
    "svg.fonttype": "none",
}
_FALLBACKS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Droid Sans Fallback", "Noto Sans")
_FAMILY = "DejaVu Sans"
_MOST_AGENTS, _MOST_BLOCKERS = 12, 8
_LABEL = 76
_MARK = "\N{REPLACEMENT CHARACTER}"


def require_format(file: str) -> None:
    """Refuses a file whose name says no format that can be drawn."""
    if _format(file) not in FORMATS:
        raise UsageError(f"--plot writes .svg or .png, not {os.path.basename(file)!r}.")


def draw(analysis: Analysis, file: str) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentFault(
            "Drawing needs matplotlib, which is not installed. Run: pip install 'remand[plot]'"
        ) from None
    is_svg = _format(file) == "svg"
    fonts = _Fonts(are_here=not is_svg)
    settings: Any = {**_SETTINGS, "font.family": fonts.families}
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(12, 8), layout="constrained")
        _draw_panels(figure, analysis, fonts)
        metadata = {"Date": None} if is_svg else {"Software": None}
        try:
            figure.savefig(file, format=_format(file), dpi=150, metadata=metadata)
        except OSError as error:
            raise EnvironmentFault(f"{file} cannot be written: {error.strerror}.") from None


def _format(file: str) -> str:
    return os.path.splitext(file)[1].lower().removeprefix(".")


class _Fonts:
    """The fonts there are, and which characters they can show. An SVG is shown with the fonts of its reader."""

    def __init__(self, *, are_here: bool) -> None:
        from matplotlib.font_manager import findfont, fontManager, get_font

        installed = set(fontManager.get_font_names())
        self.families = [_FAMILY, *(name for name in _FALLBACKS if name in installed)]
        self._are_here = are_here
        self._known: set[int] = set()
        for name in self.families:
            self._known.update(get_font(findfont(name)).get_charmap())

    def label(self, text: str, limit: int = _LABEL) -> str:
        """A text as one short line, with a mark instead of what cannot be shown."""
        return "".join(char if self._shows(ord(char)) else _MARK for char in one_line(text, limit))

    def _shows(self, code: int) -> bool:
        # What Unicode will never assign makes an SVG unreadable.
        return code in self._known if self._are_here else code & 0xFFFE != 0xFFFE


def _draw_panels(figure: Figure, analysis: Analysis, fonts: _Fonts) -> None:
    since = f" since {analysis.since[:10]}" if analysis.since else ""
    rate = f", {analysis.override_rate * 100:.0f} % overridden" if analysis.answered else ""
    total = analysis.total_rejections
    title = f"{total:,} rejection{'s' * (total != 1)}{since}{rate}"
    figure.suptitle(title, x=0.012, ha="left", fontsize=15, fontweight="bold")
    # Each panel is laid out on its own: one panel's long names do not push the others aside.
    parts: Any = figure.subfigures(2, 2)
    reasons, agents, days, blockers = (part.subplots() for part in parts.flat)
    _reasons(reasons, analysis.reasons, fonts)
    _agents(agents, analysis.agents, fonts)
    _days(days, analysis)
    _blockers(blockers, analysis, fonts)


def _draw_empty(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=_FAINT, transform=axes.transAxes)


def _count_along(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _name_bars(axes: Axes, labels: Sequence[str]) -> None:
    """Names horizontal bars, the first on top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()


def _reasons(axes: Axes, rows: Sequence[RejectionRow], fonts: _Fonts) -> None:
    axes.set_title("By reason, with answers")
    if not rows:
        _draw_empty(axes, "no rejections")
        return
    left = [0] * len(rows)
    for decision, color in _COLORS.items():
        counts = [row.decisions.get(decision, 0) for row in rows]
        if any(counts):
            label = decision.lower().replace("_", " ")
            axes.barh(range(len(rows)), counts, left=left, color=color, label=label, height=0.7)
            left = [start + count for start, count in zip(left, counts, strict=True)]
    _name_bars(axes, [fonts.label(row.key.lower().replace("_", " "), 24) for row in rows])
    _count_along(axes.xaxis)
    axes.set_xlabel("rejections")
    axes.legend(loc="lower right")


def _agents(axes: Axes, rows: Sequence[RejectionRow], fonts: _Fonts) -> None:
    rated = [row for row in rows if row.overridden.rate is not None][:_MOST_AGENTS]
    most = f" ({_MOST_AGENTS} of {len(rows)})" if len(rows) > _MOST_AGENTS else ""
    axes.set_title(f"Overridden, by agent{most}, with 95 % intervals")
    if not rated:
        _draw_empty(axes, "no answered rejections yet")
        return
    for place, row in enumerate(rated):
        low, high = row.overridden.interval or (0.0, 1.0)
        axes.plot([low, high], [place, place], color=_FAINT, linewidth=2, solid_capstyle="round")
        axes.plot([row.overridden.rate or 0.0], [place], "o", color="#d64545", markersize=6)
    _name_bars(axes, [f"{fonts.label(row.key, 24)} ({row.rejections:,})" for row in rated])
    axes.set_ylim(len(rated) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(axis="x", color="#e4e7eb")
    axes.set_axisbelow(True)


def _days(axes: Axes, analysis: Analysis) -> None:
    """Counts by day, or by longer spans if there are many days."""
    axes.set_title("Over time")
    spans, overridden, others, width = _spans(analysis)
    if not spans:
        _draw_empty(axes, "no rejections")
        return
    days = [span.toordinal() + width / 2 for span in spans]
    wide = width * 0.9
    axes.bar(days, overridden, wide, color=_COLORS[DecisionType.OVERRIDE.name], label="overridden")
    axes.bar(days, others, wide, bottom=overridden, color=_COLORS[DecisionType.ACCEPT.name], label="others")
    step = max(1, (len(spans) + 5) // 6)
    axes.set_xticks(days[::step], [span.isoformat() for span in spans[::step]])
    _count_along(axes.yaxis)
    axes.set_ylabel("rejections a day" if width == 1 else f"rejections in {width} days")
    axes.set_xlim(min(days) - max(width, 3), max(days) + max(width, 3))
    axes.margins(y=0.15)
    axes.legend(loc="upper left", ncols=2)


def _spans(analysis: Analysis, most: int = 60) -> tuple[list[date], list[int], list[int], int]:
    """The first day of each span, how many were overridden in it and how many were not, and its number of days."""
    if not analysis.by_day:
        return [], [], [], 1
    first = date.fromisoformat(analysis.by_day[0].day)
    last = date.fromisoformat(analysis.by_day[-1].day)
    length = (last - first).days + 1
    width = -(-length // most)
    count = -(-length // width)
    overridden, others = [0] * count, [0] * count
    for day in analysis.by_day:
        span = (date.fromisoformat(day.day) - first).days // width
        overridden[span] += day.overridden
        others[span] += day.rejections - day.overridden
    return [first + timedelta(days=width * span) for span in range(count)], overridden, others, width


def _blockers(axes: Axes, analysis: Analysis, fonts: _Fonts) -> None:
    axes.set_title("Most common blockers")
    clusters = analysis.blocker_clusters[:_MOST_BLOCKERS]
    if not clusters:
        _draw_empty(axes, "no blockers")
        return
    axes.barh(range(len(clusters)), [one.count for one in clusters], color="#3a9ec2", height=0.32)
    for place, cluster in enumerate(clusters):
        axes.text(0, place - 0.24, f" {fonts.label(cluster.example)}", va="bottom", fontsize=8)
    axes.set_yticks([])
    axes.set_ylim(max(len(clusters), 4) - 0.6, -0.75)
    _count_along(axes.xaxis)
    axes.set_xlabel("accepted rejections, near-duplicates merged")
