"""`python -m rmq_core.cli`, where `rmq` is not on the path."""

from __future__ import annotations

from rmq_core.cli import main

if __name__ == "__main__":
    main()
