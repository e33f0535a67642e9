"""Representations of a value: `_repr_*_` methods of notebooks, data frames and figures."""

import base64
import datetime
import io
import math
import sys

from sandbar_kernel.charts import chart_of_figure
from sandbar_kernel.formatters import FORMATTERS, TEXT, call
from sandbar_kernel.plain import NotPlain, plain
from sandbar_kernel.pretty import pretty


def formats_of(value, text_of=pretty):
    """A value as an object from type to content."""
    data = {"text/plain": text_of(value)}
    if isinstance(value, type):
        return data
    bundle = _said(lambda: call(value, "_repr_mimebundle_", include=None, exclude=None))
    if isinstance(bundle, dict):
        data.update(bundle)
    for kind, formatter in list(FORMATTERS.items()):
        if kind not in data and formatter is not TEXT:
            data[kind] = _said(lambda: formatter(value))
    if isinstance(value, (list, dict)) and data.get("application/json") is None:
        try:
            data["application/json"] = plain(value)
        except NotPlain:
            pass
    if is_a(value, "pandas", "DataFrame"):
        data["e2b/data"] = value.to_dict(orient="list")
    elif is_a(value, "matplotlib", "Figure"):
        if data.get("image/png") is None:
            data["image/png"] = png_of_figure(value)
        data["e2b/chart"] = _guarded(lambda: chart_of_figure(value))
    return {str(kind): sendable(content) for kind, content in data.items() if content is not None}


def is_a(value, package, name):
    """Whether a value is of a class of a package, which need not be there."""
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] == package for kind in type(value).__mro__
    )


def png_of_figure(figure):
    image = io.BytesIO()
    figure.canvas.print_figure(image, format="png", bbox_inches="tight", facecolor=figure.get_facecolor())
    return image.getvalue()


def _said(function):
    """Calls a method or function; drops metadata, and returns nothing if it fails."""
    content = _guarded(function)
    return content[0] if isinstance(content, tuple) and content else content


def _guarded(function):
    try:
        return function()
    except Exception as error:
        if not isinstance(error, NotImplementedError):
            print("%s: %s" % (type(error).__name__, error), file=sys.stderr)
        return None


def sendable(value):
    """Converts a value for JSON: no NaN, which JavaScript cannot parse, and no types of packages."""
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): sendable(element) for key, element in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [sendable(element) for element in value]
    if isinstance(value, (datetime.date, datetime.time)):
        try:
            return value.isoformat()
        except Exception:
            return None
    for method in ("tolist", "item"):
        # Numbers and arrays of numpy.
        if hasattr(value, method):
            try:
                plain = getattr(value, method)()
            except Exception:
                continue
            if type(plain) is not type(value):
                return sendable(plain)
    return str(value)
