"""The user's browser, which shows the page."""

import threading
import webbrowser
from urllib.parse import urlencode, urlsplit


def open_browser(url: str, token: str | None) -> None:
    """Open the page in a browser, if there is one. The address has the token, which the page puts into a cookie."""
    if token is not None:
        path = url if urlsplit(url).path else f"{url}/"
        url = f"{path}{'&' if urlsplit(url).query else '?'}{urlencode({'token': token})}"
    # Some browsers block the process that has started them.
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
