"""A hook of ProperDocs: `.. seealso::` in a docstring of the Airflow provider becomes a link to the guide it names.

Airflow's convention names an anchor, `howto/<kind>:<class>`; the page that has this anchor is searched for.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SEE_ALSO = re.compile(r"<p>\.\. seealso::\s*:ref:<code>(howto/\w+:\w+)</code></p>")


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Replace the directives in the HTML of a page."""
    return SEE_ALSO.sub(lambda found: _link(found[1], page, Path(config["docs_dir"]), files), html)


def _link(anchor: str, page: Any, docs: Path, files: Any) -> str:
    (guide,) = [path for path in docs.rglob("*.md") if f'id="{anchor}"' in path.read_text("utf-8")]
    target = files.get_file_from_path(str(guide.relative_to(docs)))
    return f'<p>Guide: <a href="{target.page.file.url_relative_to(page.file)}#{anchor}">{target.page.title}</a></p>'
