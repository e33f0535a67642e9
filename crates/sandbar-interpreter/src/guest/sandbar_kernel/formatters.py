"""What says how values look in each format: functions that cells register for a class, else a method of the value.

This is `get_ipython().display_formatter.formatters`, so packages may add to it, and formats of their own as well.
"""

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


class Formatter(object):
    """The functions and the method of one format."""

    enabled = True

    def __init__(self, method=None):
        self._method = method
        # By class, or by the name of one that need not be imported yet.
        self.type_printers = {}

    def for_type(self, kind, function=None):
        """Registers a function for a class, or its full name; gives what was there."""
        before = self.type_printers.get(kind)
        if function is not None:
            self.type_printers[kind] = function
        return before

    def for_type_by_name(self, module, name, function=None):
        return self.for_type("%s.%s" % (module, name), function)

    def pop(self, kind, default=None):
        return self.type_printers.pop(kind, default)

    def registered(self, value):
        """The function for the nearest class of a value."""
        if self.type_printers:
            for kind in type(value).__mro__:
                for key in (kind, "%s.%s" % (kind.__module__, kind.__qualname__)):
                    if key in self.type_printers:
                        return self.type_printers[key]
        return None

    def __call__(self, value):
        function = self.registered(value)
        return call(value, self._method) if function is None else function(value)


def call(value, method, **arguments):
    """What a method of a value says; one that is not there says nothing."""
    # Objects that answer to every name (mocks, proxies) would claim all formats.
    if getattr(type(value), "__getattr__", None) is not None and not hasattr(type(value), method):
        return None
    function = getattr(value, method, None)
    return function(**arguments) if callable(function) else None


TEXT = Formatter()
FORMATTERS = dict({kind: Formatter(method) for kind, method in METHODS.items()}, **{"text/plain": TEXT})
