"""The text of a value, laid out as notebooks do it: on one line when it fits, else one element a line."""

import contextlib
import inspect
import types

from sandbar_kernel.formatters import TEXT

WIDTH = 79
# Longer collections are cut off here.
LONGEST = 1000


def pretty(value):
    return _layout(value, 0, 0, ())


def _layout(value, column, after, parents):
    """Formats a value that starts in a column and is followed by `after` more characters."""
    kind = type(value)
    if id(value) in parents:
        return {list: "[...]", dict: "{...}", tuple: "(...)"}.get(kind, "...")
    own = None if isinstance(value, type) else TEXT.registered(value) or getattr(kind, "_repr_pretty_", None)
    if callable(own):
        return _own(own, value, column, parents)
    if kind in (list, tuple, set, frozenset, dict) and kind.__repr__ in _COLLECTIONS:
        return _collection(value, kind, column, after, parents + (id(value),))
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
        return _function(value)
    return "<%s at 0x%x>" % (_name(kind), id(value)) if kind.__repr__ is object.__repr__ else repr(value)


_COLLECTIONS = (list.__repr__, tuple.__repr__, set.__repr__, frozenset.__repr__, dict.__repr__)


def _collection(value, kind, column, after, parents):
    if not value:
        return repr(value)
    start, end = {
        list: ("[", "]"),
        tuple: ("(", ",)" if len(value) == 1 else ")"),
        set: ("{", "}"),
        frozenset: ("frozenset({", "})"),
        dict: ("{", "}"),
    }[kind]
    inner = column + len(start)
    parts = []
    for element in _elements(value, kind):
        if len(parts) == LONGEST:
            parts.append("...")
            break
        if kind is dict:
            key = _layout(element, inner, 2, parents) + ": "
            column_of_value = inner + len(key.rsplit("\n", 1)[-1])
            parts.append(key + _layout(value[element], column_of_value, 1, parents))
        else:
            parts.append(_layout(element, inner, 1, parents))
    line = start + ", ".join(parts) + end
    if "\n" not in line and column + len(line) + after <= WIDTH:
        return line
    return start + (",\n" + " " * inner).join(parts) + end


def _elements(value, kind):
    if kind in (set, frozenset):
        try:
            return sorted(value)
        except Exception:
            return list(value)
    return value


def _own(function, value, column, parents):
    """Returns the text of an object with a `_repr_pretty_` method or a registered printer."""
    printer = Printer(column, parents + (id(value),))
    try:
        function(value, printer, False)
    except Exception:
        return repr(value)
    return printer.getvalue()


class Printer(object):
    """Printer passed to `_repr_pretty_`. Groups stay on one line."""

    def __init__(self, column, parents):
        self._column = column
        self._parents = parents
        self._parts = []

    def getvalue(self):
        return "".join(self._parts)

    def text(self, text):
        self._parts.append(text)

    def pretty(self, value):
        self.text(_layout(value, self._column, 0, self._parents))

    def breakable(self, separator=" "):
        self.text(separator)

    def break_(self):
        self.text("\n")

    def begin_group(self, indent=0, open=""):
        self.text(open)

    def end_group(self, dedent=0, close=""):
        self.text(close)

    @contextlib.contextmanager
    def group(self, indent=0, open="", close=""):
        self.text(open)
        yield
        self.text(close)

    @contextlib.contextmanager
    def indent(self, indent):
        yield


def _name(value):
    """Returns the name of a class or function, with its module unless it is a builtin."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", value.__name__)
    return name if module in (None, "builtins") else "%s.%s" % (module, name)


def _function(value):
    try:
        signature = str(inspect.signature(value))
    except Exception:
        signature = "(...)"
    return "<function %s%s>" % (_name(value), signature)
