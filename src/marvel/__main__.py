"""`python -m marvel` is the command `marvel`."""

from marvel.cli import main

if __name__ == "__main__":
    main()
