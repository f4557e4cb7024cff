#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count the sub-tests in a Meson junit report: prints "passed failed skipped"; with --report, names the failed and skipped ones on stderr."""
import sys
import xml.etree.ElementTree as ElementTree


def count(path, label):
    passed = failed = skipped = 0
    try:
        suites = ElementTree.parse(path).getroot().iter("testsuite")
    except (OSError, ElementTree.ParseError) as problem:
        print(f"FAILED  {label}: no test report: {problem}", file=sys.stderr)
        return 0, 1, 0
    for suite in suites:
        cases = suite.findall("testcase")
        bad_here = 0
        for case in cases:
            name = f"{suite.get('name')}: {case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                bad_here += 1
                print(f"FAILED  {label}: {name}", file=sys.stderr)
            elif case.find("skipped") is not None:
                skipped += 1
                reason = (case.find("skipped").get("message") or case.find("skipped").text or "").strip()
                print(f"skipped {label}: {name}{': ' + reason if reason else ''}", file=sys.stderr)
            else:
                passed += 1
        # a cmocka test that ends early says so in a comment (tests/unit/test.h) and was counted as passed above
        for line in (suite.findtext("system-out") or "").splitlines():
            if line.startswith("# SKIP "):
                passed, skipped = passed - 1, skipped + 1
                print(f"skipped {label}: {suite.get('name')}: {line[len('# SKIP '):]}", file=sys.stderr)
        # a program that crashed, timed out or broke its plan has no failing case of its own
        whole = int(suite.get("errors", 0)) + int(suite.get("failures", 0))
        if whole > bad_here:
            failed += whole - bad_here
            print(f"FAILED  {label}: {suite.get('name')}: the program as a whole", file=sys.stderr)
    if passed + failed + skipped == 0:
        print(f"FAILED  {label}: the report holds no test", file=sys.stderr)
        failed = 1
    return passed, failed, skipped


if __name__ == "__main__":
    label = sys.argv[3] if len(sys.argv) > 3 and sys.argv[2] == "--report" else sys.argv[1]
    print(*count(sys.argv[1], label))
