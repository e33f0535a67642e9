#!/usr/bin/env python3
"""Prints the ten slowest tests of a JUnit file, and where the time went by test binary."""

import collections
import sys
import xml.etree.ElementTree

tests = []
binaries = collections.Counter()
for suite in xml.etree.ElementTree.parse(sys.argv[1]).getroot():
    for case in suite.iter("testcase"):
        seconds = float(case.get("time", 0))
        tests.append((seconds, suite.get("name"), case.get("name")))
        binaries[suite.get("name")] += seconds
print(f"\nslowest of {len(tests)} tests ({sys.argv[1]}):")
for seconds, suite, name in sorted(tests, reverse=True)[:10]:
    print(f"  {seconds:7.1f} s  {suite} {name}")
print("most time by test binary:")
for suite, seconds in binaries.most_common(5):
    print(f"  {seconds:7.1f} s  {suite}")
