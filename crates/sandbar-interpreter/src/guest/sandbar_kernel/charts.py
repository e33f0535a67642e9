"""The data of a matplotlib figure, in the shape the SDKs know as a chart."""

import datetime
import re

UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def chart_of_figure(figure):
    axes = figure.get_axes()
    if not axes:
        return None
    if len(axes) == 1:
        return chart_of_axes(axes[0])
    return {"type": "superchart", "title": _title_of_figure(figure) or None, "elements": [chart_of_axes(ax) for ax in axes]}


def _title_of_figure(figure):
    if hasattr(figure, "get_suptitle"):
        return figure.get_suptitle()
    # Before matplotlib 3.8.
    text = getattr(figure, "_suptitle", None)
    return text.get_text() if text is not None else None


def chart_of_axes(ax):
    kind = kind_of_axes(ax)
    chart = {"type": kind, "title": ax.get_title() or None, "elements": []}
    if kind in ("line", "scatter", "bar", "box_and_whisker"):
        chart.update(_labels(ax))
    {
        "line": _line,
        "scatter": _scatter,
        "bar": _bar,
        "pie": _pie,
        "box_and_whisker": _box_and_whisker,
    }.get(kind, lambda *_: None)(ax, chart)
    return chart


def kind_of_axes(ax):
    """What the things drawn say. Texts say nothing, and neither do lines of a grid among other things."""
    drawn = [thing for thing in ax._children if not _is(thing, "Text")]
    if all(_is(thing, "Line2D") for thing in drawn):
        return "line"
    if all(_is(thing, "PathPatch", "Line2D") for thing in drawn):
        return "box_and_whisker"
    drawn = [thing for thing in drawn if not (_is(thing, "Line2D") and _is_grid_line(thing))]
    for kind, name in (("scatter", "PathCollection"), ("pie", "Wedge"), ("bar", "Rectangle")):
        if all(_is(thing, name) for thing in drawn):
            return kind
    return "unknown"


def _is(thing, *names):
    # By name, so that nothing of matplotlib need be imported here.
    return any(kind.__name__ in names for kind in type(thing).__mro__)


def _is_grid_line(line):
    """A line across the whole axes."""
    x, y = list(line.get_xdata()), list(line.get_ydata())
    if len(x) != 2 or len(y) != 2:
        return False
    return x[0] == x[1] or y[0] == y[1]


def _labels(ax):
    named = {"x_label": ax.get_xlabel() or None, "y_label": ax.get_ylabel() or None}
    for axis in "xy":
        found = UNIT.search(named[axis + "_label"] or "")
        named[axis + "_unit"] = (found.group(1) or found.group(2)) if found else None
    return named


def _swap_axes(chart):
    for what in ("label", "unit"):
        chart["x_" + what], chart["y_" + what] = chart["y_" + what], chart["x_" + what]


def _scales(ax, chart):
    for name in "xy":
        axis = getattr(ax, name + "axis")
        ticks = list(getattr(ax, "get_%sticks" % name)())
        labels = [label.get_text() for label in getattr(ax, "get_%sticklabels" % name)()]
        dates = _has_dates(axis)
        chart[name + "_ticks"] = [_date_of_tick(tick) if dates else _number(tick) for tick in ticks]
        chart[name + "_tick_labels"] = labels
        scale = getattr(ax, "get_%sscale" % name)()
        chart[name + "_scale"] = "datetime" if dates else _scale(scale, chart[name + "_ticks"], labels)


def _has_dates(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else getattr(axis, "converter", None)
    return converter is not None and "Date" in type(converter).__name__


def _date_of_tick(tick):
    import matplotlib.dates

    return matplotlib.dates.num2date(tick).isoformat()


def _scale(scale, ticks, labels):
    if scale != "linear":
        return scale
    # Categories are drawn at 0, 1, 2, … and labelled with something else.
    categories = all(
        isinstance(tick, float) and tick == number and label != str(number)
        for number, (tick, label) in enumerate(zip(ticks, labels))
    )
    return "categorical" if categories else "linear"


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _coordinate(value):
    if isinstance(value, datetime.date):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    return _number(value)


def _points(pairs):
    return [[_coordinate(x), _coordinate(y)] for x, y in pairs]


def _line(ax, chart):
    _scales(ax, chart)
    for line in ax.get_lines():
        if _is_grid_line(line):
            continue
        label = str(line.get_label())
        if label.startswith("_child"):
            label = "Line " + label[len("_child") :]
        points = _points(zip(line.get_xdata(), line.get_ydata()))
        chart["elements"].append({"label": label, "points": points})


def _scatter(ax, chart):
    _scales(ax, chart)
    for collection in ax.collections:
        label = str(collection.get_label())
        if label.startswith("_child"):
            label = "Scatter " + label[len("_child") :]
        chart["elements"].append({"label": label, "points": _points(collection.get_offsets())})


def _bar(ax, chart):
    for container in ax.containers:
        group = str(container.get_label())
        if group.startswith("_container"):
            group = "Group " + group[len("_container") :]
        bars = list(container)
        heights = [float(bar.get_height()) for bar in bars]
        # Bars that lie have all the same height.
        lying = getattr(container, "orientation", None)
        lying = lying == "horizontal" if lying else all(height == heights[0] for height in heights)
        if lying:
            _swap_axes(chart)
            labels, values = ax.get_yticklabels(), [float(bar.get_width()) for bar in bars]
        else:
            labels, values = ax.get_xticklabels(), heights
        for label, value in zip(labels, values):
            chart["elements"].append({"label": label.get_text(), "group": group, "value": value})


def _pie(ax, chart):
    for wedge in ax.patches:
        chart["elements"].append(
            {
                "label": str(wedge.get_label()),
                "angle": abs(_rounded(float(wedge.theta2) - float(wedge.theta1))),
                "radius": float(wedge.r),
            }
        )


def _rounded(value):
    """Without what arithmetic left at the end."""
    return float("%.6g" % value)


def _box_and_whisker(ax, chart):
    boxes = []
    for patch in ax.patches:
        corners = patch.get_path().vertices
        xs, ys = [_rounded(float(at[0])) for at in corners], [_rounded(float(at[1])) for at in corners]
        boxes.append({"across": (min(xs), max(xs)), "along": (min(ys), max(ys)), "outliers": []})
    lying = len({_rounded(box["along"][1] - box["along"][0]) for box in boxes}) == 1 and len(boxes) > 1
    if lying:
        _swap_axes(chart)
        for box in boxes:
            box["across"], box["along"] = box["along"], box["across"]
    labels = ax.get_yticklabels() if lying else ax.get_xticklabels()
    for line in ax.get_lines():
        across = [_rounded(float(x)) for x in line.get_xdata()]
        along = [_rounded(float(y)) for y in line.get_ydata()]
        if lying:
            across, along = along, across
        for box in boxes:
            if across and all(box["across"][0] <= at <= box["across"][1] for at in across):
                _belongs_to(box, across, along)
                break
    for label, box in zip(labels, boxes):
        first, third = box["along"]
        chart["elements"].append(
            {
                "label": label.get_text(),
                "min": box.get("min", first),
                "first_quartile": first,
                "median": box.get("median", first),
                "third_quartile": third,
                "max": box.get("max", third),
                "outliers": box["outliers"],
            }
        )


def _belongs_to(box, across, along):
    """A line over a box: its median, one of its whiskers, the end of one, points outside, or its outline."""
    first, third = box["along"]
    if len(along) == 2 and along[0] == along[1] and first <= along[0] <= third:
        box["median"] = along[0]
    elif len(along) == 2 and along[0] != along[1] and max(along) == first:
        box["min"] = min(along)
    elif len(along) == 2 and along[0] != along[1] and min(along) == third:
        box["max"] = max(along)
    elif len(set(across)) == 1:
        box["outliers"] += along
