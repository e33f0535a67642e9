#!/usr/bin/env python3
"""Checks the words of comments, documents, messages and names against CONTRIBUTING.md, "Prose".

    scripts/check-words.py [--summary] [PATH...]

Prints `path:line: problem` for every hit and exits with 1 if there are any; `--summary` prints only
counts by crate or directory. Checked are all tracked *.rs, *.proto, *.py, *.sh and *.md files:

- words that name people or rooms instead of tasks, callers, peers, sockets and locks
- doc comments that start with a question word instead of a verb or a noun
- function names of more than 60 characters
- constants named by a superlative (`MOST_…`, `PATIENCE`) instead of by what they limit
- comments and Markdown of more than 100 columns, except tables, code blocks and links

Not checked are code spans in back-ticks, quotations in Markdown, and strings without a space, which
are identifiers. A line with `words-ok: REASON`, or after one, is skipped.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_COLUMNS = 100
MAX_NAME = 60
MARKER = "words-ok"
SKIPPED = re.compile(r"^(fuzz/seeds/|CHANGELOG\.md$|scripts/check-words\.py$)")

# (pattern, better words). Each is a phrase that has hardly any other use in this code.
BANNED = [
    (r"nobody|somebody|anybody|everybody|whoever|whomever", "the task, caller, peer, process or uid"),
    (r"(is|are|was|were|be|been|being) told", "receives, is notified, gets an error"),
    (r"stands(?! for\b)", "is"),
    (r"(come|comes|came) past", "passes"),
    (r"(look|looks|looked|looking) into", "inspects, reads"),
    (r"(?<!there )(is|are|was|were) none", "is not a …, does not exist"),
    (r"a while(?! loop)", "a time or a limit"),
    (r"so many|so long(?! as\b)", "the number or the limit"),
    (r"patience|breath", "timeout, deadline, delay"),
    (r"door|doors|mouth", "socket, route, file descriptor, `cgroup.procs`"),
    (r"neighbours?(?! (?:add|entr|discov))", "another session, box or process"),
    (r"stranger|strangers|visitor|visitors|gatekeeper", "caller, peer, unknown id"),
    (r"for want of|good for nothing|in vain", "without, because of missing …"),
]
# Only in comments and names: documents speak about people, and strings hold SQL and shell commands.
BANNED_IN_COMMENTS = [
    (r"who|whom", "the task, caller, peer, process or uid"),
    (r"hear|hears|heard", "receives, reads"),
]
QUESTION = re.compile(r"(What|Who|Whom|Whose|Where|Which|How|That)\b")
SUPERLATIVE = re.compile(
    r"\b(?:const|static)\s+"
    r"((?:PATIENCE|MOST|LONGEST|LARGEST|FEWEST|BREATH|A_WHILE|DYING)(?:_\w+)?)\s*:"
)
FUNCTION = re.compile(r"\bfn\s+(\w+)|^\s*(?:async\s+)?def\s+(\w+)")
LINK = re.compile(r"https?://|\]\(|^\s*\[[^\]]+\]:")


def compiled(table):
    return [(re.compile(rf"(?<![\w`-])({words})(?![\w`-])", re.I), better) for words, better in table]


COMMENT_RULES = compiled(BANNED + BANNED_IN_COMMENTS)
PROSE_RULES = compiled(BANNED)

# Comments and literals of Rust and of protobuf.
RUST = re.compile(
    r"""(?P<line>//[^\n]*)
      | (?P<block>/\*.*?\*/)
      | (?P<raw>b?r(?P<hashes>\#*)".*?"(?P=hashes))
      | (?P<text>b?"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\[^\n']+|[^\\\n'])')""",
    re.X | re.S,
)
SCRIPT = re.compile(
    r"""(?P<line>(?:(?<=^)|(?<=\s))\#[^\n]*)
      | (?P<text>\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.X | re.S | re.M,
)


def plain(text):
    """Returns prose without code spans and format placeholders, in which words are identifiers."""
    return re.sub(r"`[^`\n]*`|\{[^{}\n]*\}", "``", text)


def words(text, rules):
    for pattern, better in rules:
        for found in pattern.finditer(plain(text)):
            yield f'"{found[0]}"; better: {better}'


def comments_and_strings(source, pattern):
    """Yields (offset, problem) for comments and strings of code."""
    for token in pattern.finditer(source):
        kind, text = token.lastgroup, token[0]
        if kind == "hashes":
            kind = "raw"
        if kind == "char" or (kind in ("text", "raw") and " " not in text):
            continue
        rules = PROSE_RULES if kind in ("text", "raw") else COMMENT_RULES
        offset = token.start()
        for line in text.split("\n"):
            for problem in words(line, rules):
                yield offset, problem
            offset += len(line) + 1


def code(path, source):
    is_rust = path.suffix in (".rs", ".proto")
    for offset, problem in comments_and_strings(source, RUST if is_rust else SCRIPT):
        yield source.count("\n", 0, offset) + 1, problem
    sign = "//" if is_rust else "#"
    is_inside_doc = False
    for number, line in enumerate(source.split("\n"), start=1):
        stripped = line.strip()
        doc = re.match(r"// ?(.*)" if path.suffix == ".proto" else r"//[/!] ?(.*)", stripped)
        if doc and not is_inside_doc and QUESTION.match(doc[1]):
            yield number, f'doc comment starts with "{doc[1].split()[0]}"; start with a verb or the noun'
        is_inside_doc = bool(doc)
        if stripped.startswith(sign) and len(line) > MAX_COLUMNS and not LINK.search(line):
            yield number, f"comment has {len(line)} columns"
        for found in FUNCTION.finditer(line):
            name = found[1] or found[2]
            if len(name) > MAX_NAME:
                yield number, f"name `{name}` has {len(name)} characters"
            for problem in words(name.replace("_", " "), COMMENT_RULES):
                yield number, f"name `{name}`: {problem}"
        for found in SUPERLATIVE.finditer(line):
            yield number, f"constant `{found[1]}`; name what it limits"


def prose(source):
    is_code = False
    for number, line in enumerate(source.split("\n"), start=1):
        if re.match(r"\s*(```|~~~)", line):
            is_code = not is_code
            continue
        if is_code:
            continue
        unquoted = re.sub(r'"[^"\n]*"|“[^”\n]*”', '""', line)
        for problem in words(unquoted, PROSE_RULES):
            yield number, problem
        if len(line) > MAX_COLUMNS and not line.lstrip().startswith("|") and not LINK.search(line):
            yield number, f"line has {len(line)} columns"


def problems(path):
    source = (ROOT / path).read_text(errors="replace")
    lines = source.split("\n")
    found = prose(source) if path.suffix == ".md" else code(path, source)
    for number, problem in sorted(set(found)):
        if not any(MARKER in line for line in lines[max(0, number - 2) : number]):
            yield number, problem


def tracked(arguments):
    patterns = ["*.rs", "*.proto", "*.py", "*.sh", "*.md"]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in sorted(set(listed.split("\0"))):
        if name and not SKIPPED.match(name) and (ROOT / name).is_file():
            if not arguments or any(name.startswith(argument) for argument in arguments):
                yield pathlib.Path(name)


def group(path):
    return "/".join(path.parts[:2]) if path.parts[0] == "crates" else path.parts[0]


def main():
    arguments = sys.argv[1:]
    is_summary = "--summary" in arguments
    counts = collections.Counter()
    for path in tracked([argument for argument in arguments if argument != "--summary"]):
        for number, problem in problems(path):
            counts[group(path)] += 1
            if not is_summary:
                print(f"{path}:{number}: {problem}")
    if is_summary:
        for name, count in counts.most_common():
            print(f"{count:6} {name}")
    if counts:
        print(f"{counts.total()} problems; the rules are in CONTRIBUTING.md, Prose", file=sys.stderr)
    sys.exit(1 if counts else 0)


main()
