"""`python -m rmq_cli`, where `rmq` is not on the path."""

from __future__ import annotations

from rmq_cli import main

if __name__ == "__main__":
    main()
