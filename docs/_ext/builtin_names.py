"""Keep the names of built-in types in annotations from linking to fields of the same name.

Sphinx looks a bare ``bytes`` up among all documented names and finds, say, a property that counts
bytes. A built-in type has no page here, so its name stays plain text.
"""

import builtins
from typing import Any

from docutils import nodes
from sphinx import addnodes


def unlink(_app: Any, doctree: nodes.document) -> None:
    """Replace each reference to a built-in type by its bare name."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        target = reference.get("reftarget", "")
        if reference.get("refdomain") == "py" and hasattr(builtins, target):
            reference.replace_self(nodes.Text(target))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
