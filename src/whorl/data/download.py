"""Checked downloads with a progress bar."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from whorl.data.trouble import reason
from whorl.errors import WhorlError


def cache() -> Path:
    """The user's cache folder."""
    import pooch

    return Path(pooch.os_cache("whorl"))


def md5(path: Path) -> str:
    """Checksum of a file."""
    import pooch

    return str(pooch.file_hash(str(path), alg="md5"))


def fetch(url: str, checksum: str, target: Path) -> Path:
    """``target`` with the content of ``url``; nothing is downloaded if it has that already, nothing half is left."""
    import pooch

    advice = f"or get it by other means and say where it lies with --data-dir {target.name}"
    try:
        with Bar(target.name) as bar:
            # Longer waits and larger chunks than pooch's own: the server is slow at times, the file is not small.
            get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=60)
            pooch.retrieve(url, known_hash=f"md5:{checksum}", fname=target.name, path=target.parent, downloader=get)
    except ValueError as error:
        raise WhorlError(f"what {url} sent has not the known md5 {checksum}; try again, {advice}") from error
    except OSError as error:  # every error of requests is one
        why = f"cannot download {url} to {target.parent} ({reason(error)})"
        raise WhorlError(f"{why}; check the network, {advice}") from error
    return target


class Bar:
    """pooch's idea of a progress bar (``total``, ``update``, ``reset``, ``close``), drawn by rich on stderr."""

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
        """Bytes to come. pooch sets it once the server has answered, and only then is there a bar to show."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count or None)
        self._progress.start()

    def update(self, count: int) -> None:
        """``count`` more bytes."""
        self._progress.advance(self._task, count)

    def reset(self) -> None:
        """Back to nothing."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Takes the bar down."""
        self._progress.stop()
