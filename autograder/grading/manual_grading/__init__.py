"""Read the answers of a class one exercise at a time: pages beside formgrader, on its server.

`make read UNIT=05` opens them; formgrader's pages of manual grading link to them. The server's
token protects them. They write points and comments into the gradebook, and nothing else.
"""


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where Jupyter's server finds what loads the pages."""
    return [{"module": f"{__name__}.pages"}]
