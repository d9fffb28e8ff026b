"""Downloads with a checksum and a progress bar."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from whorl.data.trouble import reason
from whorl.errors import WhorlError


def cache() -> Path:
    """The user's cache folder."""
    import pooch

    return Path(pooch.os_cache("whorl"))


def fetch(url: str, checksum: str, target: Path) -> Path:
    """Download ``url`` to ``target`` unless it is already there. A failed download leaves no file behind."""
    import pooch

    advice = f"or download {target.name} by other means and set `data_dir` to its path"
    try:
        with Bar(target.name) as bar:
            # A longer timeout and larger chunks than pooch's defaults, because the server is sometimes slow.
            get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=60)
            pooch.retrieve(url, known_hash=f"md5:{checksum}", fname=target.name, path=target.parent, downloader=get)
    except ValueError as error:
        raise WhorlError(
            f"the file downloaded from {url} does not have the expected md5 {checksum}; try again, {advice}"
        ) from error
    except OSError as error:  # all errors of requests are OSErrors
        why = f"cannot download {url} to {target.parent} ({reason(error)})"
        raise WhorlError(f"{why}; check the network, {advice}") from error
    return target


class Bar:
    """A progress bar with the methods pooch expects (``total``, ``update``, ``reset``, ``close``), drawn by rich."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task(title, total=None)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def total(self) -> float | None:
        """Size of the download in bytes. pooch sets it when the server has answered; then the bar appears."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count or None)
        self._progress.start()

    def update(self, count: int) -> None:
        """Advance the bar by ``count`` bytes."""
        self._progress.advance(self._task, count)

    def reset(self) -> None:
        """Set the bar back to zero."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Stop drawing the bar."""
        self._progress.stop()
