"""The warm-up read off recorded curves of cross entropy, in three ways, beside the warm-ups the paper chose.

    python experiments/warmup_rule.py results

docs/tuning.md holds the same table.
"""

import sys
from pathlib import Path

from marvel.report.tables import warmups

if __name__ == "__main__":
    print(warmups(Path(sys.argv[1] if len(sys.argv) > 1 else "results")))
