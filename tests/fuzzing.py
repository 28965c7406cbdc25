"""One reader of `test_hostile.py` under atheris, which looks for inputs that reach code no other has reached.

python tests/fuzzing.py KIND FOLDER -max_total_time=60
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["marvel.data", "marvel.config", "marvel.runs", "marvel.networks.weights"]):
    from test_hostile import READERS, refused


def main() -> None:
    kind, folder = sys.argv.pop(1), Path(sys.argv.pop(1))
    make, name, read = READERS[kind]
    make(folder)
    path = folder / name
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "good").write_bytes(path.read_bytes())

    def once(content: bytes) -> None:
        path.write_bytes(content)
        refused(lambda: read(path))

    atheris.Setup([*sys.argv, str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
