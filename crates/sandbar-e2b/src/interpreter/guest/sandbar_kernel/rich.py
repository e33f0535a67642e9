"""What a value looks like in the formats it offers: the `_repr_*_` methods of notebooks, data frames and figures."""

import base64
import datetime
import io
import math
import sys

from sandbar_kernel.charts import chart_of_figure
from sandbar_kernel.plain import NotPlain, plain
from sandbar_kernel.pretty import pretty

METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
    "e2b/data": "_repr_e2b_data_",
    "e2b/chart": "_repr_e2b_chart_",
}


def formats_of(value, text_of=pretty):
    """A value as an object from type to content."""
    data = {"text/plain": text_of(value)}
    if isinstance(value, type):
        return data
    bundle = _call(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(bundle, dict):
        data.update(bundle)
    for kind, method in METHODS.items():
        if kind not in data:
            content = _call(value, method)
            if content is not None:
                data[kind] = content
    if isinstance(value, (list, dict)) and "application/json" not in data:
        try:
            data["application/json"] = plain(value)
        except NotPlain:
            pass
    if is_a(value, "pandas", "DataFrame"):
        data["e2b/data"] = value.to_dict(orient="list")
    elif is_a(value, "matplotlib", "Figure"):
        if "image/png" not in data:
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


def _call(value, method, **arguments):
    """What a method says; one that is not there or fails says nothing. Some answer with metadata as well."""
    # Objects that answer to every name (mocks, proxies) would claim all formats.
    if getattr(type(value), "__getattr__", None) is not None and not hasattr(type(value), method):
        return None
    function = getattr(value, method, None)
    if not callable(function):
        return None
    content = _guarded(lambda: function(**arguments))
    return content[0] if isinstance(content, tuple) and content else content


def _guarded(function):
    try:
        return function()
    except Exception as error:
        if not isinstance(error, NotImplementedError):
            print("%s: %s" % (type(error).__name__, error), file=sys.stderr)
        return None


def sendable(value):
    """A value as JSON can have it: no NaN, which JavaScript cannot read, no numbers or dates of other packages."""
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
