"""`display`, and the classes of `IPython.display` for sandboxes without IPython."""

import json
import uuid

from sandbar_kernel.rich import formats_of, sendable


class Displayer(object):
    """Sends values to the client that runs the cell."""

    def __init__(self, line):
        self._line = line

    def send(self, data, main=False):
        if data:
            self._line.tell({"type": "result", "data": data, "main": main})

    def show(self, value, main=False):
        own = getattr(type(value), "_ipython_display_", None)
        if own is not None and not isinstance(value, type):
            own(value)
        else:
            self.send(formats_of(value), main)

    def display(self, *objs, **options):
        """Shows values; with `raw=True` they are objects from type to content already."""
        for value in objs:
            if options.get("raw"):
                self.send(sendable(value))
            else:
                self.show(value)
        wanted = options.get("display_id")
        return Handle(self, uuid.uuid4().hex if wanted is True else wanted) if wanted else None


class Handle(object):
    """Handle of a displayed value. As in E2B, a result that was sent is never updated."""

    def __init__(self, displayer, display_id):
        self._displayer = displayer
        self.display_id = display_id

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, obj, **options):
        self._displayer.display(obj, **options)

    def update(self, obj, **_):
        pass


class Shown(object):
    """A text or bytes to be shown in one format."""

    method = None
    binary = False

    def __init__(self, data=None, url=None, filename=None, **_):
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
            if not self.binary:
                data = data.decode()
        self.data = data
        self.url = url

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__

    def __init_subclass__(cls):
        setattr(cls, cls.method, lambda self: self.data)


class HTML(Shown):
    method = "_repr_html_"


class Markdown(Shown):
    method = "_repr_markdown_"


class Latex(Shown):
    method = "_repr_latex_"


class Math(Shown):
    method = "_repr_latex_"

    def __init__(self, data=None, **options):
        Shown.__init__(self, "$\\displaystyle %s$" % str(data).strip("$"), **options)


class SVG(Shown):
    method = "_repr_svg_"


class Javascript(Shown):
    method = "_repr_javascript_"


class JSON(Shown):
    method = "_repr_json_"

    def __init__(self, data=None, **options):
        Shown.__init__(self, json.loads(data) if isinstance(data, (str, bytes)) else data, **options)


class Pretty(object):
    """Plain text."""

    def __init__(self, data=None, **_):
        self.data = data

    def __repr__(self):
        return self.data


class IFrame(object):
    """An embedded page."""

    def __init__(self, src, width, height, **_):
        self.src = src
        self.width = width
        self.height = height

    __repr__ = Shown.__repr__

    def _repr_html_(self):
        return '<iframe width="%s" height="%s" src="%s" frameborder="0" allowfullscreen></iframe>' % (
            self.width,
            self.height,
            self.src,
        )


class Image(object):
    """A PNG or JPEG, from bytes or a file."""

    def __init__(self, data=None, url=None, filename=None, format=None, **_):
        if isinstance(data, str):
            data, filename = None, data
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        self.data = data
        self.url = url
        is_jpeg = (data or b"").startswith(b"\xff\xd8") if format is None else format.lower() in ("jpg", "jpeg")
        self.format = "jpeg" if is_jpeg else "png"

    __repr__ = Shown.__repr__

    def _repr_png_(self):
        return self.data if self.format == "png" else None

    def _repr_jpeg_(self):
        return self.data if self.format == "jpeg" else None

    def _repr_html_(self):
        return '<img src="%s"/>' % self.url if self.data is None and self.url else None


CLASSES = {kind.__name__: kind for kind in (HTML, Markdown, Latex, Math, SVG, Javascript, JSON, Pretty, IFrame, Image)}
