"""Errors as notebooks show them: every frame with the lines around it and an arrow at the one that failed."""

import inspect
import linecache
import os
import traceback

RULER = "-" * 75
# Lines shown before and after the one that failed.
AROUND = 2
# Frames at either end of a deep recursion.
FRAMES_SHOWN = 20


def describe(error, is_ours):
    """Returns name, value and traceback of an exception; `is_ours` tells the files of the kernel itself.

    Never raises: an exception from here would lose the error that the client has to see.
    """
    try:
        return _described(error, is_ours)
    except Exception:
        # Exceptions, frames and loaders are objects of the cell; accessing any of them may raise.
        name, value = type(error).__name__, text_of(error)
        return {"name": name, "value": value, "traceback": _plain_traceback(error, "%s: %s" % (name, value))}


def _plain_traceback(error, otherwise):
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False))
    except Exception:
        return otherwise


def _described(error, is_ours):
    name, value = type(error).__name__, text_of(error)
    if isinstance(error, SyntaxError) and not _frames(error, is_ours):
        text = _syntax_error(error)
    elif isinstance(error, SystemExit):
        text = "An exception has occurred, use %%tb to see the full traceback.\n\nSystemExit: %s" % value
    else:
        text = "\n".join(_chain(error, is_ours, set()))
    return {"name": name, "value": value, "traceback": text}


def text_of(error):
    try:
        return str(error)
    except BaseException:
        return "<exception str() failed>"


def _chain(error, is_ours, seen):
    seen.add(id(error))
    lines = []
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen:
        lines += _chain(cause, is_ours, seen)
        lines += ["", "The above exception was the direct cause of the following exception:", ""]
    elif context is not None and not error.__suppress_context__ and id(context) not in seen:
        lines += _chain(context, is_ours, seen)
        lines += ["", "During handling of the above exception, another exception occurred:", ""]
    name = type(error).__name__
    lines += [RULER, name + "Traceback (most recent call last)".rjust(75 - len(name))]
    frames = _frames(error, is_ours)
    skipped = len(frames) - 2 * FRAMES_SHOWN
    for number, (frame, line) in enumerate(frames):
        if skipped > 0 and FRAMES_SHOWN <= number < FRAMES_SHOWN + skipped:
            if number == FRAMES_SHOWN:
                lines += ["    [... skipping %d frames]" % skipped, ""]
            continue
        lines += _frame(frame, line) + [""]
    value = text_of(error)
    lines.append(_syntax_error(error) if isinstance(error, SyntaxError) else "%s: %s" % (name, value) if value else name)
    for note in getattr(error, "__notes__", None) or ():
        lines.append(str(note))
    return [line.rstrip("\n") for line in lines]


def _frames(error, is_ours):
    found = []
    step = error.__traceback__
    while step is not None:
        if not is_ours(step.tb_frame.f_code.co_filename):
            found.append((step.tb_frame, step.tb_lineno))
        step = step.tb_next
    return found


def _frame(frame, line):
    path, name = frame.f_code.co_filename, frame.f_code.co_name
    called = "" if name == "<module>" else ", in %s%s" % (name, _arguments(frame))
    if path.startswith("Cell In["):
        head = "%s, line %s%s" % (path, line, called)
    else:
        head = "File %s:%s%s" % (os.path.abspath(path) if os.path.exists(path) else path, line, called)
    lines = _source_lines(path, frame)
    # Compiled extensions (pandas, NumPy), generated code and frozen modules have no source.
    if line is None or not 1 <= line <= len(lines):
        return [head]
    first, last = max(line - AROUND, 1), min(line + AROUND, len(lines))
    # Cells are often shown completely; empty lines at either end are dropped.
    while first < line and not lines[first - 1].strip():
        first += 1
    while last > line and not lines[last - 1].strip():
        last -= 1
    shown = [head]
    for number in range(first, last + 1):
        mark = "-" * (5 - len(str(number))) + "> " if number == line else " " * (7 - len(str(number)))
        shown.append("%s%d %s" % (mark, number, lines[number - 1].rstrip("\n")))
    return shown


def _source_lines(path, frame):
    try:
        return linecache.getlines(path, frame.f_globals)
    except Exception:
        # The loader of a module may raise anything.
        return []


def _arguments(frame):
    if frame.f_code.co_name.startswith("<"):
        return ""
    try:
        names = inspect.getargs(frame.f_code)
    except Exception:
        return "()"
    listed = list(names.args)
    listed += ["*" + names.varargs] if names.varargs else []
    listed += ["**" + names.varkw] if names.varkw else []
    return "(%s)" % ", ".join(listed)


def _syntax_error(error):
    path = str(error.filename)
    where = path if path.startswith("Cell In[") else "File " + path
    lines = ["  %s, line %s" % (where, error.lineno)]
    text = (error.text or "").rstrip("\n")
    if text.strip():
        shown = text.lstrip()
        lines.append("    " + shown)
        if error.offset:
            lines.append("    " + " " * max(error.offset - 1 - (len(text) - len(shown)), 0) + "^")
    lines.append("%s: %s" % (type(error).__name__, error.msg))
    return "\n".join(lines)
