"""Known vulnerabilities of the pinned set: one line where there are none, where there are some their names.

python .ci/audit.py requirements.lock
"""

import json
import subprocess
import sys

UNREACHABLE = "audit: PyPI's advisories could not be reached from here, so nothing is known about {}"


def main(lock: str) -> int:
    words = ["pip-audit", "-r", lock, "--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(
        [sys.executable, "-m", words[0].replace("-", "_"), *words[1:]], capture_output=True, text=True
    )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(
            UNREACHABLE.format(lock), f"({done.stderr.strip().splitlines()[-1][:200] if done.stderr else 'no answer'})"
        )
        return 0
    known = [one for one in found if "skip_reason" not in one]
    if not known:
        print(UNREACHABLE.format(lock), f"({len(found)} packages)")
        return 0
    bad = [(one, each) for one in known for each in one["vulns"]]
    for one, each in bad:
        print(
            f"{one['name']} {one['version']}: {each['id']}, mended in {', '.join(each['fix_versions']) or 'no version'}"
        )
    unknown = f"; {len(found) - len(known)} are not known to it" if len(known) < len(found) else ""
    print(f"audit: {len(known)} packages, {len(bad)} known vulnerabilities{unknown}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
