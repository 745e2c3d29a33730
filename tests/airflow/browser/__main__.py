"""Install the browser before the tests need it: `python -m tests.airflow.browser`."""

from __future__ import annotations

from tests.airflow.browser.chromium import find

if __name__ == "__main__":
    print(*find(), sep="\n")
