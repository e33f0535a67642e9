"""Lists and dictionaries as JSON, where everything in them has a meaning there."""

import dataclasses
import datetime
import enum
import math
import uuid

# Deeper than this is most likely a cycle.
DEEPEST = 254
# Larger integers lose precision in other JSON parsers.
LEAST, MOST = -(2**63), 2**64 - 1


class NotPlain(Exception):
    """Raised for a value that JSON cannot represent."""


def plain(value, depth=0):
    """Converts a value to JSON types, or raises NotPlain."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if isinstance(value, str):
        return _encodable(str(value))
    if isinstance(value, int):
        if not LEAST <= value <= MOST:
            raise NotPlain()
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if depth > DEEPEST:
        raise NotPlain()
    if isinstance(value, dict):
        return {_key(key): plain(element, depth + 1) for key, element in value.items()}
    # A named tuple is more than its elements.
    if isinstance(value, list) or type(value) is tuple:
        return [plain(element, depth + 1) for element in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: plain(getattr(value, name, None), depth + 1) for name in names}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        inside = value.tolist()
        # numpy returns types without a Python equivalent unchanged.
        if type(inside) is not type(value):
            return plain(inside, depth + 1)
    raise NotPlain()


def _encodable(text):
    try:
        text.encode()
    except UnicodeError:
        raise NotPlain()
    return text


def _key(key):
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    key = plain(key)
    if isinstance(key, (list, dict)):
        raise NotPlain()
    return "null" if key is None else str(key)
