#!/usr/bin/env python3
"""Sums up `go test -json`: failures with their output, skips with their reasons, counts."""
import collections, json, sys

output = collections.defaultdict(list)
result, broken = {}, []
for line in open(sys.argv[1], errors="replace"):
    try:
        event = json.loads(line)
    except ValueError:
        broken.append(line)
        continue
    key = (event.get("Package") or event.get("ImportPath"), event.get("Test"))
    if event["Action"] in ("output", "build-output"):
        output[key].append(event["Output"])
    elif event["Action"] in ("pass", "fail", "skip", "build-fail"):
        result[key] = event["Action"]

count = collections.Counter()
for (package, test), action in result.items():
    if test:
        count[action] += 1
    if action in ("fail", "build-fail"):
        print(f"--- {action}: {package} {test or ''}")
        print("".join(output[package, test])[-8000:])
    elif action == "skip" and test:
        why = [l.strip() for l in output[package, test] if not l.startswith(("===", "---")) and l.strip()]
        print(f"not proven: {package} {test}: {' '.join(why)}")
print("".join(broken)[-4000:], end="")
packages = sum(1 for (_, test), a in result.items() if not test and a == "pass")
print(f"{packages} packages ok")
print(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} skipped")
sys.exit(1 if any(a in ("fail", "build-fail") for a in result.values()) else 0)
